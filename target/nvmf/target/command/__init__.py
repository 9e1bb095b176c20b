# SPDX-License-Identifier: BSD-3-Clause
"""Requests, completions, asynchronous events and gates: the state of commands in progress."""
