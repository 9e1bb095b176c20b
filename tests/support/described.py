# SPDX-License-Identifier: BSD-3-Clause
"""Simulated machines made of files, for the tests of the doctor."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from nvmf.config.models import Config
from nvmf.doctor import Finding, Level, Machine
from nvmf.doctor.machine import Interface


class Described(Machine):
    """A machine with only these files, limits, programs' output and interfaces."""

    def __init__(
        self,
        root: Path,
        *,
        files: dict[str, str] | None = None,
        soft: int | None = None,
        programs: dict[str, str] | None = None,
        links: list[Interface] | None = None,
        cpus: set[int] | None = None,
        is_root: bool = True,
    ) -> None:
        super().__init__(root)
        for name, text in (files or {}).items():
            path = self.path(name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        self._soft = soft
        self._programs = programs or {}
        self.__dict__["interfaces"] = links or []
        self._cpus = cpus or {0, 1}
        self._is_root = is_root

    def output(self, *command: str) -> str | None:
        return self._programs.get(command[0])

    def limit(self, number: int) -> int | None:
        return self._soft

    @property
    def cpus(self) -> set[int]:
        return self._cpus

    @property
    def root_user(self) -> bool:
        return self._is_root


def config(**changes: Any) -> Config:
    port = {"traddr": "192.0.2.1", "trsvcid": 4420, "device": "system"}
    return Config.model_validate({"port": [port], **changes})


def levels(findings: Iterable[Finding]) -> list[Level]:
    return [finding.level for finding in findings]


def only(findings: Iterable[Finding]) -> Finding:
    (one,) = findings
    return one
