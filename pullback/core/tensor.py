"""Tensor: an array with history.

What it carries and what it says of itself; no operators, they attach themselves
(operators/attach/methods.py).

Hot attributes are slots: `_array`, `_node` (None, a node or output, a Leaf, or a View) and `_cell`
(the shared version counter). Cold ones live in `__dict__`, with class-level defaults. The hot path
makes tensors with `object.__new__` and three stores; users call `tensor()`.
"""

from __future__ import annotations

import warnings
import weakref
from collections import OrderedDict
from collections.abc import Callable, Iterator
from itertools import repeat, starmap
from typing import Any, NoReturn

from numpy import ndarray

from pullback.core import errors, origin, overriding, passes
from pullback.core.arrays import F32, LIBRARIES, Array, OtherArray
from pullback.core.device import CPU, device
from pullback.core.dtype import BY_NUMPY, NARROW, dtype, float32, from_numpy_dtype
from pullback.core.explain.birth import Cut, make_birth
from pullback.core.explain.why import cut_here, explain
from pullback.core.forward import LEVELS, open_levels
from pullback.core.hooks import HookTable, RemovableHandle, leaf_hooks_in_use
from pullback.core.layout import sparse_coo
from pullback.core.memory.narrow import held
from pullback.core.methods import Methods
from pullback.core.mode import get_mode
from pullback.core.nesting import of_this_derivative, refuse_inside, running
from pullback.core.node import Edge, Leaf, Node, new_leaf_mark, node_and_number
from pullback.core.origin import getframe, internal
from pullback.core.ports import ports
from pullback.core.size import SIZES, Size, size_of
from pullback.core.version import INFERENCE_CELL, UNWRITTEN, Cell, DetachedCell, own_cell
from pullback.core.view import DEFAULT, View, refresh, retains

new = object.__new__
running_pass = passes.running.get


