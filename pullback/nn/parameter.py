"""Parameter: a leaf that a model means to train; Buffer: a tensor that belongs to its state.

Those of lazy modules are not initialised until their shapes are known.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy

from pullback.core.device import as_device
from pullback.core.device import device as device_type
from pullback.core.dtype import dtype as dtype_type
from pullback.core.dtype import get_default_dtype
from pullback.core.listing import only_public as _only_public
from pullback.core.overriding import disabled_function
from pullback.core.tensor import Tensor, new, wrap
from pullback.core.version import own_cell
from pullback.operators.dispatch.dispatch import QUIET
from pullback.operators.tensor.printing import describe

__all__ = [
    "Buffer",
    "Parameter",
    "UninitializedBuffer",
    "UninitializedParameter",
    "UninitializedTensorMixin",
    "is_lazy",
]


class _MarkedMeta(type):
    """Lets instances of other classes of tensors be of this one as well, once they are marked."""

    def __instancecheck__(cls, instance: Any) -> bool:
        if super().__instancecheck__(instance):
            return True
        mark = _MARKS.get(cls)
        return mark is not None and isinstance(instance, Tensor) and _has(instance, mark)


_MARKS: dict[type, str] = {}  # of Parameter and Buffer, not of classes made from them


def _has(tensor: Tensor, mark: str) -> bool:
    return tensor.__dict__.get(mark, False) is True


def _marked(data: Tensor, requires_grad: bool) -> Tensor:
    """A leaf of the data's own class, marked as a parameter."""
    made = data.detach()
    if type(made) is not type(data):
        raise RuntimeError(
            f"Parameter(): detach() of {type(data).__name__} gave {type(made).__name__}; let the "
            "class keep itself there, so that its parameters are of it."
        )
    made._set_requires_grad(requires_grad)
    vars(made)["_is_param"] = True
    return made


class Parameter(Tensor, metaclass=_MarkedMeta):
    """A leaf tensor that shares the memory of `data`, and requires grad by default.

    Results computed from it are plain tensors. Modules recognise parameters by this class; data
    of a tensor class of your own keeps its class, and is marked instead.

    >>> import pullback as torch
    >>> torch.nn.Parameter(torch.zeros(2))
    Parameter containing:
    tensor([0., 0.], requires_grad=True)
    """

    __slots__ = ()
    __torch_function__ = disabled_function

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Parameter:
        """Take the memory and version counter of `data`; without data, be empty."""
        if data is None:
            data = wrap(numpy.empty(0, get_default_dtype().numpy))
        elif not isinstance(data, Tensor):
            raise TypeError(
                f"Parameter(): data must be a Tensor, got {type(data).__name__}; make one with "
                "torch.tensor()."
            )
        if data._bits:
            data = data.detach().clone()  # what is put off belongs to a class of ours
        if cls is Parameter and data._overrides:
            return _marked(data, requires_grad)  # type: ignore[return-value]  # of its own class
        own = type(data)
        kept = cls is Parameter and own is not Tensor and not issubclass(own, Parameter)
        made = new(own if kept else cls)
        made._array = data._array
        made._node = None
        made._cell = own_cell(data)
        if kept:
            made.__dict__["_is_param"] = True
        if requires_grad:
            made._set_requires_grad(True)
        return made  # type: ignore[return-value]  # of the data's own class, where that is kept

    def __repr__(self) -> str:
        return "Parameter containing:\n" + describe(self)

    def __format__(self, spec: str) -> str:
        # Unlike a plain tensor of no dimensions, this is not written as its number.
        return object.__format__(self, spec)

    def __deepcopy__(self, memo: dict[int, Any]) -> Parameter:
        """A parameter on a copy of the memory, without gradient."""
        if id(self) not in memo:
            copied = wrap(self._array.copy(order="K"))
            memo[id(self)] = type(self)(copied, self.requires_grad)
        known: Parameter = memo[id(self)]
        return known


_MARKS[Parameter] = "_is_param"
QUIET.add(Parameter)  # no guard of a function need ask whether it overrides calls itself


class Buffer(Tensor, metaclass=_MarkedMeta):
    """A tensor that becomes a module's buffer when it is assigned; part of its state if persistent.

    >>> import pullback as torch
    >>> module = torch.nn.Module()
    >>> module.count = torch.nn.Buffer(torch.zeros(1))
    >>> list(module.state_dict())
    ['count']
    """

    __slots__ = ()

    persistent: bool

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Buffer:
        """Take the memory and version counter of `data`, and its class; without data, be empty.

        What comes back is an ordinary tensor with a mark, as in torch: a module's buffers need no
        class of their own for what is computed from them.
        """
        if data is None:
            data = wrap(numpy.empty(0, get_default_dtype().numpy))
        made: Any = data.detach()
        if data.requires_grad:
            made._set_requires_grad(True)
        vars(made).update(persistent=persistent, _is_buffer=True)
        return made  # type: ignore[no-any-return]  # of the data's own class


_MARKS[Buffer] = "_is_buffer"


