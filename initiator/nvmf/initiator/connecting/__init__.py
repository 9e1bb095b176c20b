# SPDX-License-Identifier: BSD-3-Clause
"""The functions that connect: by the client or the kernel, to one subsystem or to all."""
