"""Methods of deferred tensors that ask for their memory, or write to it."""

from __future__ import annotations

from typing import Any, NoReturn

from pullback.core.tensor import CONJUGATED, Tensor, wrap
from pullback.operators.deferred.tensor import Deferred, lazily
from pullback.operators.deferred.writing import as_stored, memory_of
from pullback.operators.tensor.pickling import as_copy, attributes_of, deepcopy_of_layout
from pullback.operators.tensor.printing import describe

__all__ = ["rebuilt"]


def _of_memory(name: str) -> Any:
    """A method that answers for the memory, whatever is put off."""

    def ask(self: Any, *args: Any, **kwargs: Any) -> Any:
        return getattr(_plainly(self), name)(*args, **kwargs)

    ask.__name__ = name
    return ask


def _plainly(self: Any) -> Tensor:
    """The memory as a tensor without history."""
    made = wrap(self._raw)
    made._cell = self._cell
    return made


def _property(name: str) -> property:
    read = getattr(Tensor, name).__get__
    return property(lambda self: read(_plainly(self)))


def _copy_(self: Any, src: Any, non_blocking: bool = False) -> Any:
    memory_of(self).copy_(as_stored(self, src))
    return self


def _fill_(self: Any, value: Any) -> Any:
    memory_of(self).fill_(as_stored(self, value))
    return self


def _zero_(self: Any) -> Any:
    return _fill_(self, 0)


def _setitem(self: Any, key: Any, value: Any) -> None:
    memory_of(self)[key] = as_stored(self, value)


def _numpy(self: Any, *, force: bool = False) -> Any:
    if force:
        return Tensor.numpy(self.detach().clone(), force=True)
    return _array(self)


def _array(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
    how = "resolve_conj" if self._bits & CONJUGATED else "resolve_neg"
    raise RuntimeError(
        f"numpy: the elements of this tensor are still to be conjugated or negated, which an array "
        f"cannot say; call {how}() first."
    )


def _contiguous(self: Any, *args: Any, **kwargs: Any) -> Any:
    if self.is_contiguous(*args, **kwargs):
        return self
    return Tensor.contiguous(self.clone(), *args, **kwargs)


# Copies ------------------------------------------------------------------------------------------


def rebuilt(memory: Any, bits: int, attributes: dict[str, Any]) -> Tensor:
    """What a pickle calls to make the tensor again, on the memory of a plain one."""
    made = lazily(memory._raw, bits)
    if memory.requires_grad:
        made.requires_grad_()
    vars(made).update(attributes)
    return made


def _reduce(self: Any, protocol: Any) -> tuple[Any, ...]:
    memory = _plainly(self)
    if self.requires_grad:
        memory.requires_grad_()
    return rebuilt, (memory, self._bits, attributes_of(self))


def _copied(self: Any) -> Any:
    return as_copy(lazily(self._raw, self._bits), self)


_MEMORY = """
    data_ptr is_contiguous stride storage_offset untyped_storage storage _typed_storage is_shared
    share_memory_ dim_order is_set_to size dim numel element_size nelement ndimension
"""
_METHODS: dict[str, Any] = {
    "__array__": _array,
    "__format__": lambda self, spec: format(self.clone(), spec),
    "__repr__": lambda self, **options: describe(self, "tensor"),
    "__copy__": _copied,
    "__deepcopy__": deepcopy_of_layout,
    "__reduce_ex__": _reduce,
    "__setitem__": _setitem,
    "contiguous": _contiguous,
    "copy_": _copy_,
    "fill_": _fill_,
    "numpy": _numpy,
    "zero_": _zero_,
    **{name: _of_memory(name) for name in _MEMORY.split()},
    **{name: _property(name) for name in ("shape", "dtype", "device", "ndim", "itemsize")},
}
for _name, _method in _METHODS.items():
    setattr(Deferred, _name, _method)
