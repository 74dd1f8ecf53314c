"""What operators do to masked tensors: one rule for each kind of operator.

Elementwise ones act on the data and keep the mask; what moves elements moves those of both. What
looks at several elements at once is in over_elements.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pullback
from pullback.core.tensor import Tensor
from pullback.masked.maskedtensor.core import MaskedTensor
from pullback.masked.maskedtensor.over_elements import REDUCTIONS, reduced
from pullback.operators.declare import OPERATORS

__all__ = ["answer"]

# Names of torch that move elements about, beside the operators that are declared as views.
_MOVING = """
    _unsafe_view alias_copy cat chunk diagonal expand flip gather index index_select narrow permute
    repeat reshape roll select slice split split_with_sizes squeeze stack t take_along_dim transpose
    unbind unfold unsqueeze view
"""
_MOVES = frozenset(_MOVING.split())
# The data changes, the mask is the same.
_OF_DATA = """
    _conj _neg_view _to_copy alias bernoulli clone contiguous copy detach dropout empty_like
    full_like ones_like rand_like randn_like relu zeros_like
"""
_KEEPS = frozenset(_OF_DATA.split())


def answer(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The answer of a masked tensor to an operator."""
    name = func.overloadpacket.__name__
    rule = _RULES.get(name) or _rule_of(name)
    if rule is None:
        raise TypeError(
            f"{name}: there is no rule for tensors with a mask. Use get_data(), to_tensor(value) "
            "or the functions of torch.masked, which take mask=."
        )
    return rule(func, args, kwargs)


@cache
def _kinds() -> dict[str, str]:
    """What kind of operator stands behind each of torch's names."""
    found: dict[str, str] = {}
    for op in list(OPERATORS.values()):
        name = (op.aten or op.name).partition(".")[0]
        found.setdefault(name, op.kind)
    return found


def _rule_of(name: str) -> Callable[..., Any] | None:
    plain = name.removesuffix("_")
    if plain not in _kinds():
        getattr(pullback, plain, None)  # which loads its family
        _kinds.cache_clear()
    kind = _kinds().get(plain)
    if plain in _MOVES or kind == "view":
        return _moved
    if plain != name and plain:
        return _written
    return _elementwise if plain in _KEEPS or kind == "elementwise" else None


def _tensors(value: Any) -> Iterator[Any]:
    """The tensors among arguments."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _tensors(one)
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))


def _changed(value: Any, change: Callable[[Any], Any]) -> Any:
    """The arguments with every masked tensor changed."""
    if isinstance(value, MaskedTensor):
        return change(value)
    if isinstance(value, list | tuple):
        return type(value)(_changed(one, change) for one in value)
    if isinstance(value, dict):
        return {name: _changed(one, change) for name, one in value.items()}
    return value


def _data(value: MaskedTensor) -> Tensor:
    return value._masked_data


def _mask(value: MaskedTensor) -> Tensor:
    return value._masked_mask


def _made(data: Any, mask: Any) -> Any:
    """Masked tensors from results and their masks."""
    if isinstance(data, list | tuple):
        return [_made(*pair) for pair in zip(data, mask, strict=True)]
    return MaskedTensor._of(data, mask)


# Rules -------------------------------------------------------------------------------------------


def _common(name: str, args: Any) -> Tensor:
    """The mask that all masked operands have."""
    found = [_mask(one) for one in _tensors(args) if isinstance(one, MaskedTensor)]
    first = found[0]
    for other in found[1:]:
        if other is not first and not _same(first, other):
            raise ValueError(
                f"{name}: the masks of the operands differ, and which elements of the result would "
                "count is not said. Make the masks equal first, or use torch.where."
            )
    return first


def _same(first: Tensor, other: Tensor) -> bool:
    if str(first.layout) != "torch.strided":
        first, other = first.to_dense(), other.to_dense()
    shapes = first.shape, other.shape
    if shapes[0] != shapes[1]:  # what is broadcast is compared as it will be
        first, other = pullback.broadcast_tensors(first, other)
    return bool(pullback.equal(first, other))


def _elementwise(func: Any, args: Any, kwargs: Any) -> Any:
    mask = _common(func.overloadpacket.__name__, (args, kwargs))
    data = func(*_changed(args, _data), **_changed(kwargs, _data))
    if isinstance(data, list | tuple):
        return type(data)(_made(one, _fitted(mask, one)) for one in data)
    return _made(data, _fitted(mask, data))


def _fitted(mask: Tensor, data: Tensor) -> Tensor:
    return mask if mask.shape == data.shape else mask.expand(data.shape)


def _written(func: Any, args: Any, kwargs: Any) -> Any:
    """In place: the data is written, where it counts and where not."""
    target = args[0]
    if not isinstance(target, MaskedTensor):
        raise TypeError(
            f"{func.overloadpacket.__name__}: a tensor without a mask cannot take values that have "
            "one; use to_tensor(value)."
        )
    _common(func.overloadpacket.__name__, (args, kwargs))
    func(*_changed(args, _data), **_changed(kwargs, _data))
    return target


def _moved(func: Any, args: Any, kwargs: Any) -> Any:
    data = func(*_changed(args, _data), **_changed(kwargs, _data))
    with_masks = args
    if isinstance(args[0], list | tuple):  # joined with what has no mask: that counts
        with_masks = ([_mask_of(one) for one in args[0]], *args[1:])
    return _made(data, func(*_changed(with_masks, _mask), **_changed(kwargs, _mask)))


def _mask_of(value: Any) -> Tensor:
    if isinstance(value, MaskedTensor):
        return _mask(value)
    return pullback.ones_like(value, dtype=pullback.bool)


def _reduced(func: Any, args: Any, kwargs: Any) -> Any:
    """A reduction inside a backward pass: of a gradient, back to what was broadcast."""
    names = [argument.name for argument in func._schema.arguments]
    bound = {**dict(zip(names, args, strict=False)), **kwargs}
    given = bound.pop("self", None) if "self" in bound else bound.pop("input")
    return _made(*reduced(func.overloadpacket.__name__, _data(given), _mask(given), bound))


def _item(func: Any, args: Any, kwargs: Any) -> Any:
    return _data(args[0]).item()


_RULES: dict[str, Callable[..., Any]] = {
    **dict.fromkeys(REDUCTIONS, _reduced),
    "_local_scalar_dense": _item,
}
