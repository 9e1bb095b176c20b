# SPDX-License-Identifier: BSD-3-Clause
"""What a target writes about itself: for people, programs and the journal, and not too much."""

from nvmf.target.logs.output import FORMATS, TELL_EVERY, LogOutput

__all__ = ["FORMATS", "TELL_EVERY", "LogOutput"]
