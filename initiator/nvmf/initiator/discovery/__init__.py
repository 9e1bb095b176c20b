# SPDX-License-Identifier: BSD-3-Clause
"""Discovery: the log of a port, its referrals, its changes, and mDNS."""
