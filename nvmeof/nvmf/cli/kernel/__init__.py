# SPDX-License-Identifier: BSD-3-Clause
"""`nvmeof connect` and its like: the initiator through the kernel."""
