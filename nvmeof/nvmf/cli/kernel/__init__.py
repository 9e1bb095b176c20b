# SPDX-License-Identifier: BSD-3-Clause
"""`nvmeof connect`, `disconnect`, `list` and related commands: the initiator in the kernel."""
