"""Fake tensors: no data, as on device "meta", but they say that they are on a real device.

A `FakeTensor` takes the calls it is an argument of, runs them without data and makes the results
fake too. `FakeTensorMode` makes the tensors that are created inside of it fake.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import numpy

from pullback.core.device import CPU, META, DeviceLike, as_device, device
from pullback.core.mode import change, get_mode
from pullback.core.overriding import FUNCTIONS, excluded
from pullback.core.tensor import Tensor, wrap
from pullback.core.trees.pytree import tree_map
from pullback.operators.tensor.printing import describe
from pullback.utils._python_dispatch import TorchDispatchMode

__all__ = [
    "DataDependentOutputException",
    "DynamicOutputShapeException",
    "FakeTensor",
    "FakeTensorConverter",
    "FakeTensorMode",
    "is_fake",
    "unset_fake_temporarily",
]


class DynamicOutputShapeException(RuntimeError):  # noqa: N818 (torch's name)
    """An operator was run whose result has a shape that depends on data."""


class DataDependentOutputException(RuntimeError):  # noqa: N818 (torch's name)
    """A value was asked of a tensor that has none."""


class FakeTensor(Tensor):
    """A tensor without data that says it is on `fake_device`; made by a `FakeTensorMode`."""

    _asks_for_attributes = False  # whose answers are right as they are

    _is_param: bool = False  # what `nn.Parameter` asks instances of other classes for
    fake_device: device = CPU
    fake_mode: FakeTensorMode | None = None
    # The real tensor that a program brought along, where it was allowed to.
    constant: Tensor | None = None

    @property
    def device(self) -> device:
        """The device it stands for; while an operator runs, the one without data."""
        return META if excluded.get() & FUNCTIONS else self.fake_device

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Run the function without data."""
        given = kwargs or {}
        first = next(one for one in _tensors((args, given)) if isinstance(one, FakeTensor))
        mode = first.fake_mode
        assert mode is not None
        for one in _tensors((args, given)):
            if isinstance(one, FakeTensor):
                if one.fake_mode is not mode:
                    raise AssertionError("Mixing fake modes: tensors of two of them met in a call.")
                if one.constant is not None and not _only_reads(func, given):
                    one.constant = None
        args, given = tree_map(mode._admitted, (args, given))
        try:
            made = super().__torch_function__(func, types, args, given)
        except NotImplementedError as error:
            raise DynamicOutputShapeException(str(error)) from error
        for one in made if isinstance(made, tuple | list) else (made,):
            if type(one) is FakeTensor:
                one.fake_mode, one.fake_device = mode, first.fake_device
        return made

    @staticmethod
    def from_tensor(t: Tensor, fake_mode: FakeTensorMode) -> FakeTensor:
        """The mode's fake tensor for a real one."""
        return fake_mode.from_tensor(t)

    def detach(self) -> Tensor:
        """A fake tensor without history."""
        made = _marked(super().detach(), self.fake_mode, self.fake_device)
        made._is_param = False
        return made

    @property
    def grad(self) -> Tensor | None:
        """The gradient, a fake tensor too."""
        stored = self._stored_grad
        if type(stored) is Tensor:
            _marked(stored, self.fake_mode, self.fake_device)
        return stored

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is not None:
            self._check_grad(value)
        self._stored_grad = value

    def item(self) -> Any:
        """The number that the program itself wrote down, `torch.tensor(4.0)`; else refused."""
        return self._refused() if self.constant is None else self.constant.item()

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __bool__(self) -> bool:
        return bool(self.item())

    def _refused(self, *args: Any, **kwargs: Any) -> NoReturn:
        raise DataDependentOutputException(
            "A fake tensor has a shape but no data, so there is no value to read. Run this part of "
            "the program on real tensors."
        )

    tolist = numpy = __array__ = __index__ = _refused

    def __repr__(self) -> str:
        return describe(self, "FakeTensor")


def _marked(tensor: Tensor, mode: FakeTensorMode | None, place: device) -> FakeTensor:
    tensor.__class__ = FakeTensor
    assert isinstance(tensor, FakeTensor)
    tensor.fake_mode, tensor.fake_device = mode, place
    return tensor


def _like(fake: FakeTensor, real: Tensor) -> bool:
    """Whether a fake tensor still has the metadata of the real one that it was made from."""
    ours, theirs = fake._array, real._array
    same = ours.shape == theirs.shape and ours.strides == theirs.strides
    return same and ours.dtype == theirs.dtype and fake.requires_grad == real.requires_grad


def _tensors(values: Any) -> list[Tensor]:
    found: list[Tensor] = []
    tree_map(lambda one: found.append(one) if isinstance(one, Tensor) else None, values)
    return found


def _only_reads(func: Any, given: dict[str, Any]) -> bool:
    """Whether a call leaves its arguments as they are, and nobody a view to write through."""
    op = getattr(func, "op", None)
    if op is None or op.kind == "view" or given.get("out") is not None:
        return False
    return not str(getattr(func, "__name__", "_")).endswith("_")


