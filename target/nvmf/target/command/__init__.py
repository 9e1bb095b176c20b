# SPDX-License-Identifier: BSD-3-Clause
"""One command and how it waits: requests, completions, events, gates."""
