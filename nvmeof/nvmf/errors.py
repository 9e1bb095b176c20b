# SPDX-License-Identifier: BSD-3-Clause
"""The base class of all exceptions that this project raises to its callers.

`except nvmf.errors.Error` catches each of them, whichever part raises it.  Exceptions that also
have a builtin meaning derive from the builtin class as well: an error of the engine is an OSError
with its errno, a lost connection is a ConnectionError.  Wrong arguments are a ValueError or a
TypeError, as everywhere in Python.
"""

from __future__ import annotations


class Error(Exception):
    """An operation failed; str() is a sentence: what was tried, what happened, what to do."""
