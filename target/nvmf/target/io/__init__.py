# SPDX-License-Identifier: BSD-3-Clause
"""The only user of the engine: connections, ports, and the stores behind namespaces."""
