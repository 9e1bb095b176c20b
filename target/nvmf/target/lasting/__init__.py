# SPDX-License-Identifier: BSD-3-Clause
"""What outlives a restart: the only owner of the files of the state folder."""
