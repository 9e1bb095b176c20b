# SPDX-License-Identifier: BSD-3-Clause
"""Error codes of SPDK's methods."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from nvmf.rpc.errors import RpcError
from nvmf.target.change.edit import EditError, NoSuchSubsystem
from nvmf.target.io.stores import ServerError


@contextlib.contextmanager
def spdk_says(code: int) -> Iterator[None]:
    """Give the errors of an SPDK method in this block the code that SPDK uses.

    A missing subsystem is an invalid parameter in all of these methods.
    """
    try:
        yield
    except NoSuchSubsystem:
        raise
    except (EditError, ServerError) as error:
        raise RpcError(code, str(error)) from None
