# SPDX-License-Identifier: BSD-3-Clause
"""[[subsystem.host]]: a host that may connect, and its keys for authentication."""

from __future__ import annotations

from typing import ClassVar, Literal, Self

from pydantic import Field, model_validator

from nvmf.config.base import Model, listed, unique
from nvmf.config.units import FilePath, Nqn, Secret

CREDENTIAL = r"^[A-Za-z0-9_.-]{1,255}$"
DhchapHash = Literal["sha256", "sha384", "sha512"]
DhchapGroup = Literal["null", "ffdhe2048", "ffdhe3072", "ffdhe4096", "ffdhe6144", "ffdhe8192"]


class HostConfig(Model):
    """[[subsystem.host]]: a host that may connect, and its keys for authentication.

    A key has the form DHHC-1:HH:BASE64: printed by gen-dhchap-key.  It is in a file, in a systemd
    credential (LoadCredential= of the service), or here.
    """

    KEYS: ClassVar = tuple(
        f"{name}{place}"
        for name in ("dhchap_key", "dhchap_ctrl_key")
        for place in ("", "_file", "_credential")
    )
    """Settings that give the location of a key."""

    nqn: Nqn
    """NQN of the host."""
    dhchap_key_file: FilePath | None = None
    """File with the host's key; if set, the host must authenticate."""
    dhchap_key_credential: str | None = Field(None, pattern=CREDENTIAL)
    """The same key, as a systemd credential."""
    dhchap_key: Secret = None
    """The same key itself, in the configuration."""
    dhchap_ctrl_key_file: FilePath | None = None
    """File with the subsystem's key; if set, the host may ask the subsystem to authenticate too."""
    dhchap_ctrl_key_credential: str | None = Field(None, pattern=CREDENTIAL)
    """The same key, as a systemd credential."""
    dhchap_ctrl_key: Secret = None
    """The same key itself, in the configuration."""
    dhchap_hashes: tuple[DhchapHash, ...] = Field(("sha256", "sha384", "sha512"), min_length=1)
    """Hashes that are allowed, in order of preference."""
    dhchap_dhgroups: tuple[DhchapGroup, ...] = Field(
        ("ffdhe2048", "ffdhe3072", "ffdhe4096", "ffdhe6144", "ffdhe8192", "null"), min_length=1
    )
    """Groups that are allowed, in order of preference; null: without Diffie-Hellman."""

    @model_validator(mode="after")
    def _together(self) -> Self:
        for name in ("dhchap_key", "dhchap_ctrl_key"):
            if len(self.sources(name)) > 1:
                raise ValueError(f"set only one of {name}, {name}_file and {name}_credential")
        if self.sources("dhchap_ctrl_key") and not self.authenticates:
            raise ValueError("dhchap_ctrl_key requires dhchap_key: hosts authenticate first")
        unique(listed("dhchap_hashes", self.dhchap_hashes), "hash")
        unique(listed("dhchap_dhgroups", self.dhchap_dhgroups), "group")
        return self

    def sources(self, name: str) -> list[str]:
        """Return the settings that give the location of dhchap_key or dhchap_ctrl_key."""
        names = (name, f"{name}_file", f"{name}_credential")
        return [one for one in names if getattr(self, one) is not None]

    def place(self, name: str) -> str | None:
        """Return the location of dhchap_key or dhchap_ctrl_key, for messages; None if not set."""
        for source in self.sources(name):
            value = getattr(self, source)
            kind = source.removeprefix(name)
            return {"_file": f"{value}", "_credential": f"credential {value}"}.get(
                kind, "configuration"
            )
        return None

    @property
    def authenticates(self) -> bool:
        """Whether the host must authenticate."""
        return bool(self.sources("dhchap_key"))
