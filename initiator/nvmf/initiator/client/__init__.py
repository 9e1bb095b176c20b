# SPDX-License-Identifier: BSD-3-Clause
"""The client itself: a controller, its sessions, and the queues and namespaces that these have."""
