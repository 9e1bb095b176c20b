# SPDX-License-Identifier: BSD-3-Clause
"""A change of the configuration: the difference to the last one, and how it is applied."""
