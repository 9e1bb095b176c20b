# SPDX-License-Identifier: BSD-3-Clause
"""What is made of the parser and the models: manual pages, and scripts of shells.

`./dev manual` writes them into the tree, where the wheel takes them from.
"""
