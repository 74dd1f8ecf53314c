"""What the parameters of public callables mean.

The `Args:` section of a docstring says it first. What many callables share is written once, in
arguments.toml beside this file: only the pages of reference read it, so it costs no import.
"""

from __future__ import annotations

import enum
import functools
import inspect
import re
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from pullback.operators.declare import REQUIRED

__all__ = ["described", "parameters", "sections", "shapes", "signature", "table"]

HEADING = re.compile(r"^(Args|Shape|Returns|Raises|Yields):$")
ITEM = re.compile(r"^    (\*{0,2}\w+(?:, \*{0,2}\w+)*): +(.*)$")


def parameters(title: str, value: Any) -> list[inspect.Parameter]:
    """The parameters that a caller gives: no receiver of methods, nothing of an enumeration."""
    if isinstance(value, enum.EnumType):
        return []  # its signature is that of enum's own machinery
    if type(value).__module__ == "typing":
        return []  # written in annotations, not called
    try:
        given = list(signature(value).parameters.values())
    except (TypeError, ValueError):
        return []
    if title.startswith("torch.Tensor.") and given and given[0].name in ("self", "input"):
        return given[1:]
    return given


def signature(value: Any) -> inspect.Signature:
    """That of a callable, without a default for what has to be given in one form or another."""
    own = inspect.signature(value)
    given = [
        one.replace(default=one.empty) if one.default is REQUIRED else one
        for one in own.parameters.values()
    ]
    # A parameter that has one may stand before one that has none.
    return inspect.Signature(
        given, return_annotation=own.return_annotation, __validate_parameters__=False
    )


def sections(doc: str) -> Iterator[tuple[str, list[str]]]:
    """A docstring cut at its headings: ("", lines) is running text or an example."""
    heading, lines = "", []
    for line in doc.splitlines():
        new = HEADING.match(line)
        ended = heading and line and not line.startswith(" ")
        if new or ended:
            yield heading, lines
            heading, lines = (new[1], []) if new else ("", [])
        if not new:
            lines.append(line)
    yield heading, lines


def described(title: str, value: Any) -> dict[str, str]:
    """The description of each parameter that has one, by name."""
    own = _of_docstring(inspect.getdoc(value) or "")
    found = {}
    for parameter in parameters(title, value):
        text = own.get(parameter.name) or _shared(title, parameter.name)
        if text:
            found[parameter.name] = text
    return found


def shapes(title: str, doc: str) -> list[str]:
    """What goes in and comes out: by the docstring's own section, or as shapes.toml has it."""
    own = [lines for heading, lines in sections(doc) if heading == "Shape"]
    if own:
        return [line.strip() for line in own[0] if line.strip()]
    for pattern, told in _file("shapes.toml").items():
        if any(fnmatchcase(title, each) for each in pattern.split()):
            return list(told["shape"])
    return []


def table(title: str, value: Any) -> Iterator[str]:
    """Name, default and description of each parameter, as Markdown."""
    given = parameters(title, value)
    if not given:
        return
    texts = described(title, value)
    yield "| Parameter | Default | Description |"
    yield "| --- | --- | --- |"
    for parameter in given:
        name = str(parameter.replace(annotation=parameter.empty, default=parameter.empty))
        cells = [f"`{name}`", _default(parameter), texts.get(parameter.name, "")]
        yield "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
    yield ""


def _default(parameter: inspect.Parameter) -> str:
    if parameter.default is parameter.empty:
        return ""
    if type(parameter.default) is object or repr(parameter.default) == "<not given>":
        return ""  # nothing that a caller could write
    shown = re.sub(
        r"<(?:class |function |module )?'?([\w.]+)[^>]*>", r"\1", repr(parameter.default)
    )
    return f"`{shown.rpartition('pullback.')[2]}`"


def _of_docstring(doc: str) -> dict[str, str]:
    texts: dict[str, str] = {}
    names: list[str] = []
    for heading, lines in sections(doc):
        for line in lines if heading == "Args" else ():
            item = ITEM.match(line)
            if item:
                names = [name.lstrip("*") for name in item[1].split(", ")]
                texts.update(dict.fromkeys(names, item[2]))
            elif line.strip():
                for name in names:
                    texts[name] += f" {line.strip()}"
    return texts


def _shared(title: str, name: str) -> str:
    """The last section of the file that matches the callable's path and knows the name."""
    for pattern, texts in reversed(_file().items()):
        if name in texts and any(fnmatchcase(title, each) for each in pattern.split()):
            return texts[name]
    return ""


@functools.cache
def _file(name: str = "arguments.toml") -> dict[str, dict[str, Any]]:
    beside = Path(__file__).with_name(name)
    return tomllib.loads(beside.read_text(encoding="utf-8"))
