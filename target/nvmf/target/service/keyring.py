# SPDX-License-Identifier: BSD-3-Clause
"""Names for key files, as in SPDK's RPC; the configuration contains only the files."""

from __future__ import annotations

import errno
from functools import partial
from pathlib import Path

from nvmf.auth.key import PREFIX, read_key
from nvmf.target.change.edit import EditError
from nvmf.target.io.files import Files
from nvmf.target.lasting.access import protect

NAME_MOST = 255
"""Maximum characters of a name."""


class KeyringError(EditError):
    """The request is impossible; errno is the error that SPDK reports."""

    errno: int

    def __init__(self, number: int, message: str) -> None:
        super().__init__(message)
        self.errno = number


class Keyring:
    """Key files by name, for the life of the target; it contains no keys."""

    def __init__(self, files: Files) -> None:
        self._files = files
        self._paths: dict[str, Path] = {}

    async def add(self, name: str, path: Path) -> None:
        """Give a name to a file that contains a key now.

        Raises:
            EditError: The file has no key, or the name is in use.
            ServerError: The file system does not respond.
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
        self._check_free(name)  # a concurrent request may have taken the name
        self._paths[name] = path

    def _check_free(self, name: str) -> None:
        if name in self._paths:
            raise KeyringError(errno.EEXIST, f"key {name} already exists: {self._paths[name]}")

    def remove(self, name: str) -> None:
        """Forget a name; hosts that use the file are not affected."""
        self.find("name", name)
        del self._paths[name]

    def find(self, parameter: str, name: str) -> Path:
        """Return the file with the name in this parameter; raise EditError if there is none."""
        refuse_key(parameter, name)
        if name not in self._paths:
            raise KeyringError(
                errno.ENOKEY,
                f"{parameter}: there is no key {name}: add it with keyring_file_add_key",
            )
        return self._paths[name]

    def all(self) -> dict[str, Path]:
        """Return the files by name."""
        return dict(sorted(self._paths.items()))


def refuse_key(parameter: str, value: str) -> None:
    """Raise EditError, without the value, if a key itself was given."""
    if PREFIX in value:
        raise EditError(
            f"{parameter} must be the location of a key, not the key itself: store it in a file "
            "that only the target can read"
        )
