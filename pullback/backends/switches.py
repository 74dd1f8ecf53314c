"""The context manager `flags` of a module of switches: set within a block, then as before."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any

__all__ = ["flags_of"]


def flags_of(settings: dict[str, Any], **defaults: Any) -> Callable[..., Any]:
    """`flags` for a module whose globals are `settings`; arguments have torch's defaults."""

    @contextmanager
    def chosen(wanted: dict[str, Any]) -> Iterator[None]:
        before = {name: settings[name] for name in wanted}
        settings.update(wanted)
        try:
            yield
        finally:
            settings.update(before)

    def flags(*positional: Any, **named: Any) -> AbstractContextManager[None]:
        """Set switches within a block."""
        given = dict(zip(defaults, positional, strict=False)) | named
        if len(positional) > len(defaults) or (unknown := given.keys() - defaults.keys()):
            what = sorted(unknown) if len(positional) <= len(defaults) else "too many arguments"
            raise TypeError(f"flags() takes {', '.join(defaults)}; got {what}.")
        return chosen(
            {name: value for name, value in {**defaults, **given}.items() if value is not None}
        )

    return flags