class Tensor(Methods):
    """A multi-dimensional array that remembers how it was computed.

    >>> import pullback as torch
    >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
    >>> (x * x).sum().backward()
    >>> x.grad
    tensor([2., 4.])
    """

    __slots__ = ("__dict__", "__weakref__", "_array", "_cell", "_node")

    _array: Array
    _node: Any
    _cell: Cell
    # The same array, as fast paths read it: not to be had of classes that override calls.
    _plain: Array
    # Which handlers the class has, see core/overriding.py.
    _overrides = 0
    # Whether a handler of its own is asked for properties as well.
    _asks_for_attributes = True

    # The memory: on all classes the slot, where some make `_array` of it when it is read.
    _raw: Array
    # What the elements of the memory still need, see operators/deferred.
    _bits: int = 0

    # The layout, for all that is not strided; None costs a comparison.
    _layout: Any = None

    # Cold state: class-level defaults, in the instance's __dict__ once set.
    _stored_grad: Tensor | None = None
    _leaf_hooks: OrderedDict[int, Any] | None = None
    _post_accumulate_grad_hooks: OrderedDict[int, Any] | None = None
    _grad_dtype: Any = "same"
    # The mark of a leaf whose flag was switched off: switched on again, it is the same leaf to the
    # graphs that know it.
    _former_mark: Leaf | None = None
    # What took the tensor out of the graph, and where.
    _cut: Cut | None = None
    # The transform that it was made in, and how deep the one is that it is an argument of.
    _scope: int = 0
    _depth: int = 0

    # ndarray's own operators step aside for a tensor operand, and so do SymPy's.
    __array_priority__ = 1000
    _op_priority = 1000.0
    __hash__ = object.__hash__

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        overriding.enter(cls, Tensor)

    @classmethod
    def __torch_function__(
        cls,
        func: Callable[..., Any],
        types: tuple[type, ...],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        """Run `func` as on any tensor; results are of this class. A subclass may write its own."""
        return overriding.run(cls, Tensor, func, types, args, kwargs)

    # Below autograd: the call runs as on any tensor. A subclass may write its own.
    __torch_dispatch__ = overriding.disabled_dispatch

    # ------------------------------------------------------------------ history

    @property
    def requires_grad(self) -> bool:
        """Whether gradients flow to this tensor; assignable on leaves."""
        node = self._node
        if node is None:
            return False
        if node.__class__ is not View:
            return True
        return node.node is not None or node.base.requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if not isinstance(value, bool):
            raise errors.requires_grad_not_bool(value)
        if not self.is_leaf:
            raise errors.only_leaves_change_requires_grad(value)
        self._set_requires_grad(value)

    @requires_grad.deleter
    def requires_grad(self) -> None:
        raise RuntimeError("requires_grad cannot be deleted; assign False instead.")

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Set `requires_grad` in place and return the tensor.

        >>> import pullback as torch
        >>> torch.zeros(2).requires_grad_().requires_grad
        True
        """
        if not isinstance(requires_grad, bool):
            raise TypeError(
                f"requires_grad_(): argument must be a bool, got {type(requires_grad).__name__}."
            )
        refuse_inside("requires_grad_()", "Pass the tensor to it as an argument instead.")
        info = self._node
        if info.__class__ is View and info.manner.creation is not DEFAULT:
            # Where its history cannot be rebuilt, nobody may ask what it is: take it as it stands.
            leaf = info.node is None or info.node.__class__ is Leaf
        else:
            leaf = self.is_leaf
        if leaf:
            self._set_requires_grad(requires_grad)
        elif not requires_grad:
            raise errors.only_leaves_change_requires_grad(requires_grad)
        return self

    def _set_requires_grad(self, value: bool) -> None:
        if value and not self.dtype.is_differentiable:
            raise errors.not_differentiable_dtype(self.dtype)
        if value and self.is_inference() and not get_mode().inference:
            raise RuntimeError(
                "An inference tensor cannot be made to require grad outside inference_mode; clone "
                "it "
                "first."
            )
        mark = self._leaf_mark()
        if value and mark.__class__ is not Leaf:
            former = self._former_mark
            known = former is not None and former() is not None
            self._set_leaf_mark(former if known else new_leaf_mark())
        elif not value and mark.__class__ is Leaf:
            self._remember_mark(mark)
            self._set_leaf_mark(None)
            own_cell(self)  # one of its own tells operators that there is something to pass on
            self._cut = cut_here("requires_grad = False")

    def _remember_mark(self, mark: Leaf) -> None:
        if mark() is not None:
            self._former_mark = mark

    def _leaf_mark(self) -> Any:
        return self._node.node if self._node.__class__ is View else self._node

    def _set_leaf_mark(self, mark: Leaf | None) -> None:
        if self._node.__class__ is View:
            self._node.node = mark
        else:
            self._node = mark

    @property
    def grad_fn(self) -> Node | None:
        """The node that recorded this tensor; None for leaves."""
        node = node_and_number(self._interior_edge())[0]
        if node is not None and node._shows is not None:
            node._shows()
        return None if node is None or node._enters else node

    @property
    def _grad_fn(self) -> Node | None:
        return self.grad_fn

    @_grad_fn.setter
    def _grad_fn(self, value: None) -> None:
        if value is not None:
            raise RuntimeError("_grad_fn can only be set to None, which is detach_().")
        self.detach_()

    @_grad_fn.deleter
    def _grad_fn(self) -> NoReturn:
        raise RuntimeError("_grad_fn cannot be deleted; assign None, or call detach_().")

    @property
    def output_nr(self) -> int:
        """Which output of `grad_fn` this tensor is."""
        return node_and_number(self._interior_edge())[1]

    @property
    def is_leaf(self) -> bool:
        """True when no recorded operator made this tensor."""
        node = self._node
        if node is None or node.__class__ is Leaf:
            return True
        edge = self._interior_edge()
        return edge is None or edge._enters

    def _interior_edge(self) -> Edge | None:
        node = self._node
        if node.__class__ is View:
            refresh(self, node)
            node = node.node
        return None if node.__class__ is Leaf else node

    @property
    def _version(self) -> int:
        return int(self._cell[0])

    @property
    def _base(self) -> Tensor | None:
        return self._node.base if self._node.__class__ is View else None

    def _is_view(self) -> bool:
        return self._node.__class__ is View

    def why_no_grad(self) -> str:
        """Explain why backward() does not reach this tensor, and what to do about it.

        >>> import pullback as torch
        >>> x = torch.ones(2, requires_grad=True)
        >>> print((x > 1).why_no_grad())  # doctest: +ELLIPSIS
        It has dtype torch.bool, and only floating point and complex tensors have gradients. ...
        """
        return explain(self)

    def is_inference(self) -> bool:
        """Whether this tensor was made in inference mode.

        >>> import pullback as torch
        >>> torch.is_inference(torch.tensor([1.0]))
        False
        """
        return self._cell is INFERENCE_CELL

    # ------------------------------------------------------------------ grad

    @property
    def grad(self) -> Tensor | None:
        """The gradient that `backward()` accumulated here, or None."""
        if running_pass() is not None:
            passes.serve_leaves()
        stored = self._stored_grad
        if stored is not None or self._node is None or self._node.__class__ is Leaf:
            return stored
        if not self.is_leaf and not self.retains_grad:
            warnings.warn(
                "The .grad of a tensor that is not a leaf is read; backward() does not fill it. "
                "Call retain_grad() on the tensor before backward(), or read the .grad of the "
                "leaf.",
                UserWarning,
                stacklevel=origin.stacklevel(),
            )
        return self._stored_grad

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is not None:
            self._check_grad(value)
        if running_pass() is not None:
            passes.serve_leaves()
        # Passes add into it, so its memory must be what it says.
        self._stored_grad = value.clone() if value is not None and value._bits else value

    @grad.deleter
    def grad(self) -> None:
        passes.serve_leaves()
        self._stored_grad = None

    @property
    def _grad(self) -> Tensor | None:
        passes.serve_leaves()
        return self._stored_grad

    @_grad.setter
    def _grad(self, value: Tensor | None) -> None:
        Tensor.grad.fset(self, value)  # type: ignore[attr-defined]  # a property object

    def _check_grad(self, value: Any) -> None:
        if not isinstance(value, Tensor):
            raise errors.grad_not_tensor(type(value))
        if value is self:
            raise errors.grad_is_self()
        expected = self.dtype if self._grad_dtype == "same" else self._grad_dtype
        if expected is not None and value.dtype is not expected:
            raise errors.grad_mismatch("dtype", value.dtype, expected)
        if value.device != self.device:
            raise errors.grad_mismatch("device", value.device, self.device)
        if value._array.shape != self._array.shape:
            raise errors.grad_mismatch("shape", tuple(value.shape), tuple(self.shape))
        if value._layout is not self._layout and (self._layout or value._layout is not sparse_coo):
            raise errors.grad_mismatch("layout", value.layout, self.layout)

    @property
    def grad_dtype(self) -> dtype | None:
        """The dtype of `.grad`; None keeps what backward produces. Leaves only."""
        if not self.is_leaf:
            raise RuntimeError("grad_dtype belongs to leaf tensors; this one was computed.")
        return self.dtype if self._grad_dtype == "same" else self._grad_dtype

    @grad_dtype.setter
    def grad_dtype(self, value: dtype | None) -> None:
        if not self.is_leaf:
            raise RuntimeError("grad_dtype can only be set on leaf tensors; this one was computed.")
        if value is not None and not isinstance(value, dtype):
            raise RuntimeError(f"grad_dtype must be a dtype or None, got {type(value).__name__}.")
        stored = self._stored_grad
        if stored is not None and value is not None and stored.dtype is not value:
            raise RuntimeError(
                f"grad_dtype {value} does not fit the stored .grad of dtype {stored.dtype}; set "
                ".grad to None first."
            )
        self._grad_dtype = value

    @property
    def retains_grad(self) -> bool:
        """Whether `retain_grad()` was called on this (non-leaf) tensor."""
        return retains(self, self._interior_edge())

    def retain_grad(self) -> None:
        """Store this non-leaf tensor's gradient in `.grad` in every later backward pass.

        >>> import pullback as torch
        >>> x = torch.tensor([1.0], requires_grad=True)
        >>> y = x * 2
        >>> y.retain_grad()
        >>> (y * y).sum().backward()
        >>> y.grad
        tensor([4.])
        """
        refuse_inside("retain_grad()", "Return the gradient from it instead.")
        if not self.requires_grad:
            raise errors.retain_grad_without_grad()
        node, nr = node_and_number(self._interior_edge())
        if node is None:
            return
        cold = node._warm()
        if cold.retained is None:
            cold.retained = {}
        cold.retained[nr] = weakref.ref(self)

    # ------------------------------------------------------------------ hooks

    def register_hook(self, hook: Callable[[Any], Any]) -> RemovableHandle:
        """Call `hook(grad)` when this tensor's gradient is computed; it may return a replacement.

        >>> import pullback as torch
        >>> x = torch.tensor([1.0], requires_grad=True)
        >>> handle = x.register_hook(lambda g: g * 10)
        >>> (x * 2).sum().backward()
        >>> x.grad
        tensor([20.])
        """
        if not self.requires_grad:
            raise errors.hook_without_grad()
        if running.get():
            hook = of_this_derivative(hook)
        node, nr = node_and_number(self._interior_edge())
        if node is not None:
            return RemovableHandle.add(node._tensor_hooks(nr), hook)
        if self._leaf_hooks is None:
            self._leaf_hooks = HookTable()
        leaf_hooks_in_use[id(self)] = self
        return RemovableHandle.add(self._leaf_hooks, hook)

    def register_post_accumulate_grad_hook(self, hook: Callable[[Tensor], Any]) -> RemovableHandle:
        """Call `hook(self)` each time backward has added to this leaf's `.grad`.

        >>> import pullback as torch
        >>> x = torch.tensor([1.0], requires_grad=True)
        >>> handle = x.register_post_accumulate_grad_hook(lambda p: print(p.grad))
        >>> (x * 2).sum().backward()
        tensor([2.])
        """
        if not self.requires_grad or not self.is_leaf:
            raise errors.post_accumulate_hook_needs_leaf()
        if self._post_accumulate_grad_hooks is None:
            self._post_accumulate_grad_hooks = HookTable()
        leaf_hooks_in_use[id(self)] = self
        return RemovableHandle.add(self._post_accumulate_grad_hooks, hook)

    @property
    def _backward_hooks(self) -> OrderedDict[int, Any] | None:
        node, nr = node_and_number(self._interior_edge())
        if node is None:
            return self._leaf_hooks
        if node._cold is None or node._cold.tensor_hooks is None:
            return None
        return node._cold.tensor_hooks.get(nr)

    @_backward_hooks.setter
    def _backward_hooks(self, hooks: OrderedDict[int, Any] | None) -> None:
        node, nr = node_and_number(self._interior_edge())
        if node is not None:
            tables = node._warm()
            tables.tensor_hooks = {**(tables.tensor_hooks or {}), nr: hooks or OrderedDict()}
            return
        self._leaf_hooks = hooks
        leaf_hooks_in_use[id(self)] = self

    @_backward_hooks.deleter
    def _backward_hooks(self) -> NoReturn:
        raise RuntimeError("_backward_hooks cannot be deleted; assign None instead.")

    # ------------------------------------------------------------------ detaching

    def _alias(self) -> Tensor:
        """The same memory and version counter, without history."""
        alias = new(Tensor)
        try:
            array = self._plain
        except overriding.Overridden:
            alias = self._same_kind()
        else:
            if type(array) is not ndarray:
                alias = new(class_for(array))
            alias._array = array
        alias._node = None
        alias._cell = own_cell(self)
        return alias

    def _same_kind(self) -> Tensor:
        """Another of this class on the same array, with what the user set on this one."""
        alias = new(type(self))
        alias._array = self._array
        vars(alias).update((k, v) for k, v in vars(self).items() if k not in COLD)
        return alias

    def detach(self) -> Tensor:
        """A tensor that shares this one's memory, but has no history and does not require grad.

        Inside function transforms it counts as a constant at every level.

        >>> import pullback as torch
        >>> x = torch.tensor([1.0], requires_grad=True)
        >>> x.detach().requires_grad
        False
        """
        try:
            self._plain  # noqa: B018 (asks whether the class overrides calls)
        except overriding.Overridden:
            if self._overrides & overriding.DISPATCH & ~overriding.excluded.get():
                made = ports.detached_below(self)
                if getattr(made, "_cell", None) is UNWRITTEN:  # new: its writes are this one's
                    made._cell = own_cell(self)
                return made
        array = self._array
        if self.__class__ is Tensor and type(array) is ndarray:  # `_alias` in line
            alias = next(blanks)
            alias._array = array
            alias._node = None
            cell = self._cell
            alias._cell = cell if cell.__class__ is list else own_cell(self)
        else:
            alias = self._alias()
        if self._node is not None:
            frame = getframe(1)
            if not internal[frame.f_code.co_filename]:  # `cut_here` in line
                alias._cut = make_birth(Cut, ("detach()", frame.f_code, frame.f_lasti))
            else:
                alias._cut = cut_here("detach()")
        return alias

    def detach_(self) -> Tensor:
        """Forget this tensor's history, in place.

        Inside function transforms it is constant for the innermost derivative alone.

        >>> import pullback as torch
        >>> (torch.ones(1, requires_grad=True) * 2).detach_().requires_grad
        False
        """
        if self._is_view():
            raise errors.detach_view()
        if derivatives := running.get():
            ports.detach_inside(self, derivatives[-1])
            return self
        if self._node is not None and self._node.__class__ is not Leaf:
            self._cell = DetachedCell(own_cell(self))
        if self._node.__class__ is Leaf:
            self._remember_mark(self._node)
        if self._node is not None:
            self._cut = cut_here("detach_()")
        self._node = None
        for level in open_levels() if LEVELS else ():
            level.put(self, None)
        return self

    @property
    def data(self) -> Tensor:
        """The same memory with a version counter of its own.

        Writes through it bypass all checks. Inside nested function transforms it is constant for
        the one in which the tensor was made, and for no other.
        """
        if self.__class__ is Tensor and type(self._array) is ndarray:
            alias = next(blanks)
            alias._array = self._array
            alias._node = None
        else:
            alias = self.detach() if overriding.answers(self) else self._alias()
        alias._cell = UNWRITTEN if self._node is None else (0, cut_here(".data"))
        if (LEVELS or self._node is not None) and running.get():
            return ports.data_inside(self, alias)
        return alias

    @data.setter
    def data(self, value: Tensor) -> None:
        if not isinstance(value, Tensor):
            raise TypeError(f".data must be a Tensor, got {type(value).__name__}.")
        if value._layout is not self._layout:
            raise RuntimeError(
                f".data must have the layout of the tensor, {self.layout}, got {value.layout}."
            )
        if self.requires_grad and not value.dtype.is_differentiable:
            raise errors.not_differentiable_dtype(value.dtype)
        if value._array.dtype != self._array.dtype and self._leaf_mark().__class__ is Leaf:
            self._set_leaf_mark(new_leaf_mark())
            self._former_mark = None
        self._array = value._array

    @data.deleter
    def data(self) -> NoReturn:
        raise RuntimeError(".data cannot be deleted; assign another tensor instead.")

    # ------------------------------------------------------------------ metadata

    @property
    def shape(self) -> Size:
        """Sizes of the dimensions."""
        array = self._array
        # Sizes that are traced equal the numbers they stand for, and are not those.
        return SIZES[array.shape] if type(array) is ndarray else size_of(array.shape)

    @property
    def dtype(self) -> dtype:
        """Type of the elements."""
        found = self._array.dtype
        if found is F32:  # to look one up takes half as long again
            return float32
        try:
            return BY_NUMPY[found]
        except KeyError:
            return from_numpy_dtype(found)

    @property
    def device(self) -> device:
        """Where the memory is."""
        array = self._array
        return CPU if type(array) is ndarray else device_of(array)

    @property
    def ndim(self) -> int:
        """Number of dimensions."""
        ndim: int = self._array.ndim
        return ndim

    def __len__(self) -> int:
        if self._array.ndim == 0:
            raise TypeError("len() of a 0-d tensor: it has no dimension to count.")
        return len(self._array)


# What a tensor's `__dict__` holds besides the user's own attributes.
_NAMES = """
    _cut _depth _former_mark _grad_dtype _leaf_hooks _post_accumulate_grad_hooks _scope _stored_grad
    _viewed
"""
COLD = frozenset(_NAMES.split())
# Bits of `Tensor._bits`.
CONJUGATED, NEGATED = 1, 2
# Tensors without end that hold nothing yet: Python makes no tuple of arguments for each, and
# `next(blanks)` takes a sixth less than `new(Tensor)`. Threads may share it, as it never changes.
blanks: Iterator[Tensor] = starmap(new, repeat((Tensor,)))
# One slot under two names; a class that overrides calls has a property for the second.
Tensor._plain = Tensor._raw = Tensor.__dict__["_array"]


def device_of(array: Array) -> device:
    """Where an array of any library is."""
    library = LIBRARIES.get(type(array))
    found: device = getattr(array, "_device", CPU) if library is None else library.device(array)
    return found


def class_for(array: Array) -> type[Tensor]:
    """The class of tensors on an array that is no ndarray."""
    return array.tensor_class if isinstance(array, OtherArray) else Tensor


def wrap(array: Array) -> Tensor:
    """A tensor without history on `array`."""
    if NARROW:
        array = held(array)
    tensor = new(Tensor if type(array) is ndarray else class_for(array))
    tensor._array = array
    tensor._node = None
    tensor._cell = INFERENCE_CELL if get_mode().inference else UNWRITTEN
    return tensor


ports.fill(describe_metadata=lambda np_dtype, _node: (from_numpy_dtype(np_dtype), CPU))
