# SPDX-License-Identifier: BSD-3-Clause
"""The base of all rooms: options, addresses, errors, and code of both client and kernel."""
