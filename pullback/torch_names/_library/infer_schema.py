"""`infer_schema` under torch's private path, with the types that it takes as tables."""

from __future__ import annotations

import collections.abc
import typing
from typing import Any

from pullback.core.device import device
from pullback.core.dtype import dtype
from pullback.core.tensor import Tensor
from pullback.library.schema.infer import infer_schema, schema_type

__all__ = ["SUPPORTED_PARAM_TYPES", "SUPPORTED_RETURN_TYPES", "infer_schema", "tuple_to_list"]

# Annotations given as text are looked up where the user's function is, so they never find this.
_TestTensor = Tensor

_NUMBER: Any = int | float | bool
_SCALARS = (Tensor, int, float, bool, str, _NUMBER, dtype, device)
_LISTS: tuple[Any, ...] = (
    *(typing.Sequence, typing.List),  # noqa: UP006 (keys that users look up)
    *(collections.abc.Sequence, list),
)


def _param_types() -> dict[Any, str]:
    """Every annotation that an argument can have, and how a schema writes it."""
    listed = [one[element] for one in _LISTS for element in (Tensor, int, float, bool, _NUMBER)]
    some = [one[typing.Optional[Tensor]] for one in _LISTS]  # noqa: UP045 (a key, as torch's)
    annotations = [*_SCALARS, *listed, *some]
    annotations += [typing.Optional[one] for one in (*_SCALARS, *listed)]  # noqa: UP045 (as above)
    known = {annotation: schema_type(annotation) for annotation in annotations}
    return {annotation: text for annotation, text in known.items() if text is not None}


SUPPORTED_PARAM_TYPES: dict[Any, str] = _param_types()
SUPPORTED_RETURN_TYPES: dict[Any, str] = {
    one: SUPPORTED_PARAM_TYPES[one]
    for one in (Tensor, typing.List[Tensor], list[Tensor], int, float, bool, _NUMBER)  # noqa: UP006 (both spellings are accepted)
}


def tuple_to_list(tuple_type: Any) -> Any:
    """The list type that a tuple type would be, as lists are what a schema takes.

    >>> from pullback._library.infer_schema import tuple_to_list
    >>> tuple_to_list(tuple[int, ...])
    list[int]
    """
    inside = typing.get_args(tuple_type)
    elements = tuple(one for one in inside if one is not Ellipsis)
    if not elements:
        return list
    element: Any = typing.Union[elements]  # noqa: UP007 (made of values)
    return list[element]
