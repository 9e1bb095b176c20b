# SPDX-License-Identifier: BSD-3-Clause
"""RDMA devices: their list (inventory), and their addition and removal (hotplug)."""
