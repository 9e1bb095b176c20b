# SPDX-License-Identifier: BSD-3-Clause
# Errors, addresses, tables, devices.


class EngineError(Error, OSError):
    """A call of the engine failed: errno, and a sentence with what was attempted."""

    def __str__(self):
        return self.strerror or super().__str__()


class ConnectError(EngineError):
    """A host queue could not be connected."""

    cm_event = -1
    cm_status = 0
    reject_sts = 0
    nvme_status = 0


cdef object failed(int code, const char *text):
    """Return an EngineError for an errno of either sign and the sentence that C wrote."""
    code = -code if code < 0 else code
    if code == 0:
        code = EIO
    words = text.decode("utf-8", "replace") if text[0] else os.strerror(code)
    return EngineError(code, words)


cdef object connect_failed(int code, host_error *error):
    exception = failed(code, error.text)
    exception = ConnectError(exception.errno, exception.strerror)
    exception.cm_event = error.cm_event
    exception.cm_status = error.cm_status
    exception.reject_sts = error.reject_sts
    exception.nvme_status = error.nvme_status
    return exception


cdef object closed(what):
    return EngineError(EBADF, f"the {what} is closed")


cdef str made_at():
    """Return the location of the calling Python code, file:line."""
    try:
        frame = sys._getframe(0)
    except ValueError:
        return "an unknown place"
    return f"{frame.f_code.co_filename}:{frame.f_lineno}"


cdef int warn_open(handle, str sentence) except -1:
    """Warn that a handle was collected without having been closed."""
    try:
        warnings.warn(sentence, ResourceWarning, stacklevel=2, source=handle)
    except ResourceWarning:
        sys.excepthook(*sys.exc_info())
    return 0


cdef tuple address_of(const sockaddr *addr):
    """Return (numeric host, port) of an IPv4 or IPv6 socket address, or ("", 0)."""
    cdef char host[64]
    cdef char service[16]
    cdef socklen_t length
    if addr.sa_family == AF_INET:
        length = sizeof(sockaddr_in)
    elif addr.sa_family == AF_INET6:
        length = sizeof(sockaddr_in6)
    else:
        return ("", 0)
    if getnameinfo(addr, length, host, sizeof(host), service, sizeof(service),
                   NI_NUMERICHOST | NI_NUMERICSERV) != 0:
        return ("", 0)
    text = host.decode("ascii", "replace")
    if text.startswith("::ffff:") and "." in text:
        text = text[7:]
    return (text, int(service.decode("ascii")))


cdef const verbs *table_of(kind) except? NULL:
    """Return the verbs table of a kind; raise EngineError if it cannot be loaded."""
    cdef char why[ERR]
    cdef const verbs *table
    why[0] = 0
    if kind == "iwarp":
        return verbs_iwarp()
    if kind == "roce":
        return verbs_roce()
    if kind != "system":
        raise ValueError(f"a device is \"iwarp\", \"roce\" or \"system\", not {kind!r}")
    with nogil:
        table = verbs_system(why, ERR)
    if table == NULL:
        raise failed(ENODEV, why)
    return table


def verbs_available(kind):
    """Return None if the table can be loaded, otherwise the reason as a sentence."""
    try:
        table_of(kind)
    except EngineError as error:
        return error.strerror
    return None


cdef bytes congestion_bytes = b""  # what iwarp_options points at


def set_iwarp_options(*, crc=None, congestion=None, mpa_revision=None, first_fpdu_delay_us=None,
                      handshake_timeout_ms=None):
    """Change the options of the embedded device for future connections."""
    global congestion_bytes
    cdef iwarp_options options
    iwarp_get_options(&options)
    if crc is not None:
        options.crc = bool(crc)
    if mpa_revision is not None:
        if mpa_revision not in (1, 2):
            raise ValueError(f"MPA has revisions 1 and 2, not {mpa_revision!r}")
        options.mpa_revision = mpa_revision
    if first_fpdu_delay_us is not None:
        options.first_fpdu_delay_us = first_fpdu_delay_us
    if handshake_timeout_ms is not None:
        options.handshake_timeout_ms = handshake_timeout_ms
    kept = congestion_bytes
    if congestion is not None:
        kept = congestion.encode("ascii")
        options.congestion = PyBytes_AS_STRING(kept) if kept else NULL
    iwarp_set_options(&options)
    congestion_bytes = kept


