# SPDX-License-Identifier: BSD-3-Clause
"""Diffie-Hellman with libcrypto, compared with Python's own powers and with openssl."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path

import pytest

from nvmf.auth.dh import DhError, DhExchange
from nvmf.spec.auth import DhGroup, Hash
from wire import dhchap

GROUPS = [group for group in DhGroup if group]
EXPONENT = 0x1234567890ABCDEF << 160 | 0xFEDCBA


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.title)
def test_both_ends_agree(group: DhGroup) -> None:
    ours = DhExchange(group)
    theirs = dhchap.public(group, EXPONENT)
    assert len(ours.public) == group.size == dhchap.size(group)
    for hashed in Hash:
        expected = dhchap.session_key(group, EXPONENT, ours.public, hashed)
        assert ours.session_key(theirs, hashed) == expected


def test_values_are_new() -> None:
    assert DhExchange(DhGroup.FFDHE_2048).public != DhExchange(DhGroup.FFDHE_2048).public


def test_a_value_without_its_leading_zeroes() -> None:
    group = DhGroup.FFDHE_2048
    ours = DhExchange(group)
    assert ours.session_key(b"\2", Hash.SHA_256) == ours.session_key(
        (2).to_bytes(256, "big"), Hash.SHA_256
    )
    # g^1 = 2 to the power of x is our own value: it must keep a leading zero byte.
    assert ours.session_key(b"\2", Hash.SHA_256) == hashlib.sha256(ours.public).digest()


@pytest.mark.parametrize("group", GROUPS, ids=lambda group: group.title)
def test_values_that_give_the_secret_away(group: DhGroup) -> None:
    """RFC 7919, 5.1: 1 < y < p - 1."""
    ours, p = DhExchange(group), dhchap.prime(group)
    for value in (0, 1, p - 1, p, p + 1, (1 << 8 * group.size) - 1):
        with pytest.raises(DhError, match="is not in the group"):
            ours.session_key(value.to_bytes(group.size, "big"), Hash.SHA_256)
    ours.session_key((p - 2).to_bytes(group.size, "big"), Hash.SHA_256)


def test_openssl_agrees(tmp_path: Path) -> None:
    """The openssl program derives the same secret with its own keys."""

    def openssl(*args: str) -> bytes:
        return subprocess.run(["openssl", *args], capture_output=True, check=True).stdout

    pem, peer = str(tmp_path / "pair.pem"), str(tmp_path / "peer.pem")
    openssl("genpkey", "-algorithm", "DH", "-pkeyopt", "group:ffdhe2048", "-out", pem)
    der = openssl("pkey", "-in", pem, "-pubout", "-outform", "DER")
    theirs = der[-256:]
    assert 1 < int.from_bytes(theirs, "big") < dhchap.prime(1)
    ours = DhExchange(DhGroup.FFDHE_2048)
    # The reverse: our value in place of the peer's, in a key of the same group.
    (tmp_path / "peer.der").write_bytes(_with_value(der, ours.public))
    openssl("pkey", "-pubin", "-inform", "DER", "-in", str(tmp_path / "peer.der"), "-out", peer)
    derived = openssl("pkeyutl", "-derive", "-inkey", pem, "-peerkey", peer, "-pkeyopt", "dh_pad:1")
    assert ours.session_key(theirs, Hash.SHA_512) == hashlib.sha512(derived).digest()


def _with_value(der: bytes, value: bytes) -> bytes:
    """Return the SubjectPublicKeyInfo with a different public value and correct DER lengths."""
    body = b"\0" + value if value[0] & 0x80 else value.lstrip(b"\0")
    integer = b"\x02" + _length(len(body)) + body
    bits = b"\x03" + _length(len(integer) + 1) + b"\0" + integer
    outer = der.index(b"\x30", 1)
    size = 2 if der[outer + 1] < 0x80 else 2 + (der[outer + 1] & 0x7F)
    inner = (
        der[outer + 1]
        if der[outer + 1] < 0x80
        else int.from_bytes(der[outer + 2 : outer + size], "big")
    )
    algorithm = der[outer : outer + size + inner]
    return b"\x30" + _length(len(algorithm) + len(bits)) + algorithm + bits


def _length(value: int) -> bytes:
    if value < 0x80:
        return bytes([value])
    digits = value.to_bytes((value.bit_length() + 7) // 8, "big")
    return bytes([0x80 | len(digits)]) + digits
