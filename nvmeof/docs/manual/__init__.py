# SPDX-License-Identifier: BSD-3-Clause
"""Generator of manual pages, completion scripts, the RPC reference and the RPC clients' methods.

They are made from the parser, the models of the configuration and the target's methods.

`./dev manual` writes them into the tree, from where they are put into the wheel.
"""
