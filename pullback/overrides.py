"""`TorchFunctionMode`: sees calls of the public functions, above autograd; and its helpers.

Torch's place for it. The mechanism is in operators/dispatch/dispatch.py.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import FunctionType
from typing import Any, TypeVar

import pullback
from pullback.core.listing import only_public as _only_public
from pullback.core.mode import changed, current, get_mode
from pullback.core.process.whole import Reentrant, Whole
from pullback.core.tensor import Tensor
from pullback.operators.dispatch import dispatch
from pullback.operators.dispatch.asking import WATCH, public_functions
from pullback.operators.dispatch.switching import ModeOn, Stack
from pullback.operators.dispatch.switching import (
    len_function_stack as _len_torch_function_stack,  # noqa: F401 (torch's name)
)

__all__ = [
    "BaseTorchFunctionMode",
    "TorchFunctionMode",
    "enable_reentrant_dispatch",
    "get_default_nowrap_functions",
    "get_ignored_functions",
    "get_overridable_functions",
    "get_testing_overrides",
    "handle_torch_function",
    "has_torch_function",
    "has_torch_function_unary",
    "has_torch_function_variadic",
    "is_tensor_like",
    "is_tensor_method_or_property",
    "resolve_name",
    "wrap_torch_function",
]

M = TypeVar("M", bound="TorchFunctionMode")
_STACK = Stack("functions", "__torch_function__")


class TorchFunctionMode(Reentrant):
    """A context in which each call of a public function goes to `__torch_function__`.

    The handler is called as `handler(func, types, args, kwargs)`, with the function and its
    arguments as the user gave them, before anything of autograd happens; what it returns is the
    result of the call. Inside it this mode is off and those around it are on.

    Example:
        >>> import pullback as torch
        >>> from pullback.overrides import TorchFunctionMode
        >>> class Names(TorchFunctionMode):
        ...     def __torch_function__(self, func, types, args=(), kwargs=None):
        ...         print(func.__name__)
        ...         return func(*args, **(kwargs or {}))
        >>> x = torch.tensor([1.0, 2.0])
        >>> with Names():
        ...     y = torch.nn.functional.softsign(x).sum()
        softsign
        sum
    """

    def __torch_function__(
        self,
        func: Any,
        types: tuple[type, ...],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """What the function gives; to be written by the subclass."""
        raise _STACK.unwritten(self)

    def _entry(self) -> Whole:
        return ModeOn(self, "functions", WATCH)


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that passes every call on; to be subclassed.

    >>> import pullback as torch
    >>> class Counting(torch.overrides.BaseTorchFunctionMode):
    ...     calls = 0
    ...
    ...     def __torch_function__(self, func, types, args=(), kwargs=None):
    ...         self.calls += 1
    ...         return super().__torch_function__(func, types, args, kwargs)
    >>> with Counting() as mode:
    ...     _ = torch.ones(2).exp()
    >>> mode.calls
    2
    """

    def __torch_function__(
        self,
        func: Any,
        types: tuple[type, ...],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """What the function gives."""
        return func(*args, **(kwargs or {}))


# Torch's names for what its libraries ask.
_get_current_function_mode = _STACK.innermost
_get_current_function_mode_stack = _STACK.modes
_push_mode, _pop_mode = _STACK.push, _STACK.pop


@contextmanager
def _pop_mode_temporarily() -> Iterator[TorchFunctionMode]:
    mode = _pop_mode()
    try:
        yield mode
    finally:
        _push_mode(mode)


@contextmanager
def enable_reentrant_dispatch() -> Iterator[None]:
    """Inside, calls from a dispatch handler go through autograd and modes again.

    >>> import pullback as torch
    >>> from pullback.utils._python_dispatch import TorchDispatchMode
    >>> class Inner(TorchDispatchMode):
    ...     def __torch_dispatch__(self, func, types, args=(), kwargs=None):
    ...         x = torch.tensor(3.0, requires_grad=True)
    ...         with torch.overrides.enable_reentrant_dispatch():
    ...             return torch.autograd.grad(x * x, x)[0]
    >>> with Inner():
    ...     y = torch.ones(()).neg()
    >>> y
    tensor(6.)
    """
    mode = get_mode()
    try:
        current.set(changed(mode, grad=True))
        yield
    finally:
        current.set(mode)


# Helpers for functions of one's own --------------------------------------------------------------


def has_torch_function(relevant_args: Iterable[Any]) -> bool:
    """Whether an argument has a `__torch_function__` of its own, or a function mode is active.

    Example:
        >>> import pullback as torch
        >>> torch.overrides.has_torch_function((torch.ones(2), 3))
        False
    """
    return bool(get_mode().functions) or bool(dispatch.types_of(tuple(relevant_args), {}))


def has_torch_function_unary(obj: Any) -> bool:
    """As `has_torch_function`, for one argument.

    >>> import pullback as torch
    >>> torch.overrides.has_torch_function_unary(torch.tensor([1.0]))
    False
    """
    return has_torch_function((obj,))


def has_torch_function_variadic(*args: Any) -> bool:
    """As `has_torch_function`, for arguments as they are.

    >>> import pullback as torch
    >>> torch.overrides.has_torch_function_variadic(torch.tensor([1.0]), 2)
    False
    """
    return has_torch_function(args)


def wrap_torch_function(dispatcher: Callable[..., Iterable[Any]]) -> Callable[[Any], Any]:
    """Let a function of one's own ask `__torch_function__`; `dispatcher` says which arguments.

    Example:
        >>> import pullback as torch
        >>> @torch.overrides.wrap_torch_function(lambda a: (a,))
        ... def same(a):
        ...     return a
        >>> same(3)
        3
    """

    def wrapping(func: Any) -> Any:
        @functools.wraps(func)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            relevant = tuple(dispatcher(*args, **kwargs))
            if has_torch_function(relevant):
                return handle_torch_function(wrapped, relevant, *args, **kwargs)
            return func(*args, **kwargs)

        return wrapped

    return wrapping


def handle_torch_function(
    public_api: Any, relevant_args: Iterable[Any], *args: Any, **kwargs: Any
) -> Any:
    """Hand a call of `public_api` to the active function mode, or to the arguments that want it.

    >>> import pullback as torch
    >>> from pullback.overrides import handle_torch_function, has_torch_function
    >>> class Price:
    ...     @classmethod
    ...     def __torch_function__(cls, func, types, args=(), kwargs=None):
    ...         return f"{func.__name__} of a price"
    >>> def doubled(x):
    ...     if has_torch_function((x,)):
    ...         return handle_torch_function(doubled, (x,), x)
    ...     return 2 * x
    >>> doubled(3), doubled(Price())
    (6, 'doubled of a price')
    """
    if get_mode().functions:
        return dispatch.above(public_api, args, kwargs)
    taken, answer = dispatch.overloaded(public_api, args, kwargs, tuple(relevant_args))
    if taken:
        return answer
    kinds = [kind.__name__ for kind in dispatch.types_of(tuple(relevant_args), {})]
    raise TypeError(
        f"{resolve_name(public_api)}: every __torch_function__ of {kinds} returned NotImplemented; "
        "none of them takes this function."
    )


def is_tensor_like(inp: Any) -> bool:
    """Whether a value is a tensor, or wants to be treated as one by `__torch_function__`.

    >>> import pullback as torch
    >>> torch.overrides.is_tensor_like(torch.tensor([1.0])), torch.overrides.is_tensor_like([1.0])
    (True, False)
    """
    return isinstance(inp, Tensor) or hasattr(type(inp), "__torch_function__")


def is_tensor_method_or_property(func: Any) -> bool:
    """Whether a function is found as a method of Tensor.

    >>> import pullback as torch
    >>> torch.overrides.is_tensor_method_or_property(torch.Tensor.add)
    True
    """
    return getattr(Tensor, getattr(func, "__name__", ""), None) is func


def resolve_name(f: Any) -> str | None:
    """Where a function is found, "torch.add", or how an operator prints; None if nowhere.

    >>> import pullback as torch
    >>> torch.overrides.resolve_name(torch.add), torch.overrides.resolve_name(torch.Tensor.view)
    ('torch.add', 'torch.Tensor.view')
    """
    if hasattr(f, "_schema") or hasattr(f, "overloads"):
        return str(f)
    for path, place in _places().items():
        name = getattr(f, "__name__", "")
        if vars(place).get(name) is f:
            return f"{path}.{name}"
    for path, place in _places().items():
        for name, value in vars(place).items():
            if value is f:
                return f"{path}.{name}"
            if isinstance(value, property) and f == value.__get__:
                return f"{path}.{name}.__get__"
    return None


# Tables -------------------------------------------------------------------------------------------


def _places() -> dict[str, Any]:
    return {
        "torch": pullback,
        "torch.functional": pullback.functional,
        "torch.nn.functional": pullback.nn.functional,
        "torch.linalg": pullback.linalg,
        "torch.fft": pullback.fft,
        "torch.special": pullback.special,
        "torch.Tensor": Tensor,
    }


@functools.cache
def get_overridable_functions() -> dict[Any, list[Any]]:
    """Functions that ask `__torch_function__`, by the place where they are found.

    Example:
        >>> import pullback as torch
        >>> torch.matmul in torch.overrides.get_overridable_functions()[torch]
        True
        >>> torch.overrides.get_overridable_functions()[torch.Tensor.grad]
        [<method-wrapper '__get__' of property object at 0x...>]
    """
    for place in (pullback, Tensor):
        for name in dir(place):
            if not name.startswith("__"):
                getattr(place, name, None)  # which loads its family
    asking = set(public_functions()) - _makers()
    found: dict[Any, list[Any]] = {
        place: [
            value
            for value in dict.fromkeys(v for v in vars(place).values() if _is_function(v))
            if value in asking
        ]
        for place in _places().values()
    }
    return {**found, **{one: [one.__get__] for one in _properties()}}


# They take numbers, sizes or foreign memory, so that no argument is there to be asked. Under a mode
# for functions they ask it all the same.
_MAKERS = (
    "arange as_tensor asarray bartlett_window blackman_window empty empty_permuted empty_strided "
    "eye from_dlpack from_file from_numpy frombuffer full hamming_window hann_window kaiser_window "
    "linspace logspace normal ones rand randint randn randperm range scalar_tensor "
    "sparse_bsc_tensor sparse_bsr_tensor sparse_compressed_tensor sparse_coo_tensor "
    "sparse_csc_tensor sparse_csr_tensor tensor tril_indices triu_indices vander zeros"
)


def _makers() -> set[Any]:
    made = {getattr(pullback, name) for name in _MAKERS.split()}
    methods = ("new_empty", "new_empty_strided", "new_full", "new_ones", "new_tensor", "new_zeros")
    made |= {getattr(Tensor, name) for name in methods}
    return made | {pullback.fft.fftfreq, pullback.fft.rfftfreq}


# Private ones that programs read, and one that is made of others, which are asked.
_READ, _MADE_OF_OTHERS = ("_base", "_grad", "_version"), ("grad_dtype",)


def _properties() -> list[property]:
    """The properties of Tensor whose reading asks."""
    named = [n for n in dir(Tensor) if not n.startswith("_") and n not in _MADE_OF_OTHERS]
    found = (getattr(Tensor, name) for name in (*named, *_READ))
    return [one for one in found if isinstance(one, property)]


def _is_function(value: Any) -> bool:
    return isinstance(value, FunctionType)


@functools.cache
def get_testing_overrides() -> dict[Any, Any]:
    """For each function that asks, one that takes the same arguments and gives -1.

    >>> import pullback as torch
    >>> torch.add in torch.overrides.get_testing_overrides()
    True
    """
    found: dict[Any, Any] = {}
    for functions in get_overridable_functions().values():
        for function in functions:
            found[function] = _dummy(function)
    return found


def _dummy(function: Any) -> Any:
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return lambda *args, **kwargs: -1

    def dummy(*args: Any, **kwargs: Any) -> int:
        signature.bind(*args, **kwargs)
        return -1

    dummy.__signature__ = signature  # type: ignore[attr-defined]  # what inspect shows
    return dummy


@functools.cache
def get_ignored_functions() -> set[Any]:
    """Public functions that do not ask: they take no tensors, or make them from nothing.

    >>> import pullback as torch
    >>> ignored = torch.overrides.get_ignored_functions()
    >>> torch.is_grad_enabled in ignored, torch.add in ignored
    (True, False)
    """
    asking = {one for functions in get_overridable_functions().values() for one in functions}
    return {
        value
        for place in _places().values()
        for name, value in vars(place).items()
        if not name.startswith("_") and callable(value) and value not in asking
    }


@functools.cache
def get_default_nowrap_functions() -> set[Any]:
    """Functions whose results stay as they are when a subclass of Tensor passes a call on.

    >>> import pullback as torch
    >>> torch.Tensor.grad.__get__ in torch.overrides.get_default_nowrap_functions()
    True
    """
    found = (vars(Tensor).get(name) for name in ("_base", "grad", "_grad"))
    return {one.__get__ for one in found if isinstance(one, property)}


__dir__ = _only_public(globals())
