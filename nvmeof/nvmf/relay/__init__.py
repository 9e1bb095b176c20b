# SPDX-License-Identifier: BSD-3-Clause
"""A relay between hosts and targets on the embedded devices, which causes faults on the wire.

The storage lab has one before the targets that it measures, a target before the ports that ask for
it (``wire_faults``).  A connection without a relay does not pay for it.

Modules, from the bottom up; each imports only those before it:

- ``errors``: the one exception
- ``frames``: FPDUs in a TCP stream, and the ICRC of RoCEv2
- ``owner``: the host, queue and namespace that a frame belongs to
- ``fault``: the frames that a fault concerns, and what happens to those
- ``wire``: what the directions of connections share
- ``tcp``, ``udp``: connections of iWARP and of RoCEv2
- ``relays``: all of them on a thread of its own
"""
