"""Nested state dicts as flat ones, by names with dots, and back.

Lists are taken apart only where there are tensors or dicts in them: torch does it so, and names
have to be the same on both sides.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pullback.core.tensor import Tensor

__all__ = ["flatten_state_dict", "set_element", "unflatten_state_dict"]

Path = tuple[str | int, ...]


def _is_opened(value: Any) -> bool:
    """Whether what is in a value gets names of its own."""
    if isinstance(value, Mapping):
        return True
    if not isinstance(value, list):
        return False
    return any(isinstance(one, Tensor) or _is_opened(one) for one in value)


def _leaves(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    if not _is_opened(value):
        yield path, value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            yield from _leaves(inner, (*path, str(key)))
    else:
        for number, inner in enumerate(value):
            yield from _leaves(inner, (*path, number))


def flatten_state_dict(state_dict: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Path]]:
    """Values by flat names, and the path of each name.

    >>> flatten_state_dict({"model": {"weight": 1.0}, "steps": [1, 2]})[0]
    {'model.weight': 1.0, 'steps': [1, 2]}
    """
    flat: dict[str, Any] = {}
    paths: dict[str, Path] = {}
    for path, value in _leaves(state_dict, ()):
        name = ".".join(map(str, path))
        if name in flat:
            raise ValueError(f"Two values of the state dict would be called {name!r}.")
        flat[name], paths[name] = value, path
    return flat, paths


def set_element(nested: Any, path: Path, value: Any) -> None:
    """Put a value where its path leads; what is missing on the way is made.

    >>> nested = {}
    >>> set_element(nested, ("groups", 1, "lr"), 0.1)
    >>> nested
    {'groups': [None, {'lr': 0.1}]}
    """
    for here, after in zip(path, (*path[1:], None), strict=True):
        if isinstance(nested, list):
            assert isinstance(here, int)
            nested.extend([None] * (here + 1 - len(nested)))
        else:
            here = _key(nested, here)
        if after is None:
            nested[here] = value
            return
        inner = nested[here] if isinstance(nested, list) else nested.get(here)
        if inner is None:
            inner = nested[here] = [] if isinstance(after, int) else {}
        nested = inner


def _key(nested: Any, name: Any) -> Any:
    """The key that a dict has itself for a name: numbers of parameters are written as text."""
    if name in nested:
        return name
    return next((key for key in nested if str(key) == name), name)


def unflatten_state_dict(flat: Mapping[str, Any], paths: Mapping[str, Path]) -> dict[str, Any]:
    """The nested dict that `flatten_state_dict` was given.

    >>> unflatten_state_dict({"a.b": 1}, {"a.b": ("a", "b")})
    {'a': {'b': 1}}
    """
    nested: dict[str, Any] = {}
    for name, value in flat.items():
        set_element(nested, paths[name], value)
    return nested
