# SPDX-License-Identifier: BSD-3-Clause
"""Command handlers: each takes a command and the time, and returns a completion."""
