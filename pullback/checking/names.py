"""Whether a public name of torch is here, partly here, or missing, and why.

The list of torch's names is a file that `python -m tools.torch_names` writes from torch itself.
"""

from __future__ import annotations
import __future__

import difflib
import importlib
import inspect
import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, Literal

import pullback
from pullback.core.explain import absent

__all__ = ["Status", "classes", "find", "public", "status"]

LIST = Path(__file__).with_name("torch_names.txt")
_NOTHING: Any = object()
_REFUSED = re.compile(r"Refused: (.*)\.")


@dataclass(frozen=True)
class Status:
    """What there is of a name: `kind` is the verdict, `why` the reason where it is not "here"."""

    kind: Literal["here", "partly", "missing", "unknown"]
    why: str = ""

    @property
    def stops(self) -> bool:
        """Whether a program that uses it comes to an end there."""
        return self.kind in ("missing", "unknown") or self.why.startswith("takes no ")


@cache
def _listed() -> dict[str, tuple[str, ...]]:
    lines = (line for line in LIST.read_text(encoding="utf-8").splitlines() if line[:1] != "#")
    return {name: tuple(names.split()) for name, _, names in (s.partition(":") for s in lines)}


def public() -> dict[str, tuple[str, ...]]:
    """The public names of torch by module; torch itself is "torch", torch.nn is "nn"."""
    return {name: names for name, names in _listed().items() if not name.startswith("class ")}


def classes() -> dict[str, tuple[str, ...]]:
    """The public members of classes that programs call methods of, by their path below torch."""
    marked = {name: names for name, names in _listed().items() if name.startswith("class ")}
    return {name.removeprefix("class "): names for name, names in marked.items()}


@cache
def _known() -> frozenset[str]:
    """Every path below torch that is on the list."""
    found = {name for name in public() if name != "torch"}
    for module, names in [*public().items(), *classes().items()]:
        start = "" if module == "torch" else f"{module}."
        found.update(start + name for name in names)
    return frozenset(found)


def find(path: str) -> Any:
    """What pullback has at a path below torch; an object of its own where there is nothing."""
    found = _attribute(pullback, path.split("."))
    parts = path.split(".")
    # A function may hide the module of its name: `autograd.gradcheck`.
    for end in range(len(parts) - 1, 0, -1):
        if found is not _NOTHING:
            break
        found = _attribute(_module(parts[:end]), parts[end:])
    return found


def _attribute(found: Any, parts: list[str]) -> Any:
    for part in parts:
        below = getattr(found, part, _NOTHING)
        if isinstance(below, type(__future__.annotations)):  # `from __future__ import annotations`
            below = _NOTHING
        if below is _NOTHING and isinstance(found, ModuleType):
            below = _module([*found.__name__.split(".")[1:], part])
        if below is _NOTHING:
            return _NOTHING
        found = below
    return found


def _module(parts: list[str]) -> Any:
    name = ".".join(["pullback", *parts])
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is not None and name.startswith(error.name):
            return _NOTHING
        raise  # it is there, and lacks a package


@cache
def status(path: str) -> Status:
    """What there is of a name of torch, given by its path below torch.

    >>> status("nn.Linear")
    Status(kind='here', why='')
    >>> status("onnx.export").kind, status("nn.Linaer").kind
    ('missing', 'unknown')
    """
    try:
        found = find(path)
    except ImportError as error:  # an extra that is not installed
        return Status("partly", str(error).removesuffix("."))
    if found is _NOTHING:
        why = absent.reason(path)
        if why is not None:
            return Status("missing", why)
        if path in _known():
            return Status("missing", _package_of(path) or "not here yet")
        return Status("unknown", f"no public name of torch, nor of pullback{_near(path)}")
    refused = _REFUSED.fullmatch(inspect.getdoc(found) or "")
    if refused:
        return Status("missing", refused[1])
    different = absent.difference(path)
    return Status("partly", different) if different else Status("here")


def _package_of(path: str) -> str:
    """What a name says that is there as soon as a package is installed; "" of any other."""
    try:
        getattr(pullback, path)
    except AttributeError as error:
        return str(error) if isinstance(error.__cause__, ImportError) else ""
    return ""


def _near(path: str) -> str:
    found = difflib.get_close_matches(path, _known(), n=1, cutoff=0.85)
    return f"; did you mean torch.{found[0]}?" if found else ""


def unknown_keywords(path: str, given: tuple[str, ...]) -> tuple[str, ...]:
    """Of the keyword arguments of a call, those that the function here does not take.

    >>> unknown_keywords("nn.Linear", ("bias", "biass"))
    ('biass',)
    """
    try:
        found = find(path)
    except ImportError:
        return ()
    if found is _NOTHING or not callable(found):
        return ()
    try:
        taken = inspect.signature(found).parameters.values()
    except (TypeError, ValueError):
        return ()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in taken):
        return ()
    # Operators take `out=`, and creation its options, in ways that signatures do not show.
    names = {parameter.name for parameter in taken} | {"out", "axis", "keepdims", "x", "x1", "x2"}
    return tuple(name for name in given if name not in names)
