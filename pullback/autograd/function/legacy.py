"""What old programs may still touch: instances of Functions, nested arguments, helpers for them.

Here so that nothing else need know of it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

from pullback.core import origin
from pullback.core.sequence import numbering, shown
from pullback.core.tensor import Tensor


def _saved_variables(self: Any) -> Any:
    """The old name of `saved_tensors`."""
    warnings.warn(
        "saved_variables is the old name of saved_tensors; use that.",
        DeprecationWarning,
        stacklevel=origin.stacklevel(),
    )
    return self.saved_tensors


saved_variables = property(_saved_variables)  # of several classes


class Legacy:
    """What an instance of a Function answers: it was never applied, so there is nothing to tell."""

    to_save: Any = None
    dirty_tensors: Any = None
    non_differentiable: Any = None
    saved_for_forward: Any = None
    materialize_grads: Any = True
    needs_input_grad: Any = None
    next_functions: Any = ()
    requires_grad = True
    _raw_saved_tensors: Any = ()
    _input_metadata: Any = ()

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        """Nothing was saved."""
        return ()

    saved_variables = saved_variables

    @property
    def metadata(self) -> dict[str, Any]:
        """A dict for the user's own notes."""
        notes: dict[str, Any] = self.__dict__.setdefault("_notes", {})
        return notes

    def name(self) -> str:
        """The name of the class."""
        return type(self).__name__

    def maybe_clear_saved_tensors(self) -> None:
        """There is nothing to clear."""

    def _sequence_nr(self) -> int:
        number: int = self.__dict__.setdefault("_seq", shown(numbering.next()))
        return number

    def _set_sequence_nr(self, number: int) -> None:
        self.__dict__["_seq"] = number


class NestedIO:
    """Helpers of functions whose arguments and results are nested lists and tuples of tensors."""

    to_save: Any
    dirty_tensors: Any
    non_differentiable: Any
    _to_save_nested: Any = None

    def save_for_backward(self, *args: Any) -> None:
        """Keep the tensors in `args`, flattened, and remember how they were nested."""
        self.to_save = tuple(_iter_tensors(args))
        self._to_save_nested = args

    @property
    def saved_tensors(self) -> Any:
        """What save_for_backward was given, nested as then."""
        if self._to_save_nested is None:
            return ()
        return _unflatten(self.to_save, self._to_save_nested)

    def mark_dirty(self, *args: Any, **kwargs: Any) -> None:
        """Say which tensors, at any depth, forward changed in place."""
        self.dirty_tensors = tuple(_iter_tensors((args, kwargs)))

    def mark_non_differentiable(self, *args: Any, **kwargs: Any) -> None:
        """Say which results, at any depth, have no gradient."""
        self.non_differentiable = tuple(_iter_tensors((args, kwargs)))

    def forward_extended(self, *args: Any) -> Any:
        """To be overridden."""
        raise NotImplementedError(f"{type(self).__name__} does not define forward_extended.")

    def backward_extended(self, *grad_output: Any) -> Any:
        """To be overridden."""
        raise NotImplementedError(f"{type(self).__name__} does not define backward_extended.")


# Walking nested lists, tuples and dicts -----------------------------------------------------------


def _unknown(value: object, expected: str | None) -> ValueError:
    return ValueError(
        f"Cannot look for tensors inside a {type(value).__name__}. Accepted are "
        f"{expected or 'values'}, None, and lists, tuples and dicts of them."
    )


def _nested_map(
    condition: Callable[[Any], bool], fn: Callable[[Any], Any], condition_msg: str | None = None
) -> Callable[[Any], Any]:
    """A function that applies `fn` to every value that meets `condition`, at any depth."""

    def mapped(value: Any) -> Any:
        if condition(value):
            return fn(value)
        if value is None:
            return None
        if isinstance(value, list | tuple):
            values = (mapped(one) for one in value)
            return type(value)(*values) if hasattr(value, "_fields") else type(value)(values)
        if isinstance(value, dict):
            return {name: mapped(one) for name, one in value.items()}
        raise _unknown(value, condition_msg)

    return mapped


def _iter_filter(
    condition: Callable[[Any], bool], *, unknown: bool = False, expected: str | None = None
) -> Callable[[Any], Iterator[Any]]:
    def walk(value: Any) -> Iterator[Any]:
        if condition(value):
            yield value
        elif value is None:
            return
        elif isinstance(value, list | tuple):
            for one in value:
                yield from walk(one)
        elif isinstance(value, dict):
            for one in value.values():
                yield from walk(one)
        elif unknown:
            yield value
        else:
            raise _unknown(value, expected)

    return walk


def _is_tensor(value: Any) -> bool:
    return isinstance(value, Tensor)


_iter_tensors = _iter_filter(_is_tensor, expected="Tensors")
_iter_tensors_permissive = _iter_filter(_is_tensor, unknown=True)
_iter_None_tensors = _iter_filter(  # noqa: N816 (torch's name)
    lambda value: value is None or isinstance(value, Tensor), expected="Tensors"
)
_map_tensor_data = _nested_map(_is_tensor, lambda tensor: tensor.data, "Tensors")


def _unflatten(input: Any, proto: Any) -> Any:
    """The values of the flat `input`, nested as `proto` is; None stays None."""
    return _nested(iter(input), proto)


def _nested(values: Iterator[Any], shape: Any) -> Any:
    if hasattr(shape, "_jit_wrap"):
        return shape._jit_wrap(values)
    if isinstance(shape, list | tuple):
        made = (None if one is None else _nested(values, one) for one in shape)
        return list(made) if isinstance(shape, list) else tuple(made)
    return next(values)
