# SPDX-License-Identifier: BSD-3-Clause
"""The target: subsystems, controllers, discovery, and the server that puts them on the engine.

Everything but ``server`` and ``connection`` is sans-IO: a handler takes a command and a clock and
returns a completion.  All of it runs on one thread, the event loop's.
"""
