# SPDX-License-Identifier: BSD-3-Clause
"""A running target: the server, its administration, and its announcements."""
