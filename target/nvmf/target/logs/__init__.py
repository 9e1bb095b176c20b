# SPDX-License-Identifier: BSD-3-Clause
"""Log output of a target: for people, programs and the journal, limited in rate."""

from nvmf.target.logs.output import FORMATS, TELL_EVERY, LogOutput

__all__ = ["FORMATS", "TELL_EVERY", "LogOutput"]