class FakeTensorConverter:
    """Makes fake tensors of real ones; a mode knows those that it has made."""

    def from_real_tensor(
        self, fake_mode: FakeTensorMode, t: Tensor, make_constant: bool = False
    ) -> FakeTensor:
        """The mode's fake tensor for a real one; with `make_constant` it still knows that."""
        if not make_constant:
            return fake_mode.from_tensor(t)
        made = fake_mode._made_from(t)
        made.constant = t
        return made

    def from_meta_and_device(
        self, fake_mode: FakeTensorMode, t: Tensor, device: DeviceLike
    ) -> FakeTensor:
        """A tensor on device 'meta', as one that says it is on another."""
        if t.device is not META:
            raise AssertionError(f"from_meta_and_device: a tensor on {t.device} is not on 'meta'.")
        return fake_mode._made_from(t, as_device(device))


class FakeTensorMode(TorchDispatchMode):
    """A context in which tensors that are made have no data.

    Example:
        >>> import pullback as torch
        >>> from pullback._subclasses.fake_tensor import FakeTensorMode
        >>> with FakeTensorMode() as mode:
        ...     x = torch.empty(1000, 2)
        >>> x @ x.t(), x.device
        (FakeTensor(..., size=(1000, 1000)), device(type='cpu'))
        >>> mode.from_tensor(torch.ones(2, requires_grad=True))
        FakeTensor(..., size=(2,), requires_grad=True)
    """

    fake_tensor_converter = FakeTensorConverter()

    def __init__(
        self,
        *,
        allow_fallback_kernels: bool = True,
        allow_non_fake_inputs: bool = False,
        shape_env: Any = None,
        static_shapes: bool | None = None,
        export: bool = False,
    ) -> None:
        self.allow_fallback_kernels = allow_fallback_kernels  # every operator runs without data
        self.allow_non_fake_inputs = allow_non_fake_inputs
        self.shape_env = shape_env
        self.static_shapes = shape_env is None if static_shapes is None else static_shapes
        self.export = export
        # By the address of a real tensor: a weak reference to it, and its fake one.
        self._known: dict[int, tuple[weakref.ref[Tensor], FakeTensor]] = {}

    def from_tensor(self, tensor: Tensor, place: device | None = None) -> FakeTensor:
        """A fake leaf with the metadata of a tensor, the same each time; a parameter is one too.

        On another device, where one is given, and then a new one.
        """
        if isinstance(tensor, FakeTensor):
            return tensor
        known = self._known.get(id(tensor))
        if place is None and known is not None and known[0]() is tensor and _like(known[1], tensor):
            return known[1]
        made = self._made_from(tensor, place)
        if place is None:
            at, forget = id(tensor), self._known.pop
            self._known[at] = weakref.ref(tensor, lambda _: forget(at, None)), made
        return made

    def _made_from(self, tensor: Tensor, place: device | None = None) -> FakeTensor:
        from pullback.core.memory import meta
        from pullback.nn.parameter import Parameter

        made = _marked(wrap(meta.like(tensor._array)), self, place or tensor.device)
        if tensor.requires_grad:
            made._set_requires_grad(True)
        if isinstance(tensor, Parameter):
            made._is_param = True
        return made

    def _admitted(self, value: Any) -> Any:
        """An argument that may be used with fake ones."""
        real = isinstance(value, Tensor) and type(value._array) is numpy.ndarray
        if not real or value._array.ndim == 0:
            return value
        if not self.allow_non_fake_inputs:
            raise AssertionError(
                "A real tensor was used where fake ones are; convert it with "
                "FakeTensorMode.from_tensor(), or make the mode with allow_non_fake_inputs=True."
            )
        made = self._made_from(value)
        made.constant = value
        return made

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        """Run an operator, or make a tensor, without data."""
        given = dict(kwargs or {})
        if func._opname == "lift_fresh":
            lifted = self._made_from(args[0])
            if args[0].numel() == 1:  # a number that the program wrote down, and may ask for
                lifted.constant = args[0]
            return lifted
        if _tensors((args, given)):
            args, given = tree_map(self._admitted, (args, given))
            return func(*args, **given)
        place = as_device(given.get("device"))
        made = func(*args, **{**given, "device": META})
        return _marked(made, self, place)


@contextmanager
def unset_fake_temporarily() -> Iterator[FakeTensorMode | None]:
    """Inside, tensors are made with numbers again; gives the mode that was on, or None."""
    before = get_mode().dispatch
    fakes = [mode for mode in before if isinstance(mode, FakeTensorMode)]
    change(dispatch=tuple(mode for mode in before if mode not in fakes))
    try:
        yield fakes[-1] if fakes else None
    finally:
        change(dispatch=before)


def is_fake(x: Any) -> bool:
    """Whether something is a tensor without numbers; wrappers are not looked into."""
    return isinstance(x, FakeTensor)
