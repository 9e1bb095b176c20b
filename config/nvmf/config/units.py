# SPDX-License-Identifier: BSD-3-Clause
"""Types of configuration values: sizes with units, NQNs, fixed-length identifiers."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

from pydantic import (
    AfterValidator,
    BeforeValidator,
    PlainSerializer,
    PlainValidator,
    WithJsonSchema,
)

from nvmf.auth import Key
from nvmf.spec.nqn import validate_nqn

SIZE_MOST = (1 << 63) - 1
"""Maximum size of a file in bytes."""
_FACTORS: dict[str, int] = {
    "": 1,
    "b": 1,
    **{
        f"{letter}{tail}": 1024 ** (i + 1) for i, letter in enumerate("kmgt") for tail in ("", "ib")
    },
    **{f"{letter}b": 1000 ** (i + 1) for i, letter in enumerate("kmgt")},
}


def parse_size(value: object) -> int:
    """Convert an integer or text such as 4096, "4KiB", "1.5 GiB", "64M", "1TB" to bytes.

    K, M, G and T, alone or with iB, are powers of 1024; kB, MB, GB and TB are powers of 1000.
    Raise ValueError if it is neither, not a whole number of bytes, or larger than any file.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        if value < 0:
            raise ValueError("a size must not be negative")
        return _possible(value)
    if not isinstance(value, str):
        raise ValueError('expected a size: a whole number, or text such as "4KiB" or "1GiB"')
    match = re.fullmatch(r"\s*([0-9]{1,20})(?:\.([0-9]{1,6}))?\s*([A-Za-z]*)\s*", value)
    factor = _FACTORS.get(match[3].lower()) if match else None
    if match is None or factor is None:
        raise ValueError(f'{value[:64]!r} is not a size such as "4KiB" or "1GiB"')
    whole, fraction = match[1], match[2] or ""
    scaled = int(whole + fraction) * factor
    size, rest = divmod(scaled, int("1" + "0" * len(fraction)))
    if rest:
        raise ValueError(f"{value!r} is not a whole number of bytes")
    return _possible(size)


def _possible(size: int) -> int:
    if size > SIZE_MOST:
        raise ValueError("a size must be less than 8 EiB")
    return size


def format_size(size: int) -> str:
    """Format bytes exactly, for messages: "1 GiB", "4 KiB", "1000 B"."""
    for power, unit in ((4, "TiB"), (3, "GiB"), (2, "MiB"), (1, "KiB")):
        if size and size % 1024**power == 0:
            return f"{size // 1024**power} {unit}"
    return f"{size} B"


def _identifier(value: object, size: int) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, bytes) and len(value) == size:
        return value
    if isinstance(value, str):
        digits = re.sub(r"[-:. ]", "", value)
        if re.fullmatch(rf"[0-9A-Fa-f]{{{2 * size}}}", digits):
            found = bytes.fromhex(digits)
            if any(found):
                return found
            raise ValueError("an identifier must not be all zero")
    raise ValueError(f"expected {2 * size} hexadecimal digits in quotes")


def _nguid(value: object) -> bytes | None:
    return _identifier(value, 16)


def _eui64(value: object) -> bytes | None:
    return _identifier(value, 8)


def _nqn(value: object) -> str:
    if not isinstance(value, str):
        raise ValueError("expected an NQN in quotes")
    return validate_nqn(value)


def _secret(value: object) -> Key | None:
    if value is None or isinstance(value, Key):
        return value
    if not isinstance(value, str):
        raise ValueError("expected a DH-HMAC-CHAP key in quotes, DHHC-1:HH:BASE64:")
    return Key.parse(value)


def _nameable(value: Path) -> Path:
    if "\0" in str(value):
        raise ValueError("a path must not contain NUL")
    return value


FilePath = Annotated[Path, AfterValidator(_nameable)]
"""A path that is valid in system calls (no NUL)."""
Size = Annotated[
    int,
    BeforeValidator(parse_size),
    WithJsonSchema({"anyOf": [{"type": "integer", "minimum": 0}, {"type": "string"}]}),
]
"""Bytes."""
Nqn = Annotated[str, BeforeValidator(_nqn), WithJsonSchema({"type": "string", "format": "nqn"})]
"""An NVMe Qualified Name."""
Nguid = Annotated[
    bytes | None,
    BeforeValidator(_nguid),
    PlainSerializer(lambda value: value.hex() if value else None),
    WithJsonSchema({"type": "string"}),
]
"""16 bytes, written as 32 hexadecimal digits."""
Eui64 = Annotated[
    bytes | None,
    BeforeValidator(_eui64),
    PlainSerializer(lambda value: value.hex() if value else None),
    WithJsonSchema({"type": "string"}),
]
"""8 bytes, written as 16 hexadecimal digits."""
Secret = Annotated[
    Key | None,
    PlainValidator(_secret),
    PlainSerializer(lambda value: "secret" if value is not None else None),
    WithJsonSchema({"type": "string", "format": "password"}),
]
"""A DH-HMAC-CHAP key; never shown, not even in dumps."""
