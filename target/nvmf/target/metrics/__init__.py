# SPDX-License-Identifier: BSD-3-Clause
"""Counters of a target: what is counted, how it is read, and Prometheus' view of it."""
