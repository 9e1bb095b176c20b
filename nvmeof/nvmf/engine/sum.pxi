# SPDX-License-Identifier: BSD-3-Clause
# Checksums: util/crc32c.h.

cdef extern from "util/crc32c.h" nogil:
    uint32_t c_crc32c "crc32c"(uint32_t crc, const void *data, size_t length)


def crc32c(data, uint32_t crc=0):
    """Return the CRC32C of a contiguous buffer; see _engine.pyi."""
    cdef Py_buffer view
    PyObject_GetBuffer(data, &view, PyBUF_SIMPLE)
    try:
        return c_crc32c(crc, view.buf, <size_t>view.len)
    finally:
        PyBuffer_Release(&view)
