# SPDX-License-Identifier: BSD-3-Clause
"""Byte layouts as data: a structure is a dataclass whose annotations give each field's location.

``Structure`` is for data structures (little-endian, offsets in bytes), ``Register`` for values
whose fields are ranges of bits (properties, command dwords).  Encoding and decoding use the same
table, so that host and target cannot disagree.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal, Self, get_type_hints

from nvmf.spec.status import DecodeError

Kind = Literal["int", "ascii", "utf8", "raw"]


@dataclass(frozen=True, slots=True)
class Place:
    """Location of a field of a Structure, and how its bytes are converted to a value."""

    offset: int
    """Bytes from the start of the structure."""
    size: int
    """Bytes."""
    kind: Kind
    """int: little-endian; ascii: space padded; utf8: NUL terminated; raw: not converted."""

    def load(self, data: bytes | memoryview) -> int | str | bytes:
        """Return the field's value in data; never fails, whatever the bytes are."""
        part = bytes(data[self.offset : self.offset + self.size])
        if self.kind == "int":
            return int.from_bytes(part, "little")
        if self.kind == "ascii":
            return part.decode("ascii", "backslashreplace").rstrip(" \0")
        if self.kind == "utf8":
            return part.split(b"\0", 1)[0].decode("utf-8", "backslashreplace")
        return part

    def store(self, into: bytearray, value: int | str | bytes, name: str) -> None:
        """Write the value into the buffer; raise ValueError if it does not fit."""
        if isinstance(value, int):
            if value < 0 or value >> (8 * self.size):
                raise ValueError(f"{name} = {value} does not fit in {self.size} bytes")
            part = value.to_bytes(self.size, "little")
        elif isinstance(value, str):
            part = value.encode("ascii" if self.kind == "ascii" else "utf-8")
            # The specification's UTF-8 strings are NUL-terminated within their fields.
            if len(part) > self.size - (1 if self.kind == "utf8" else 0):
                raise ValueError(f"{name} = {value!r} does not fit in {self.size} bytes")
            part = part.ljust(self.size, b" " if self.kind == "ascii" else b"\0")
        else:
            part = bytes(value)
            if len(part) > self.size:
                raise ValueError(f"{name}: {len(part)} bytes do not fit in {self.size}")
            part = part.ljust(self.size, b"\0")
        into[self.offset : self.offset + self.size] = part


def u8(offset: int) -> Place:
    """An unsigned byte."""
    return Place(offset, 1, "int")


def u16(offset: int) -> Place:
    """A little-endian unsigned 16-bit integer."""
    return Place(offset, 2, "int")


def u32(offset: int) -> Place:
    """A little-endian unsigned 32-bit integer."""
    return Place(offset, 4, "int")


def u64(offset: int) -> Place:
    """A little-endian unsigned 64-bit integer."""
    return Place(offset, 8, "int")


def u128(offset: int) -> Place:
    """A little-endian unsigned 128-bit integer."""
    return Place(offset, 16, "int")


def ascii_(offset: int, size: int) -> Place:
    """ASCII text, padded with spaces (Base 1.4.2)."""
    return Place(offset, size, "ascii")


def utf8(offset: int, size: int) -> Place:
    """UTF-8 text, NUL terminated (NQNs)."""
    return Place(offset, size, "utf8")


def raw(offset: int, size: int) -> Place:
    """Bytes, not converted."""
    return Place(offset, size, "raw")


_tables: dict[Any, dict[str, Any]] = {}


def _table(cls: Any) -> dict[str, Any]:
    """Return field names with their Place or Bits; annotations are read once per class."""
    table = _tables.get(cls)
    if table is None:
        hints = get_type_hints(cls, include_extras=True)
        table = {
            name: hint.__metadata__[0]
            for name, hint in hints.items()
            if hasattr(hint, "__metadata__")
        }
        _tables[cls] = table
    return table


@dataclass(frozen=True, slots=True)
class Structure:
    """A data structure of SIZE bytes; reserved bytes are written as zero and ignored when read."""

    SIZE: ClassVar[int] = 0
    """Bytes of the encoded structure."""

    @classmethod
    def decode(cls, data: bytes | bytearray | memoryview) -> Self:
        """Decode at least SIZE bytes; raise DecodeError (a StatusError) if there are fewer."""
        if len(data) < cls.SIZE:
            raise DecodeError(f"{cls.__name__} needs {cls.SIZE} bytes, not {len(data)}")
        view = memoryview(data)
        return cls(**{name: place.load(view) for name, place in _table(cls).items()})

    def encode(self) -> bytes:
        """Encode to SIZE bytes; raise ValueError if a value does not fit its field."""
        into = bytearray(self.SIZE)
        for name, place in _table(type(self)).items():
            place.store(into, getattr(self, name), name)
        return bytes(into)

    @classmethod
    def offset_of(cls, name: str) -> int:
        """Return the byte offset of a field (errors identify an invalid field by its offset)."""
        place = _table(cls)[name]
        assert isinstance(place, Place)
        return place.offset


@dataclass(frozen=True, slots=True)
class Bits:
    """Location of a field of a Register."""

    low: int
    """Lowest bit."""
    width: int
    """Bits."""


def bits(low: int, high: int | None = None) -> Bits:
    """Bits low to high, both included; a single bit if high is omitted."""
    return Bits(low, 1 if high is None else high - low + 1)


@dataclass(frozen=True, slots=True)
class Register:
    """An integer made of bit fields; unnamed bits are written as zero and ignored when read."""

    @classmethod
    def decode(cls, value: int) -> Self:
        """Decode the integer; never fails."""
        return cls(**{n: (value >> b.low) & ((1 << b.width) - 1) for n, b in _table(cls).items()})

    def encode(self) -> int:
        """Encode to an integer; raise ValueError if a value does not fit its field."""
        value = 0
        for name, place in _table(type(self)).items():
            field = int(getattr(self, name))
            if field < 0 or field >> place.width:
                raise ValueError(f"{name} = {field} does not fit in {place.width} bits")
            value |= field << place.low
        return value
