# SPDX-License-Identifier: BSD-3-Clause
"""What each command does: a handler takes a command and a clock and returns a completion."""
