"""Torch's names that are not here, or refuse: why, and what to use instead.

`absent.txt` is the one table. Modules end their `__getattr__` with `raise absent(__name__, name)`;
`pullback check` and the page "Coming from torch" read the same lines. Tests hold that every public
name of torch which is not here has a line, and that no line is of a name that is.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any, NoReturn

_TABLE = f"{os.path.dirname(__file__)}/absent.txt"  # pathlib takes 3 ms to import


@cache
def tables() -> tuple[dict[str, str], dict[str, str]]:
    """Reasons by path below torch: of what is not here, and of what is here in part."""
    missing: dict[str, str] = {}
    partly: dict[str, str] = {}
    table, why = missing, ""
    with open(_TABLE, encoding="utf-8") as file:
        lines = file.read().splitlines()
    for line in lines:
        if line.startswith("-----"):
            table = partly
        elif line.startswith(" "):
            table.update(dict.fromkeys(line.split(), why))
        elif not line.startswith("#"):
            why = line
    return missing, partly


def reason(path: str) -> str | None:
    """Why a name of torch, given by its path below torch, is not here; None where nothing is said.

    >>> reason("nn.qat.Linear")[:41]
    'quantised tensors need kernels for 8-bit '
    >>> reason("nn.Linear") is None
    True
    """
    table = tables()[0]
    start, _, last = path.rpartition(".")
    if last.endswith("_out") and (found := table.get(f"{start}.*_out")):
        return found
    while path not in table and "." in path:
        path = path.rpartition(".")[0]
    return table.get(path)


def difference(path: str) -> str | None:
    """What is different about a name that is here in part; None for all others."""
    return tables()[1].get(path)


def absent(module: str, name: str) -> AttributeError:
    """The error of a module that has not the name; with the reason, where it is a name of torch.

    >>> absent("pullback.nn", "quantized").args[0][:50]
    "pullback.nn has no 'quantized': quantised tensors "
    >>> absent("pullback.nn", "Linaer")
    AttributeError("module 'pullback.nn' has no attribute 'Linaer'")
    """
    below = f"{module}.{name}".partition(".")[2]  # "pullback.nn" is torch.nn, so "nn"
    why = None if name.startswith("__") else reason(below)
    if why is None:
        # With the module, what is near can be told when the error is printed.
        text = f"module {as_imported(module)!r} has no attribute {name!r}"
        return AttributeError(text, name=name, obj=sys.modules.get(module))
    return AttributeError(f"{as_imported(module)} has no {name!r}: {why}.", name=name)


def as_imported(module: str) -> str:
    """A module of ours as the program calls it: torch's name while pullback stands in for torch."""
    top, dot, below = module.partition(".")
    package = sys.modules.get(top)
    return f"{top if package is None else package.__name__}{dot}{below}"


def refuse_others(namespace: dict[str, Any]) -> None:
    """Give a module, by its globals, the `__getattr__` of one that has nothing more to give.

    Not as `__getattr__ = ...` in the module: type checkers would take every name for one it has.

    >>> module = {"__name__": "pullback.ao"}
    >>> refuse_others(module)
    >>> module["__getattr__"]("quantization")
    Traceback (most recent call last):
    ...
    AttributeError: pullback.ao has no 'quantization': quantised tensors need kernels for 8-bit ...
    """
    module = namespace["__name__"]

    def missing(name: str) -> NoReturn:
        raise absent(module, name)

    namespace["__getattr__"] = missing


@contextmanager
def reasons_added() -> Iterator[None]:
    """Inside, an error about a name of torch that is not here leaves with its reason as a note.

    A module's `__getattr__` says it itself; imports that fail and methods of tensors cannot.
    """
    try:
        yield
    except (AttributeError, ImportError) as error:
        why = reason(path_named(error))
        if why is not None and why not in str(error):
            error.add_note(f"Why: {why}.")
        raise


_IMPORTED = r"cannot import name '(\w+)' from '(?:torch|pullback)\.?([\w.]*)'"


def path_named(error: AttributeError | ImportError) -> str:
    """The path below torch of the name that an error is about; empty where it is about another.

    >>> path_named(ModuleNotFoundError("No module named 'torch.onnx'", name="torch.onnx"))
    'onnx'
    """
    if isinstance(error, ModuleNotFoundError):
        top, _, below = (error.name or "").partition(".")
        return below if top in ("torch", "pullback") else ""
    if isinstance(error, ImportError):
        match = re.match(_IMPORTED, error.msg)
        return f"{match[2]}.{match[1]}".lstrip(".") if match else ""
    of_tensor = any(kind.__name__ == "Tensor" for kind in type(error.obj).__mro__)
    return f"Tensor.{error.name}" if of_tensor else ""


def refusing(path: str) -> Callable[..., NoReturn]:
    """A function that can be imported, and raises RuntimeError when called, for its line above."""
    why = reason(path)
    assert why is not None, path
    name = path.rpartition(".")[2]

    def function(*args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError(f"{name} is not possible here: {why}.")

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Refused: {why}."
    return function


def refusing_class(path: str) -> type:
    """A class that can be imported and asked for by isinstance, and of which there is no object.

    Libraries import such classes to treat their objects apart; here they never meet one.

    >>> DTensor = refusing_class("distributed.tensor.DTensor")
    >>> isinstance(3.0, DTensor)
    False
    """
    why = reason(path)
    assert why is not None, path
    module, _, name = path.rpartition(".")

    def refuse(cls: type, *args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError(f"{name} is not possible here: {why}.")

    home = f"pullback.{module}".rstrip(".")
    return _Refusing(
        name, (), {"__new__": refuse, "__module__": home, "__doc__": f"Refused: {why}."}
    )


class _Refusing(type):
    """Gives a class that is refused the reason for what it lacks."""

    def __getattr__(cls, name: str) -> NoReturn:
        text = f"{cls.__name__} has no {name!r}"
        if name.startswith("__"):
            raise AttributeError(f"{text}.", name=name)
        raise AttributeError(f"{text}: {(cls.__doc__ or '').removeprefix('Refused: ')}", name=name)


def all_refusing(module: str, names: tuple[str, ...]) -> Callable[[str], Any]:
    """The `__getattr__` of a module of which only the names are here, for those who import it.

    A name with a capital is a class (`refusing_class`), any other a function (`refusing`).
    """

    def found(name: str) -> Any:
        if name not in names:
            raise absent(module, name)
        path = f"{module.partition('.')[2]}.{name}"
        made = refusing_class(path) if name.lstrip("_")[0].isupper() else refusing(path)
        setattr(sys.modules[module], name, made)
        return made

    return found
