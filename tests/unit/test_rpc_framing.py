# SPDX-License-Identifier: BSD-3-Clause
"""JSON documents from a stream that may be divided at any byte."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from nvmf.target.rpc.framing import DEPTH_MOST, MESSAGE_MOST, FramingError, Splitter, parse

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
DOCUMENT = st.dictionaries(st.text(), JSON, max_size=3) | st.lists(JSON, max_size=3)


@settings(deadline=None)
@given(st.lists(DOCUMENT, max_size=4), st.sampled_from(["", "\n", " \r\n\t"]), st.data())
def test_what_was_written_is_read(documents: list[object], gap: str, data: st.DataObject) -> None:
    """Any documents, with or without space between them, divided anywhere."""
    raw = gap.join(json.dumps(one, ensure_ascii=False) for one in documents).encode(
        errors="surrogatepass"
    )
    splitter, found, place = Splitter(), [], 0
    while place < len(raw):
        step = data.draw(st.integers(1, 20))
        found += [json.loads(one) for one in splitter.feed(raw[place : place + step])]
        place += step
    assert found == documents
    assert not splitter.partial


@settings(deadline=None)
@given(st.binary(max_size=200), st.integers(1, 50))
def test_anything_at_all(raw: bytes, step: int) -> None:
    """Any input gives documents or FramingError."""
    splitter = Splitter()
    try:
        for place in range(0, len(raw), step):
            for document in splitter.feed(raw[place : place + step]):
                parse(document)
    except FramingError:
        pass


@pytest.mark.parametrize(
    "raw", [b"hello", b"}", b'"text"', b"1", b"null", b"\x00{}", b'{"a": 1} ]', b"\xff\xfe{"]
)
def test_not_documents(raw: bytes) -> None:
    with pytest.raises(FramingError):
        list(Splitter().feed(raw))


@pytest.mark.parametrize(
    "raw",
    [
        b"{]",
        b'{"a": NaN}',
        b'{"a": Infinity}',
        b'{"a": -1e999}',
        b'{"a": "\xff"}',
        b'{"a": "\\ud800"}',
        b'{"a" 1}',
        b'{"a": 1,}',
        b"{'a': 1}",
        b'{"a": ' + b"1" * 5000 + b"}",
    ],
)
def test_not_json(raw: bytes) -> None:
    with pytest.raises(FramingError):
        parse(raw)


def test_limits() -> None:
    deep = b"[" * DEPTH_MOST + b"]" * DEPTH_MOST
    assert list(Splitter().feed(deep)) == [deep]
    with pytest.raises(FramingError, match="levels"):
        list(Splitter().feed(b"[" + deep + b"]"))
    splitter = Splitter()
    with pytest.raises(FramingError, match="bytes"):
        for _ in range(MESSAGE_MOST // 65536 + 2):
            list(splitter.feed(b'{"a": "' + bytes(65536).replace(b"\0", b"x")))
