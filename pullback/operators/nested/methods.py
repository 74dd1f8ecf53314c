"""Methods of nested tensors that are no functions of operators: sizes, printing, copies."""

from __future__ import annotations

from typing import Any, NoReturn

import numpy

from pullback.core.layout import nested_strided
from pullback.core.size import size_of
from pullback.core.tensor import Tensor, wrap
from pullback.operators.dispatch.asking import asks_as_method, reported_dunder
from pullback.operators.nested.array import NestedArray, form_of
from pullback.operators.nested.calls import answer
from pullback.operators.nested.form import Jagged, Rows, Shapes
from pullback.operators.nested.parts import to_padded_tensor, unbind
from pullback.operators.nested.primitives import values_of
from pullback.operators.nested.symbol import RaggedSize
from pullback.operators.nested.tensor import NestedTensor
from pullback.operators.options import as_dim
from pullback.operators.tensor.metadata import strides_of
from pullback.operators.tensor.pickling import (
    as_copy,
    attributes_of,
    deepcopy_of_layout,
    warn_of_hooks,
)

__all__ = ["rebuilt"]


# Sizes -------------------------------------------------------------------------------------------


def _size(self: Any, dim: int | None = None) -> Any:
    shape = self._array.shape
    if dim is None:
        return size_of(shape)
    found = shape[as_dim(dim, len(shape), "size")]
    if self._layout is nested_strided and isinstance(found, RaggedSize):
        raise RuntimeError(
            f"size: components differ in dim {dim} of this nested tensor; ask those of unbind()."
        )
    return found


def _stride(self: Any, dim: int | None = None) -> Any:
    form = form_of(self)
    if isinstance(form, Shapes):
        raise RuntimeError("stride: components of a strided nested tensor have strides each.")
    own = strides_of(self._array.values)
    strides = (form.rows.symbol * own[form.axis], *own)
    return strides if dim is None else strides[as_dim(dim, len(strides), "stride")]


def _is_contiguous(self: Any, **options: Any) -> bool:
    form = form_of(self)
    if isinstance(form, Shapes):
        return form.strides is None
    return form.rows.given_lengths is None and bool(self._array.values.flags.c_contiguous)


def _rows(self: Any, op: str) -> Rows:
    form = form_of(self)
    if not isinstance(form, Jagged):
        raise AttributeError(f"A nested tensor of layout torch.strided has no {op}().")
    return form.rows


def _offsets(self: Any) -> Tensor:
    return _rows(self, "offsets").offsets


def _lengths(self: Any) -> Tensor | None:
    return _rows(self, "lengths").given_lengths


# Printing ----------------------------------------------------------------------------------------


def _repr(self: Any, *, tensor_contents: Any = None) -> str:
    form = form_of(self)
    history = ""
    if isinstance(form, Jagged):
        if self.grad_fn is not None:
            history = f", grad_fn={self.grad_fn!r}"
        elif self.requires_grad:
            history = ", requires_grad=True"
        sizes = "(" + ", ".join(map(str, self._array.shape)) + ")"
        whole = _is_contiguous(self)
        return (
            f"NestedTensor(size={sizes}, offsets={form.rows.offsets}{history}, contiguous={whole})"
        )
    if self.grad_fn is not None:
        history = f", grad_fn=<{self.grad_fn.name()}>"
    elif self.requires_grad:
        history = ", requires_grad=True"
    parts = [repr(one.detach().requires_grad_(self.requires_grad)) for one in unbind(self)]
    lines = ",\n".join("  " + part.replace("\n", "\n  ") for part in parts)
    return f"nested_tensor([\n{lines}\n]{history})"


def _share_memory(self: Any) -> Any:
    from pullback.core.memory import shared  # most programs are one process

    array = self._array
    if shared.block_of(array.values) is None:
        array.values = shared.shared_copy(array.values)
    return self


# Refusals ----------------------------------------------------------------------------------------


