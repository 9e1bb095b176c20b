# SPDX-License-Identifier: BSD-3-Clause
"""RDMA devices: which there are (inventory), and their coming and going (hotplug)."""
