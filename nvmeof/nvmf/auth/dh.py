# SPDX-License-Identifier: BSD-3-Clause
"""Finite field Diffie-Hellman (RFC 7919) with OpenSSL's libcrypto 3.

libcrypto is called through ctypes, because the Python package `cryptography` is dropping these
groups.  OpenSSL generates the key pair, with a private exponent of the length that RFC 7919
requires, and raises the peer's value to it in constant time.  EVP_PKEY_derive is not used: it
checks membership in the subgroup with two or three full-length exponentiations (half a second on
ffdhe8192), but with safe primes and exponents used once, the range check of RFC 7919, 5.1, is
sufficient.  The calls take 1 ms on ffdhe2048 and about 20 ms on ffdhe8192, and release the GIL.
"""

from __future__ import annotations

import ctypes
import hashlib
from ctypes import POINTER, byref, c_char_p, c_int, c_ulong, c_void_p
from functools import cache
from typing import Any

from nvmf.errors import Error
from nvmf.spec.auth import DhGroup, Hash


class DhError(Error):
    """The peer's value is not in the group, or OpenSSL failed."""


_CALLS: dict[str, tuple[Any, list[Any]]] = {
    "EVP_PKEY_CTX_new_from_name": (c_void_p, [c_void_p, c_char_p, c_char_p]),
    "EVP_PKEY_CTX_free": (None, [c_void_p]),
    "EVP_PKEY_CTX_set_group_name": (c_int, [c_void_p, c_char_p]),
    "EVP_PKEY_keygen_init": (c_int, [c_void_p]),
    "EVP_PKEY_generate": (c_int, [c_void_p, POINTER(c_void_p)]),
    "EVP_PKEY_free": (None, [c_void_p]),
    "EVP_PKEY_get_bn_param": (c_int, [c_void_p, c_char_p, POINTER(c_void_p)]),
    "BN_CTX_secure_new": (c_void_p, []),
    "BN_CTX_free": (None, [c_void_p]),
    "BN_new": (c_void_p, []),
    "BN_clear_free": (None, [c_void_p]),
    "BN_bin2bn": (c_void_p, [c_char_p, c_int, c_void_p]),
    "BN_bn2binpad": (c_int, [c_void_p, c_void_p, c_int]),
    "BN_mod_exp_mont_consttime": (c_int, [c_void_p] * 6),
    "ERR_get_error": (c_ulong, []),
    "ERR_reason_error_string": (c_char_p, [c_ulong]),
    "ERR_clear_error": (None, []),
}


@cache
def _crypto() -> Any:
    """Load libcrypto and declare its prototypes; raise DhError if that fails."""
    try:
        library = ctypes.CDLL("libcrypto.so.3")
        for name, (result, arguments) in _CALLS.items():
            function = getattr(library, name)
            function.restype, function.argtypes = result, arguments
    except (OSError, AttributeError) as error:
        raise DhError(f"OpenSSL 3 (libcrypto.so.3) cannot be used: {error}") from None
    return library


def _need(result: Any, what: str) -> Any:
    """Return the result of a call if it succeeded; raise DhError if it failed."""
    if not result or (isinstance(result, int) and result < 0):
        crypto = _crypto()
        why = crypto.ERR_reason_error_string(crypto.ERR_get_error())
        crypto.ERR_clear_error()
        raise DhError(f"{what}: {why.decode() if why else 'OpenSSL gives no reason'}")
    return result


class DhExchange:
    """One ephemeral key pair of a group other than NULL."""

    def __init__(self, group: DhGroup) -> None:
        """Generate the key pair; raise DhError if OpenSSL does not have the group."""
        self.group = group
        self._pair = c_void_p()
        crypto = _crypto()
        context = _need(crypto.EVP_PKEY_CTX_new_from_name(None, b"DH", None), "a DH context")
        try:
            _need(crypto.EVP_PKEY_keygen_init(context), "key generation")
            name = group.title.encode()
            _need(crypto.EVP_PKEY_CTX_set_group_name(context, name), f"group {group.title}")
            _need(crypto.EVP_PKEY_generate(context, byref(self._pair)), f"a key of {group.title}")
        finally:
            crypto.EVP_PKEY_CTX_free(context)
        self.public = self._number("pub")
        """g^x mod p, padded to the length of p."""

    def _number(self, name: str) -> bytes:
        """Return a public number of the key pair, padded to the length of p."""
        number = self._bignum(name)
        try:
            return self._bytes(number).raw
        finally:
            _crypto().BN_clear_free(number)

    def _bignum(self, name: str) -> c_void_p:
        number = c_void_p()
        got = _crypto().EVP_PKEY_get_bn_param(self._pair, name.encode(), byref(number))
        _need(got, f"the number {name} of a key")
        return number

    def _bytes(self, number: c_void_p) -> ctypes.Array[ctypes.c_char]:
        size = self.group.size
        into = ctypes.create_string_buffer(size)
        _need(_crypto().BN_bn2binpad(number, into, size) == size, "a number's size")
        return into

    def session_key(self, theirs: bytes, hashed: Hash) -> bytes:
        """Return KS = H(g^xy mod p, with leading zeroes); raise DhError for an invalid value."""
        prime = int.from_bytes(self._number("p"), "big")
        if not 1 < int.from_bytes(theirs, "big") < prime - 1:
            raise DhError(f"the peer's DH value is not in the group {self.group.title}")
        secret = self._raise_to_private(theirs)
        try:
            return hashlib.new(hashed.digest, memoryview(secret)).digest()
        finally:
            ctypes.memset(secret, 0, len(secret))

    def _raise_to_private(self, theirs: bytes) -> ctypes.Array[ctypes.c_char]:
        crypto = _crypto()
        context = None
        kept: list[c_void_p] = []
        try:
            context = c_void_p(_need(crypto.BN_CTX_secure_new(), "memory for numbers"))
            kept.append(c_void_p(_need(crypto.BN_new(), "memory for a number")))
            value = crypto.BN_bin2bn(theirs, len(theirs), None)
            kept.append(c_void_p(_need(value, "memory for a number")))
            kept.append(self._bignum("priv"))
            kept.append(self._bignum("p"))
            done = crypto.BN_mod_exp_mont_consttime(*kept, context, None)
            _need(done, "the shared secret")
            return self._bytes(kept[0])
        finally:
            for number in kept:
                crypto.BN_clear_free(number)
            crypto.BN_CTX_free(context)

    def __del__(self) -> None:
        if getattr(self, "_pair", None):
            _crypto().EVP_PKEY_free(self._pair)
            self._pair = c_void_p()
