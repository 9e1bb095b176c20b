# SPDX-License-Identifier: BSD-3-Clause
"""The script with which Wireshark and tshark show NVMe-oF over iWARP."""

from __future__ import annotations

from pathlib import Path


def lua_script() -> Path:
    """Return the path of the script."""
    return Path(__file__).with_name("nvmeof.lua")
