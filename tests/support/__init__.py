# SPDX-License-Identifier: BSD-3-Clause
"""Helpers of the tests: fakes, labs, rigs, and the pytest plugins that every run loads."""
