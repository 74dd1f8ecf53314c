"""Dataclasses among the arguments and results of exported programs."""

from __future__ import annotations

import dataclasses
from typing import Any

from pullback.core.trees import pytree

__all__ = ["register_dataclass"]


def register_dataclass(cls: type, *, serialized_type_name: str | None = None) -> None:
    """Let a dataclass stand among arguments and results; its fields are taken apart.

    Args:
        cls: The dataclass.
        serialized_type_name: Its name in files; by default the one that it is imported by. Who
            loads such a file registers the class first.

    Example:
        >>> import dataclasses
        >>> import pullback as torch
        >>> @dataclasses.dataclass
        ... class Batch:
        ...     x: torch.Tensor
        ...     y: torch.Tensor
        >>> torch.export.register_dataclass(Batch)
        >>> len(torch.utils._pytree.tree_leaves(Batch(torch.ones(1), torch.ones(1))))
        2
    """
    if not dataclasses.is_dataclass(cls):
        raise AssertionError(f"register_dataclass: {cls!r} is no dataclass.")
    names = [one.name for one in dataclasses.fields(cls) if one.init]

    def flatten(value: Any) -> tuple[list[Any], list[str]]:
        return [getattr(value, name) for name in names], list(names)

    def unflatten(values: Any, context: Any) -> Any:
        return cls(**dict(zip(context, values, strict=True)))

    def known(context: Any) -> list[str]:
        if context != names:
            raise ValueError(f"{cls.__name__} has the fields {names}, the file has {context}.")
        return list(names)

    pytree.register_pytree_node(
        cls, flatten, unflatten,
        serialized_type_name=serialized_type_name or f"{cls.__module__}.{cls.__qualname__}",
        to_dumpable_context=list, from_dumpable_context=known,
    )  # fmt: skip
