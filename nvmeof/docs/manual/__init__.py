# SPDX-License-Identifier: BSD-3-Clause
"""Generator of manual pages and completion scripts, from the parser and the models.

`./dev manual` writes them into the tree, from where they are put into the wheel.
"""
