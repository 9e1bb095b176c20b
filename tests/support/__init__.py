# SPDX-License-Identifier: BSD-3-Clause
"""Helpers of the tests: fakes, labs, rigs, hosts and targets made of `wire`, and the pytest plugins
that every run loads.
"""
