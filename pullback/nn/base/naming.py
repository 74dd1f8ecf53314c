"""Tells an error which module it was raised in: `in body.2: Linear(9, 2)`.

Modules do not know their own names; who holds them does. So each module that an error passes adds
its part in front, and the note has the whole path once the outermost was passed.
"""

from __future__ import annotations

from typing import Any

from pullback.autograd.answers.modules import described

_PATH = "_pullback_module"  # of an error: the module it passed last, by id, its path, and the note


def note_module(error: Exception, module: Any) -> None:
    """`error` leaves the call of `module`."""
    known = getattr(error, _PATH, None)
    if known is None:
        inner, path, label = id(module), "", described(module)
    else:
        inner, path, label, note = known
        name = _name_in(module, inner)
        if name is None:
            return  # called from somewhere else than its holder: the note stays as it is
        path = f"{name}.{path}" if path else name
        notes = getattr(error, "__notes__", [])
        if note in notes:
            notes.remove(note)
        inner = id(module)
    note = f"in the module {path}: {label}" if path else f"in the module {label}"
    try:
        error.add_note(note)
        setattr(error, _PATH, (inner, path, label, note))
    except (AttributeError, TypeError):
        return  # a class of errors that takes no notes


def _name_in(module: Any, inner: int) -> str | None:
    for name, one in module.named_modules():
        if id(one) == inner and name:
            return str(name)
    return None
