# SPDX-License-Identifier: BSD-3-Clause
"""Changes of the configuration: the difference from the current one, and its application."""
