"""Tables of functions under `torch.ops.aten`, each entered with the schema that torch gives it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["Table"]


class Table(dict[str, tuple[str, Callable[..., Any]]]):
    """By name, with the overload where it is one of several: the schema, and what runs it."""

    def enter(self, schema: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Add a function, under the name in its schema."""

        def add(function: Callable[..., Any]) -> Callable[..., Any]:
            self[schema.partition("(")[0]] = (f"aten::{schema}", function)
            return function

        return add
