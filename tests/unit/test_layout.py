"""Four source roots form one import namespace, with no other top-level packages; tests and their
helpers are apart.
"""

from __future__ import annotations

import ast
import importlib
import importlib.metadata
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE_ROOTS = ("nvmeof", "target", "initiator", "config")


@pytest.mark.parametrize(
    ("name", "source_root"),
    [
        ("nvmf.engine", "nvmeof"),
        ("nvmf.spec", "nvmeof"),
        ("nvmf.cli", "nvmeof"),
        ("nvmf.target", "target"),
        ("nvmf.initiator", "initiator"),
        ("nvmf.config", "config"),
    ],
)
def test_package_comes_from_its_source_root(name: str, source_root: str) -> None:
    module = importlib.import_module(name)
    assert module.__file__ is not None
    part = Path(*name.split("."), "__init__.py")
    if "overlay" in module.__file__:  # ./dev test --asan
        assert Path(module.__file__).resolve() == ROOT / source_root / part
    else:
        assert Path(module.__file__) == ROOT / source_root / part


def test_namespace_is_a_namespace() -> None:
    namespace = importlib.import_module("nvmf")
    assert namespace.__file__ is None
    for source_root in SOURCE_ROOTS:
        assert not (ROOT / source_root / "nvmf" / "__init__.py").exists()
        assert str(ROOT / source_root / "nvmf") in list(namespace.__path__)


def test_every_package_is_typed() -> None:
    """Type checkers use the annotations only of packages that have py.typed."""
    packages = [path for root in SOURCE_ROOTS for path in (ROOT / root / "nvmf").glob("*/")]
    names = {path.name for path in packages if (path / "__init__.py").exists()}
    assert names >= {"auth", "cli", "config", "doctor", "engine", "initiator", "spec", "target"}
    assert not {path.name for path in packages if path.name in names and not typed(path)}


def typed(package: Path) -> bool:
    return (package / "py.typed").exists()


def test_binding_is_compiled_for_this_python() -> None:
    engine = importlib.import_module("nvmf.engine._engine")
    assert engine.__file__ is not None
    assert sys.implementation.cache_tag.replace("-", "") in engine.__file__.replace("-", "")


def test_distribution_and_command() -> None:
    distribution = importlib.metadata.distribution("nvmeof-rdma")
    assert distribution.version == "0.1.0"
    found = {(entry.group, entry.name): entry.value for entry in distribution.entry_points}
    assert found == {
        ("console_scripts", "nvmeof"): "nvmf.cli.main:main",
        ("pytest11", "nvmf"): "nvmf.testing",
    }


@pytest.mark.parametrize("level", ["unit", "interop"])
def test_a_level_has_only_tests_and_fixtures(level: str) -> None:
    """Helpers are in tests/support."""
    names = {path.name for path in (ROOT / "tests" / level).glob("*.py")}
    assert {name for name in names if not name.startswith("test_")} == {"conftest.py"}


def test_the_second_implementation_imports_only_itself() -> None:
    """tests/wire shares no code with the product, nor with the helpers that use both."""
    for path in (ROOT / "tests" / "wire").glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [node.module or ""]
            else:
                continue
            packages = {name.partition(".")[0] for name in names} - sys.stdlib_module_names
            assert packages <= {"wire"}, path.name
