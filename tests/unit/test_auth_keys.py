# SPDX-License-Identifier: BSD-3-Clause
"""Keys: their representation, transformation and checks, and that no output contains them."""

from __future__ import annotations

import copy
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nvmf.auth import Key
from nvmf.auth.key import credential, read_key
from nvmf.spec.auth import Hash
from wire import dhchap

NQN = "nqn.2014-08.org.nvmexpress:uuid:befdec4c-2234-11b2-a85c-ca77c773af36"
# From the nvme-cli wiki's page on authentication.
PUBLISHED = (
    ("DHHC-1:00:2wKd3YDIcRMN/rCJa/k60E8xBQMw+2D9UnigSQ6YFkEHV3Yy:", None, 32),
    ("DHHC-1:02:d4gmzh5i0I3npDMWAmJX/nAvAw7ioKmS2w44ceutFeObYDFG/r6zOB3UW0FLzevsI7XDJg==:", 2, 48),
)
# Output of `nvme gen-dhchap-key -m M -n nqn.x -s abab...` of nvme-cli 2.3.
OF_NVME_CLI = (
    (None, "DHHC-1:00:q6urq6urq6urq6urq6urq6urq6urq6urq6urq6urq6sIy4rZ:"),
    (Hash.SHA_256, "DHHC-1:01:vAr6TmAs+q5cGfQsiLYfossIeeKS9M9+MuUfMAoTmPRWGU3e:"),
    (
        Hash.SHA_384,
        "DHHC-1:02:xkjhnQhJUr39ISM19MazCiJt92aij37HX/7btupct51T+Bg94zwsd8Ylg8jRaHU7hZm4+Q==:",
    ),
    (
        Hash.SHA_512,
        "DHHC-1:03:LvkqyU9oOJUBVIFqcBuQo2J6sjlQoR2lAb1bi7L6IKqTxIWezXAZ0htiwLZoBowXSIndm9IgxlzVAlrk"
        "6508mii1FKs=:",
    ),
)


@pytest.mark.parametrize(("text", "hashed", "size"), PUBLISHED)
def test_published_keys(text: str, hashed: int | None, size: int) -> None:
    key = Key.parse(text)
    assert (key.hash, key.size, key.text()) == (hashed, size, text)
    assert key.transformed(NQN) == dhchap.transformed(text, NQN)


@pytest.mark.parametrize(("hashed", "text"), OF_NVME_CLI)
def test_the_key_that_nvme_cli_makes_of_a_secret(hashed: Hash | None, text: str) -> None:
    size = hashed.size if hashed else 32
    assert Key.generate(hashed, nqn="nqn.x", seed=b"\xab" * size).text() == text


@pytest.mark.parametrize("hashed", list(Hash))
def test_transformation_as_openssl_computes_it(hashed: Hash) -> None:
    secret = bytes(range(hashed.size))
    done = subprocess.run(
        ["openssl", "dgst", f"-{hashed.digest}", "-mac", "HMAC", "-macopt",
         f"hexkey:{secret.hex()}", "-binary"],
        input=f"{NQN}NVMe-over-Fabrics".encode(), capture_output=True, check=True,
    )  # fmt: skip
    assert Key(secret, hashed).transformed(NQN) == done.stdout


@given(st.binary(min_size=32, max_size=32))
def test_round_trip(secret: bytes) -> None:
    key = Key(secret, Hash.SHA_256)
    assert Key.parse(key.text()) == key
    assert Key.parse(f" {key.text()}\n") == key


@pytest.mark.parametrize("size", [32, 48, 64])
def test_generated_keys_are_new(size: int) -> None:
    one, two = Key.generate(size=size), Key.generate(size=size)
    assert (one.size, one.hash) == (size, None)
    assert one != two


GOOD = dhchap.key_text(bytes(range(32)))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "form"),
        ("secret", "form"),
        ("DHHC-2" + GOOD[6:], "form"),
        (GOOD[:-1], "form"),
        (GOOD + "x:", "form"),
        (GOOD.replace(":00:", ":04:"), "00, 01, 02 or 03"),
        (GOOD.replace(":00:", ":0:"), "00, 01, 02 or 03"),
        (GOOD[:-3] + "*:", "base64"),
        ("DHHC-1:00:AAAA:", "has 3 bytes"),
        (dhchap.key_text(bytes(33)), "has 37 bytes"),
        (GOOD[:12] + "B" + GOOD[13:], "checksum"),
        (dhchap.key_text(bytes(48), 1), "SHA-256 must have 32 bytes"),
        (dhchap.key_text(bytes(32), 3), "SHA-512 must have 64 bytes"),
    ],
)
def test_bad_keys(text: str, says: str) -> None:
    with pytest.raises(ValueError, match=says) as caught:
        Key.parse(text)
    assert "AAEC" not in str(caught.value)


@given(st.text(max_size=100))
def test_any_text_is_a_key_or_a_value_error(text: str) -> None:
    try:
        Key.parse(text)
    except ValueError:
        return


def test_nothing_shows_a_key() -> None:
    key = Key(b"sesame!!" * 4)
    for shown in (repr(key), str(key), f"{key}", repr([key]), repr({"key": key})):
        assert "sesame" not in shown
        assert key.text() not in shown
    with pytest.raises(TypeError):
        pickle.dumps(key)
    assert copy.deepcopy(key) is key
    assert copy.copy(key) is key
    assert key != "sesame"
    assert len({key, Key(b"sesame!!" * 4)}) == 1


# ---- files and credentials ----


def test_key_file(tmp_path: Path) -> None:
    path = tmp_path / "host.key"
    path.write_text(GOOD + "\n")
    path.chmod(0o600)
    assert read_key(path) == (Key.parse(GOOD), False)
    path.chmod(0o644)
    assert read_key(path) == (Key.parse(GOOD), True)


@pytest.mark.parametrize(
    ("content", "says"),
    [(b"", "form"), (b"\xff\xfe", "not ASCII text"), (GOOD.encode() * 9, "longer than 256")],
)
def test_bad_key_file(tmp_path: Path, content: bytes, says: str) -> None:
    path = tmp_path / "host.key"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=f"{path}.*{says}"):
        read_key(path)


def test_no_key_file(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="cannot be read: No such file"):
        read_key(tmp_path / "none")


def test_credential(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("CREDENTIALS_DIRECTORY", raising=False)
    with pytest.raises(ValueError, match="LoadCredential=host:PATH"):
        credential("host")
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path))
    assert credential("host") == tmp_path / "host"


def test_no_core_file() -> None:
    """Run in a separate process, because the change cannot be undone."""
    script = (
        "import ctypes; from nvmf.auth.key import protect_process; "
        "libc = ctypes.CDLL(None); before = libc.prctl(3, 0, 0, 0, 0); "
        "protect_process(); print(before, libc.prctl(3, 0, 0, 0, 0))"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert done.stdout.split()[1] == b"0"
