# SPDX-License-Identifier: BSD-3-Clause
"""What a port offers: its discovery log, the referrals in it, its changes, and mDNS."""
