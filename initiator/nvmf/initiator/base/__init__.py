# SPDX-License-Identifier: BSD-3-Clause
"""What every room uses: options, addresses, errors, and what the client and the kernel share."""
