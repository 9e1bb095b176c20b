# SPDX-License-Identifier: BSD-3-Clause
"""Keys: the format DHHC-1:HH:BASE64: with its checksum, sources of keys, and their protection.

A key never appears in a repr, message, pickle or dump.  Python cannot wipe copies in memory, so a
key stays in the memory of the process until the process ends; protect_process() denies other
processes access to this memory and disables core files.
"""

from __future__ import annotations

import base64
import binascii
import ctypes
import hashlib
import hmac
import os
import secrets
import stat
import zlib
from pathlib import Path
from typing import NoReturn, Self

from nvmf.spec.auth import Hash

PREFIX = "DHHC-1:"
SIZES = (32, 48, 64)
"""Valid lengths of a secret in bytes."""
_SEED = b"NVMe-over-Fabrics"
_MAX_TEXT = 256
_PR_SET_DUMPABLE = 4


class Key:
    """A secret, and the hash that transforms it for one NQN (Base 2.0, 8.13.5.7 and 8.13.5.8)."""

    __slots__ = ("_secret", "hash")

    def __init__(self, secret: bytes, hashed: Hash | None = None) -> None:
        """Raise ValueError if the secret is not 32, 48 or 64 bytes, or not as long as the hash."""
        if len(secret) not in SIZES:
            raise ValueError(f"a secret must have 32, 48 or 64 bytes; this one has {len(secret)}")
        if hashed is not None and len(secret) != hashed.size:
            raise ValueError(
                f"a secret transformed with {hashed.title} must have {hashed.size} bytes; this "
                f"one has {len(secret)}"
            )
        self._secret = secret
        self.hash = hashed
        """None: the secret is not transformed."""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse DHHC-1:HH:BASE64:; the text of a ValueError contains no part of the key."""
        head, number, encoded, rest = ([*text.strip().split(":", 3), "", "", ""])[:4]
        if f"{head}:" != PREFIX or rest or not text.strip().endswith(":"):
            raise ValueError("a DH-HMAC-CHAP key has the form DHHC-1:HH:BASE64:")
        try:
            hashed = {"00": None, "01": Hash(1), "02": Hash(2), "03": Hash(3)}[number]
        except KeyError:
            raise ValueError("the hash of a DH-HMAC-CHAP key must be 00, 01, 02 or 03") from None
        try:
            data = base64.b64decode(encoded, validate=True)
        except (binascii.Error, ValueError):
            raise ValueError("the secret of the DH-HMAC-CHAP key is not base64") from None
        secret, checksum = data[:-4], data[-4:]
        if len(secret) not in SIZES:
            raise ValueError(
                f"the DH-HMAC-CHAP key has {len(data)} bytes; it must have 36, 52 or 68 (a secret "
                "of 32, 48 or 64, and the checksum)"
            )
        if zlib.crc32(secret).to_bytes(4, "little") != checksum:
            raise ValueError("wrong checksum in the DH-HMAC-CHAP key: incomplete or mistyped")
        return cls(secret, hashed)

    @classmethod
    def generate(
        cls,
        hashed: Hash | None = None,
        size: int | None = None,
        *,
        nqn: str = "",
        seed: bytes = b"",
    ) -> Self:
        """Generate a key; from a seed, as nvme-cli does: already transformed for the NQN."""
        size = size or (hashed.size if hashed is not None else len(seed) or 32)
        key = cls(seed or secrets.token_bytes(size), hashed)
        if len(key._secret) != size:
            raise ValueError(f"the secret has {len(key._secret)} bytes; the key requires {size}")
        return cls(key.transformed(nqn), hashed) if seed else key

    @property
    def size(self) -> int:
        """Bytes of the secret."""
        return len(self._secret)

    def text(self) -> str:
        """Return DHHC-1:HH:BASE64:, for a key file or the user's terminal; never log it."""
        data = self._secret + zlib.crc32(self._secret).to_bytes(4, "little")
        return f"{PREFIX}{int(self.hash or 0):02x}:{base64.b64encode(data).decode()}:"

    def transformed(self, nqn: str) -> bytes:
        """Return the HMAC key for responses; nqn is that of the host or of the subsystem."""
        if self.hash is None:
            return self._secret
        digest = getattr(hashlib, self.hash.digest)
        return hmac.new(self._secret, nqn.encode() + _SEED, digest).digest()

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Key):
            return NotImplemented
        return self.hash == other.hash and hmac.compare_digest(self._secret, other._secret)

    def __hash__(self) -> int:
        return hash(self.hash)

    def __repr__(self) -> str:
        return f"<DH-HMAC-CHAP key of {len(self._secret)} bytes>"

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, memo: object) -> Self:
        return self

    def __reduce__(self) -> NoReturn:
        raise TypeError("a key is not pickled")


def read_key(path: Path, *, waits: bool = True) -> tuple[Key, bool]:
    """Read a key from a file of one line; also return whether the file is world-readable.

    waits: the file may be a pipe, and the call waits for its writer.  Raise ValueError if the file
    cannot be read or does not contain a key.
    """
    flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NOCTTY | (0 if waits else os.O_NONBLOCK)
    try:
        with open(os.open(path, flags), "rb") as file:
            mode = os.fstat(file.fileno()).st_mode
            if not waits and not stat.S_ISREG(mode):
                raise ValueError(f"the key file {path} is not a regular file")
            exposed = bool(mode & stat.S_IROTH)
            data = file.read(_MAX_TEXT + 1)
    except OSError as error:
        raise ValueError(f"the key file {path} cannot be read: {error.strerror}") from error
    try:
        if len(data) > _MAX_TEXT:
            raise ValueError(f"it is longer than {_MAX_TEXT} bytes")
        return Key.parse(data.decode("ascii")), exposed
    except UnicodeDecodeError:
        raise ValueError(f"the key file {path} is not ASCII text") from None
    except ValueError as error:
        raise ValueError(f"the key file {path}: {error}") from None


def credential(name: str) -> Path:
    """Return the path of a systemd credential; raise ValueError if the service has none."""
    folder = os.environ.get("CREDENTIALS_DIRECTORY")
    if not folder:
        raise ValueError(
            f"credential {name!r}: $CREDENTIALS_DIRECTORY is not set; give the service "
            f"LoadCredential={name}:PATH, or use a key file"
        )
    return Path(folder) / name


def protect_process() -> None:
    """Disable core files and debugging of this process (PR_SET_DUMPABLE), except by root."""
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0):
        number = ctypes.get_errno()
        raise OSError(number, f"prctl(PR_SET_DUMPABLE): {os.strerror(number)}")
