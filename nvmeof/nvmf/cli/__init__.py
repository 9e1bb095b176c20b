# SPDX-License-Identifier: BSD-3-Clause
"""The command line, `nvmeof`: one module for each family of subcommands."""
