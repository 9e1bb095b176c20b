# SPDX-License-Identifier: BSD-3-Clause
"""Subsystems, controllers, queues and namespaces, and their state in memory."""