def _refused(what: str, kind: type[Exception] = RuntimeError) -> Any:
    def refuse(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
        raise kind(
            f"{what}: nested tensors of layout {self.layout} are not taken. Take values(), "
            "unbind() or to_padded_tensor(padding)."
        )

    return refuse


def _item(self: Any) -> Any:
    if self._array.size != 1:
        raise RuntimeError(
            f"item: a nested tensor of {self._array.size} elements is no single number."
        )
    return (
        unbind(self)[0].item()
        if len(self) == 1
        else next(part.item() for part in unbind(self) if part.numel())
    )


def _bool(self: Any) -> bool:
    if self._array.size != 1:
        raise RuntimeError(
            f"A nested tensor of {self._array.size} elements is neither true nor false; use any() "
            "or all()."
        )
    return bool(_item(self))


# Copies ------------------------------------------------------------------------------------------


def rebuilt(
    pattern: tuple[Any, ...], values: Any, requires_grad: bool, attributes: dict[str, Any]
) -> Tensor:
    """What a pickle calls to make the tensor again."""
    if pattern[0] == "strided":
        form: Any = Shapes(pattern[1])
    else:
        lengths = None if pattern[2] is None else wrap(pattern[2])
        form = Jagged(Rows(wrap(pattern[1]), lengths), pattern[3])
    made = wrap(NestedArray(form, values))
    if requires_grad:
        made.requires_grad_()
    vars(made).update(attributes)
    return made


def _reduce(self: Any, protocol: Any) -> tuple[Any, ...]:
    warn_of_hooks(self)
    form, values = form_of(self), self._array.packed().values
    pattern: tuple[Any, ...]
    if isinstance(form, Shapes):
        pattern = ("strided", form.sizes)
    else:
        given = form.rows.given_lengths
        lengths = None if given is None else numpy.ascontiguousarray(given._array)
        pattern = ("jagged", numpy.ascontiguousarray(form.rows.offsets._array), lengths, form.dim)
    return rebuilt, (pattern, values, self.requires_grad, attributes_of(self))


def _copy(self: Any) -> Any:
    return as_copy(self._alias(), self)


_METHODS: dict[str, Any] = {
    "__bool__": _bool,
    "__copy__": _copy,
    "__deepcopy__": deepcopy_of_layout,
    "__iter__": lambda self: iter(unbind(self)),
    "__len__": lambda self: form_of(self).count,
    "__reduce_ex__": _reduce,
    "__repr__": _repr,
    "__array__": _refused("a NumPy array", TypeError),
    "is_contiguous": _is_contiguous,
    "item": _item,
    "lengths": _lengths,
    "numpy": _refused("numpy"),
    "offsets": _offsets,
    "share_memory_": _share_memory,
    "size": _size,
    "storage": _refused("storage", NotImplementedError),
    "stride": _stride,
    "to_padded_tensor": to_padded_tensor,
    "tolist": _refused("tolist"),
    "data_ptr": lambda self: 0 if self._layout is not nested_strided else self.values().data_ptr(),
    "storage_offset": lambda self: 0,
    "untyped_storage": lambda self: self.values().untyped_storage(),
    "values": lambda self: values_of(self),
    "unbind": unbind,
    "_base": property(lambda self: vars(self).get("_viewed")),
    "_is_view": lambda self: "_viewed" in vars(self),
    "_min_seqlen": property(lambda self: _rows(self, "_min_seqlen").shortest),
    "_max_seqlen": property(lambda self: _rows(self, "_max_seqlen").longest),
    "_get_min_seqlen": lambda self: _rows(self, "_get_min_seqlen").shortest,
    "_get_max_seqlen": lambda self: _rows(self, "_get_max_seqlen").longest,
    "_ragged_idx": property(lambda self: form_of(self).dim),
    "_offsets": property(_offsets),
    "_lengths": property(_lengths),
    "_values": property(lambda self: wrap(self._array.values)),
    "T": property(lambda self: self.permute(*range(self.ndim - 1, -1, -1))),
    "mT": property(lambda self: self.transpose(-2, -1)),
}
for _name, _method in _METHODS.items():
    setattr(NestedTensor, _name, _method)


class _Asked:
    """A method of Tensor that asks the table; its family is loaded when it is first used."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, tensor: Any, owner: type) -> Any:
        name = reported_dunder(self.name)
        function = getattr(Tensor, name)
        if tensor is None:
            return function
        return lambda *args, **kwargs: answer(function, (tensor, *args), kwargs, name)


# As methods all functions ask here, also those that would not look at their arguments. So the class
# announces itself to nobody (`overriding.arrive`), and plain tensors stay as quick as they are.
for _name, _method in list(vars(Tensor).items()):
    if _name not in _METHODS and asks_as_method(_name, _method):
        setattr(NestedTensor, _name, _Asked(_name))
