# SPDX-License-Identifier: BSD-3-Clause
"""What a caller connects with: by the client or the kernel, and to all that discovery finds."""