class UninitializedTensorMixin:
    """A tensor without a shape: it can be moved, converted and saved, and no more.

    `materialize(shape)` gives it memory, and makes it an ordinary one. Until then it has a dtype
    and a device; whoever reads its array is told so.
    """

    __slots__ = ()

    cls_to_become: ClassVar[type[Tensor]]
    _kind: Any
    _place: Any

    def _begin(self: Any, requires_grad: bool, device: Any, dtype: Any) -> None:
        example = wrap(numpy.empty(0, get_default_dtype().numpy))
        self._node = None
        self._cell = own_cell(example)
        self._kind = example.dtype if dtype is None else dtype
        self._place = example.device if device is None else as_device(device)
        if requires_grad:
            self._set_requires_grad(True)

    @property
    def _array(self) -> Any:
        raise ValueError(
            "An uninitialised parameter or buffer was used. Call the lazy module once with some "
            "input, so that its shapes are known."
        )

    def materialize(self: Any, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Take memory of this shape, which is not written yet, and become ordinary."""
        from pullback.operators.create.sizes import empty

        made = empty(shape, device=device or self._place, dtype=dtype or self._kind)
        self.__class__ = self.cls_to_become
        self._array = made._array
        for name in ("_kind", "_place"):
            self.__dict__.pop(name)

    @property
    def shape(self) -> Any:
        """Refused: there is none yet."""
        raise RuntimeError(
            "An uninitialised parameter or buffer has no shape. Call the lazy module once, or "
            "materialize() it. (The state of an uninitialised module fits such modules only.)"
        )

    @property
    def dtype(self) -> Any:
        """What the elements will be."""
        return self._kind

    @property
    def device(self) -> Any:
        """Where the memory will be."""
        return self._place

    @property
    def is_meta(self) -> bool:
        """Whether there will be no memory."""
        return bool(self._place.type == "meta")

    @property
    def data(self) -> Any:
        """The same, for conversions."""
        return self

    @data.setter
    def data(self, value: Any) -> None:
        self._kind, self._place = value.dtype, value.device

    def to(self, *args: Any, **kwargs: Any) -> Any:
        """The same with another dtype, or on another device."""
        kind, place = self._kind, self._place
        for value in (*args, *kwargs.values()):
            if isinstance(value, Tensor):
                kind, place = value.dtype, value.device
            elif isinstance(value, dtype_type):
                kind = value
            elif isinstance(value, str | device_type):
                place = as_device(value)
        return self._like(kind, place)

    def type(self, dtype: Any = None, non_blocking: bool = False) -> Any:
        """The same with another dtype."""
        return self.to(dtype)

    def is_floating_point(self) -> bool:
        """Whether the elements will be."""
        return bool(self._kind.is_floating_point)

    def is_complex(self) -> bool:
        """Whether the elements will be."""
        return bool(self._kind.is_complex)

    def share_memory_(self) -> Any:
        """Refused: there is no memory yet."""
        raise RuntimeError("An uninitialised parameter or buffer has no memory to share.")

    def _like(self: Any, kind: Any, place: Any) -> Any:
        return type(self)(self.requires_grad, place, kind)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        if id(self) not in memo:
            memo[id(self)] = self._like(self._kind, self._place)
        return memo[id(self)]

    def __reduce_ex__(self: Any, protocol: Any) -> Any:
        return type(self), (self.requires_grad, self._place, self._kind)

    def __repr__(self) -> str:
        return f"<{type(self).__name__}>"


class UninitializedParameter(UninitializedTensorMixin, Parameter):
    """A parameter whose shape is not known yet.

    >>> import pullback as torch
    >>> weight = torch.nn.UninitializedParameter()
    >>> weight.materialize((2, 3))
    >>> weight.shape
    torch.Size([2, 3])
    """

    __slots__ = ()

    cls_to_become = Parameter

    def __new__(
        cls, requires_grad: bool = True, device: Any = None, dtype: Any = None
    ) -> UninitializedParameter:
        """Know dtype and device, and whether gradients will be wanted."""
        made = new(cls)
        made._begin(requires_grad, device, dtype)
        return made


class UninitializedBuffer(UninitializedTensorMixin, Tensor):
    """A buffer whose shape is not known yet.

    >>> import pullback as torch
    >>> torch.nn.UninitializedBuffer().is_floating_point()
    True
    """

    __slots__ = ()

    cls_to_become = Tensor
    persistent: bool

    def __new__(
        cls,
        requires_grad: bool = False,
        device: Any = None,
        dtype: Any = None,
        persistent: bool = True,
    ) -> UninitializedBuffer:
        """Know dtype and device."""
        made = new(cls)
        made._begin(requires_grad, device, dtype)
        made.persistent = persistent
        made.__dict__["_is_buffer"] = True  # also once it is an ordinary tensor
        return made

    def _like(self, kind: Any, place: Any) -> Any:
        return type(self)(self.requires_grad, place, kind, self.persistent)

    def __reduce_ex__(self, protocol: Any) -> Any:
        return type(self), (self.requires_grad, self._place, self._kind, self.persistent)


def is_lazy(param: Any) -> bool:
    """Whether a parameter or buffer is not initialised yet.

    >>> import pullback as torch
    >>> from pullback.nn.parameter import is_lazy
    >>> is_lazy(torch.nn.LazyLinear(2).weight), is_lazy(torch.nn.Linear(1, 2).weight)
    (True, False)
    """
    return isinstance(param, UninitializedTensorMixin)


__dir__ = _only_public(globals())
