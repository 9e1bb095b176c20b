# SPDX-License-Identifier: BSD-3-Clause
"""Names for the files of keys, as SPDK's RPC has them: what is served knows the files alone."""

from __future__ import annotations

import errno
from functools import partial
from pathlib import Path

from nvmf.auth.key import PREFIX, read_key
from nvmf.target.change.edit import EditError
from nvmf.target.io.files import Files
from nvmf.target.lasting.access import protect

NAME_MOST = 255
"""Characters of a name."""


class KeyringError(EditError):
    """It cannot be so; errno is what SPDK would call it."""

    errno: int

    def __init__(self, number: int, message: str) -> None:
        super().__init__(message)
        self.errno = number


class Keyring:
    """Key files by name.  It lasts as long as the target; no key is in it."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._paths: dict[str, Path] = {}

    async def add(self, name: str, path: Path) -> None:
        """Name a file that has a key now.

        Raises:
            EditError: The file has no key, or the name is taken.
            ServerError: The file system does not answer.
        """
        refuse_key("name", name)
        refuse_key("path", str(path))
        if not 0 < len(name) <= NAME_MOST:
            raise EditError(f"name: expected 1 to {NAME_MOST} characters")
        self._check_free(name)
        if not path.is_absolute():
            raise KeyringError(errno.EPERM, f"path {path}: the path must be absolute")
        protect()
        try:
            await self._files.read(partial(read_key, path, waits=False), str(path))
        except ValueError as error:
            why = error.__cause__
            number = why.errno if isinstance(why, OSError) and why.errno else errno.EINVAL
            raise KeyringError(number, str(error)) from None
        self._check_free(name)  # another request may have taken it meanwhile
        self._paths[name] = path

    def _check_free(self, name: str) -> None:
        if name in self._paths:
            raise KeyringError(errno.EEXIST, f"there is a key {name} already: {self._paths[name]}")

    def remove(self, name: str) -> None:
        """Forget a name; hosts that have the file go on with it."""
        self.find("name", name)
        del self._paths[name]

    def find(self, parameter: str, name: str) -> Path:
        """The file of this name, which the parameter gives; EditError where there is none."""
        refuse_key(parameter, name)
        if name not in self._paths:
            raise KeyringError(
                errno.ENOKEY,
                f"{parameter}: there is no key {name}: keyring_file_add_key gives a file a name",
            )
        return self._paths[name]

    def all(self) -> dict[str, Path]:
        """Files by name."""
        return dict(sorted(self._paths.items()))


def refuse_key(parameter: str, value: str) -> None:
    """EditError where a key itself was given, which is not repeated."""
    if PREFIX in value:
        raise EditError(
            f"{parameter} is to say where a key is, not what it is: put it into a file that only "
            "the target can read"
        )
