# SPDX-License-Identifier: BSD-3-Clause
"""State that persists across restarts; only this package accesses files of the state folder."""
