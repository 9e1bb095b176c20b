# SPDX-License-Identifier: BSD-3-Clause
"""Counters of a target: sampled at one moment, and exported to Prometheus."""
