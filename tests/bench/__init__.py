# SPDX-License-Identifier: BSD-3-Clause
"""Benchmarks and the demonstration: programs, not tests."""
