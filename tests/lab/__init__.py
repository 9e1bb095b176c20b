# SPDX-License-Identifier: BSD-3-Clause
"""A virtual machine with the real kernel RDMA stack, and the tests that run with it.

``./dev lab`` runs it.  `prepare` fetches a Debian kernel and builds siw for it, `initramfs` and
`agent` are the files that the machine starts, `guest` is the machine, `network` its network
connection, `kernel` drives the kernel's own target and host in it, and the tests are the rows of
the matrix.
"""