def start_capture(name):
    """Send the packets of RDMA devices to a Unix socket, as pcapng."""
    cdef char why[ERR]
    cdef bytes where = os.fsencode(name)
    cdef const char *place = where
    cdef int code
    with nogil:
        code = capture_start(place, why, sizeof(why))
    if code != 0:
        raise failed(code, why)


def resources():
    """Return the number of objects of each kind that the embedded device has."""
    cdef const iwarp_live *live = iwarp_get_live()
    return {"pd": live.pd, "mr": live.mr, "mw": live.mw, "cq": live.cq, "srq": live.srq,
            "qp": live.qp, "cm_id": live.cm_id}


TRANSPORTS = {0: "InfiniBand", 1: "iWARP", 2: "usNIC", 3: "usNIC UDP", 4: "unspecified"}
PORT_STATES = {0: "NOP", 1: "DOWN", 2: "INIT", 3: "ARMED", 4: "ACTIVE", 5: "ACTIVE_DEFER"}
LINK_LAYERS = {0: "unspecified", 1: "InfiniBand", 2: "Ethernet"}


cdef int mtu_bytes(int mtu):
    """Return an enum ibv_mtu in bytes."""
    return 128 << mtu if 1 <= mtu <= 5 else 0


cdef dict describe_port(const verbs *table, ibv_context *context, int number):
    cdef ibv_port_attr attr
    cdef ibv_gid gid
    cdef char text[64]
    memset(&attr, 0, sizeof(attr))
    code = table.query_port(context, <uint8_t>number, &attr)
    if code != 0:
        return {"port": number, "state": f"unknown ({os.strerror(abs(code))})", "max_mtu": 0,
                "active_mtu": 0, "link_layer": "unspecified", "gids": []}
    gids = []
    for index in range(max(0, attr.gid_tbl_len)):
        memset(&gid, 0, sizeof(gid))
        if table.query_gid(context, <uint8_t>number, index, &gid) != 0:
            break
        if any(gid.raw[i] for i in range(16)):
            inet_ntop(AF_INET6, gid.raw, text, sizeof(text))
            gids.append(text.decode("ascii"))
    return {
        "port": number,
        "state": PORT_STATES.get(attr.state, str(attr.state)),
        "max_mtu": mtu_bytes(attr.max_mtu),
        "active_mtu": mtu_bytes(attr.active_mtu),
        "link_layer": LINK_LAYERS.get(attr.link_layer, str(attr.link_layer)),
        "gids": gids,
    }


cdef dict describe_device(const verbs *table, ibv_device *device):
    cdef ibv_device_attr attr
    cdef ibv_context *context
    cdef int code
    name = table.get_device_name(device).decode("utf-8", "replace")
    with nogil:
        context = table.open_device(device)
        code = errno
    if context == NULL:
        raise EngineError(code or EIO, f"cannot open RDMA device {name}: {os.strerror(code)}")
    try:
        memset(&attr, 0, sizeof(attr))
        code = table.query_device(context, &attr)
        if code != 0:
            raise EngineError(abs(code),
                              f"cannot query RDMA device {name}: {os.strerror(abs(code))}")
        ports = [describe_port(table, context, n + 1) for n in range(attr.phys_port_cnt)]
    finally:
        table.close_device(context)
    return {
        "name": name,
        "transport": TRANSPORTS.get(device.transport_type, str(device.transport_type)),
        "fw_ver": attr.fw_ver.decode("utf-8", "replace"),
        "vendor_id": attr.vendor_id,
        "max_qp": attr.max_qp,
        "max_qp_wr": attr.max_qp_wr,
        "max_cq": attr.max_cq,
        "max_cqe": attr.max_cqe,
        "max_mr": attr.max_mr,
        "max_sge": attr.max_sge,
        "max_qp_rd_atom": attr.max_qp_rd_atom,
        "max_qp_init_rd_atom": attr.max_qp_init_rd_atom,
        "ports": ports,
    }


def list_devices(kind):
    """Return the devices of a kind, as described in _engine.pyi."""
    cdef const verbs *table = table_of(kind)
    cdef ibv_device **devices
    cdef int count = 0
    cdef int code
    with nogil:
        devices = table.get_device_list(&count)
        code = errno
    if devices == NULL:
        if kind == "system" and code in (0, ENOSYS):
            return []  # the kernel has no RDMA core: no device
        raise EngineError(code or EIO, f"cannot list the {kind} RDMA devices: "
                                       f"{os.strerror(code or EIO)}")
    try:
        return [describe_device(table, devices[index]) for index in range(count)]
    finally:
        table.free_device_list(devices)
