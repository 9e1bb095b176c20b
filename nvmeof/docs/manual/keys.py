# SPDX-License-Identifier: BSD-3-Clause
"""nvmeof.toml(5), generated from the models: each key with type, default, meaning, example."""

from __future__ import annotations

import ast
import inspect
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal, get_args, get_origin
from uuid import UUID

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from manual import roff
from nvmf.auth import Key
from nvmf.config import Config
from nvmf.config.units import Nguid, Nqn, Size, format_size

EXAMPLES = Path(__file__).resolve().parents[3] / "config" / "examples"
_EVERY_KEY = EXAMPLES / "every-key.toml"
_DESCRIPTION = """\
A TOML file that specifies what a target serves. nvmeof target serve reads it, and reads it again
on SIGHUP or nvmeof target reload. nvmeof config check reports errors in a file, with the line.

Relative paths start at the folder of the file. A table in single brackets occurs at most once;
one in double brackets occurs once for each port, subsystem, host or namespace, and belongs to the
table above it. Unknown keys are refused. Every key that is not required may be left out.

A size is a whole number of bytes, or text with a unit: K, M, G and T, alone or followed by iB, are
powers of 1024; kB, MB, GB and TB are powers of 1000.
"""


def tables(
    model: type[BaseModel] = Config, path: str = ""
) -> Iterator[tuple[str, type[BaseModel]]]:
    """Yield the heading and the model of every possible table in a file."""
    for name, field in model.model_fields.items():
        inner = model_in(field.annotation)
        if inner is None:
            continue
        below = f"{path}.{field.alias or name}".lstrip(".")
        yield (f"[{below}]" if inner is field.annotation else f"[[{below}]]"), inner
        yield from tables(inner, below)


def model_in(annotation: object) -> type[BaseModel] | None:
    """Return the model of an annotation, or of the tables in its tuple."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    return next((found for part in get_args(annotation) if (found := model_in(part))), None)


def keys(model: type[BaseModel]) -> Iterator[tuple[str, FieldInfo, str]]:
    """Yield (key, field, meaning) of a table, without nested tables."""
    said = _docstrings(model)
    for name, field in model.model_fields.items():
        if model_in(field.annotation) is None:
            yield field.alias or name, field, said.get(name, "")


def _docstrings(model: type[BaseModel]) -> dict[str, str]:
    """Return the docstrings of the fields."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(model))).body
    assert isinstance(tree, ast.ClassDef)
    found = {}
    for field, text in zip(tree.body, tree.body[1:], strict=False):
        match field, text:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(words))),
            ):
                found[name] = inspect.cleandoc(words)
    return found


def examples() -> dict[str, dict[str, str]]:
    """Return examples by table heading and key, from the example file with every key."""
    found: dict[str, dict[str, str]] = {}
    table: dict[str, str] = {}
    for line in _EVERY_KEY.read_text().splitlines():
        if line.startswith("["):
            table = found.setdefault(line, {})
        elif " = " in line and not line.startswith("#"):
            table.setdefault(line.split(" = ")[0], line)
    return found


def type_of(field: FieldInfo) -> str:
    """Describe the type of a value."""
    return _words(field.annotation, list(field.metadata))


def _words(annotation: Any, marks: list[object]) -> str:
    if annotation is int and _has(marks, Size):
        return f"size{_limits(marks)}"
    inner = [part for part in get_args(annotation) if part is not type(None)]
    if get_origin(annotation) is dict:
        return "table of text, numbers, true or false"
    if hasattr(annotation, "__metadata__"):
        more = [m for mark in annotation.__metadata__ for m in getattr(mark, "metadata", [mark])]
        return _words(annotation.__origin__, [*more, *marks])
    if get_origin(annotation) is Literal:
        return "one of " + ", ".join(_toml(value) for value in inner)
    if get_origin(annotation) is tuple:
        return f"list; each {_words(inner[0], []).removeprefix('text, ')}"
    if type(None) in get_args(annotation) and len(inner) == 1:
        return _words(inner[0], marks)
    if _has(marks, Nqn):
        return "NQN"
    plain = {bool: "true or false", Path: "path", UUID: "UUID", Key: "key, DHHC-1:HH:BASE64:"}
    if annotation in plain:
        return plain[annotation]
    if annotation is bytes:
        return f"{32 if _has(marks, Nguid) else 16} hexadecimal digits"
    if annotation is int:
        return f"whole number{_limits(marks)}"
    assert annotation is str, annotation
    return f"text{_length(marks)}"


def _has(marks: list[object], alias: Any) -> bool:
    """Return whether an annotation has the marks of one of our types."""
    return any(mark is own for mark in marks for own in alias.__metadata__)


def _mark(marks: list[object], name: str) -> int | None:
    found = (getattr(mark, name, None) for mark in marks)
    return next((int(value) for value in found if value is not None), None)


def _limits(marks: list[object]) -> str:
    low, high = _mark(marks, "ge"), _mark(marks, "le")
    if low is not None and high is not None:
        return f" from {low} to {high}"
    return f", at least {low}" if low else ""


def _length(marks: list[object]) -> str:
    most = _mark(marks, "max_length")
    return f" of at most {most} characters" if most is not None else ""


def default_of(field: FieldInfo) -> str:
    """Describe the default value."""
    if field.is_required():
        return "Required."
    value = field.get_default(call_default_factory=True)
    if value is None or value in ((), {}):
        return "No default."
    if isinstance(value, tuple):
        return f"Default: [{', '.join(_toml(item) for item in value)}]."
    if _has(list(field.metadata), Size):
        return f"Default: {value} ({format_size(value)})."
    return f"Default: {_toml(value)}."


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f'"{value}"' if isinstance(value, str) else str(value)


def page(date: str) -> str:
    """Return the page."""
    shown = examples()
    body = roff.prose(
        "An example of each key is one of config/examples/every-key.toml in the source tree."
    )
    for heading, model in tables():
        title = heading.replace("[", r"\(lB").replace("]", r"\(rB")
        body.append(f".Ss {title}")
        text = inspect.cleandoc(model.__doc__ or "").split(": ", 1)[-1]
        text = text.removeprefix("limits of a namespace: ")
        body += roff.prose(f"{text[0].upper()}{text[1:]}")
        body += roff.items(
            (f"Ic {roff.words(key)}", _entry(field, said, shown[heading][key]))
            for key, field, said in keys(model)
        )
    short = (EXAMPLES / "ram.toml").read_text().splitlines()
    parts = [
        ("DESCRIPTION", roff.prose(_DESCRIPTION)),
        ("KEYS", body),
        (
            "FILES",
            roff.items(
                [
                    (
                        "Pa /etc/nvmeof/target.toml",
                        roff.sentences("Configuration of the service nvmeof-target."),
                    )
                ]
            ),
        ),
        ("EXAMPLES", roff.literal([line for line in short if "SPDX" not in line])),
        (
            "SEE ALSO",
            roff.see(
                (
                    ("nvmeof", 1),
                    ("nvmeof-config", 1),
                    ("nvmeof-config-check", 1),
                    ("nvmeof-target-serve", 1),
                )
            ),
        ),
    ]
    return roff.page("nvmeof.toml", 5, date, "configuration of a target of nvmeof", parts)


def _entry(field: FieldInfo, said: str, example: str) -> list[str]:
    lines = roff.sentences(f"{said.rstrip('.')}.")
    lines += [
        ".br",
        *roff.sentences(f"Type: {type_of(field)}."),
        *roff.sentences(default_of(field)),
    ]
    return [*lines, f".Dl {roff.words(example)}"]
