"""What a file asks for, without loading it."""

from __future__ import annotations

import pickletools
from typing import Any

from pullback.serialization.allowed import allowed_by_user
from pullback.serialization.archive import Archive, is_archive
from pullback.serialization.forbidden import is_forbidden, runs_programs
from pullback.serialization.names import known_global, todays_name
from pullback.serialization.reading import Location, bytes_left, opened_for_reading

__all__ = ["get_unsafe_globals_in_checkpoint"]


def get_unsafe_globals_in_checkpoint(f: Location) -> list[str]:
    """The functions and classes a file names that `load(weights_only=True)` would refuse.

    Nothing of the file is run. Those that `add_safe_globals` allows are not among them.

    Example:
        >>> import io
        >>> from fractions import Fraction
        >>> import pullback as torch
        >>> file = io.BytesIO()
        >>> torch.save([torch.ones(2), Fraction(1, 2)], file)
        >>> _ = file.seek(0)
        >>> torch.serialization.get_unsafe_globals_in_checkpoint(file)
        ['fractions.Fraction']
    """
    with opened_for_reading(f) as file:
        if not is_archive(file):
            raise ValueError(
                "get_unsafe_globals_in_checkpoint(): wants a file that torch.save wrote since "
                "torch 1.6."
            )
        structure = Archive(file, bytes_left(file), trusted=False).read("data.pkl")
    allowed = allowed_by_user()
    found = [
        f"{module}.{name}"
        for module, name in _globals(structure)
        if not _is_accepted(module, name, allowed)
    ]
    return list(dict.fromkeys(found))


def _is_accepted(module: str, name: str, allowed: dict[tuple[str, str], Any]) -> bool:
    """Whether `load(weights_only=True)` takes a name."""
    target = allowed.get((module, name)) or allowed.get(todays_name(module, name))
    if is_forbidden(module, name) or (target is not None and runs_programs(target)):
        return False
    return target is not None or known_global(module, name) is not None


def _globals(structure: bytes) -> list[tuple[str, str]]:
    """Module and name of each global in a pickle, in order."""
    found: list[tuple[str, str]] = []
    texts: list[Any] = []
    memo: dict[Any, Any] = {}
    for opcode, argument, _ in pickletools.genops(structure):
        if opcode.name in ("GLOBAL", "INST"):
            module, _, name = str(argument).partition(" ")
            found.append((module, name))
        elif opcode.name == "STACK_GLOBAL":
            module, name = texts[-2:]
            found.append((module, name))
        elif "UNICODE" in opcode.name:
            texts.append(argument)
        elif opcode.name == "MEMOIZE":
            memo[len(memo)] = texts[-1] if texts else None
        elif opcode.name.endswith("PUT"):
            memo[argument] = texts[-1] if texts else None
        elif opcode.name.endswith("GET") and isinstance(memo.get(argument), str):
            texts.append(memo[argument])
    return found
