"""Grad modes as contexts, decorators and functions."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable, Generator
from typing import Any, TypeVar

from pullback.core import origin
from pullback.core.explain.birth import UNRECORDED, Unrecorded, make_birth
from pullback.core.listing import only_public as _only_public
from pullback.core.mode import (
    INFERENCE,
    NO_GRAD,
    PLAIN,
    changed,
    current,
    fast,
    get_mode,
    settle,
    with_grad,
)
from pullback.core.origin import getframe, internal, user_frame
from pullback.core.process.whole import Whole
from pullback.core.tensor import Tensor
from pullback.core.version import own_cell

F = TypeVar("F", bound=Callable[..., Any])

__all__ = [
    "enable_grad",
    "inference_mode",
    "is_grad_enabled",
    "is_inference_mode_enabled",
    "no_grad",
    "set_grad_enabled",
]


def is_grad_enabled() -> bool:
    """Whether operators are recorded now, in this thread.

    >>> import pullback as torch
    >>> torch.is_grad_enabled()
    True
    """
    return get_mode().grad


def is_inference_mode_enabled() -> bool:
    """Whether inference mode is on, in this thread.

    >>> import pullback as torch
    >>> torch.is_inference_mode_enabled()
    False
    """
    return get_mode().inference


class _ModeContext(Whole):
    """A context that is a decorator too. Subclasses say what changes."""

    def _changes(self) -> dict[str, Any]:
        raise NotImplementedError

    def _again(self) -> _ModeContext:
        """A new context like this one, for each call of a decorated function."""
        return type(self)()

    # What a decorator decorates: the place that is named as the block, instead of each call.
    _function: Any = None
    # The counter of unrecorded results before this block.
    _unrecorded: tuple[Any, ...] = UNRECORDED

    def _enter(self) -> None:
        self._before = settle()
        current.set(changed(self._before, **self._changes()))
        self._note_block()

    def _note_block(self) -> None:
        """Let results that are not recorded know whose doing it is; see `why_no_grad()`."""
        self._unrecorded = before = fast.unrecorded
        # Should a block of another thread be open, neither is named for the other's results.
        if get_mode().grad or (self._before.grad and before is not UNRECORDED):
            fast.unrecorded = UNRECORDED
            return
        if self._function is None:
            frame: Any = getframe(2)
            if internal[frame.f_code.co_filename]:
                frame = user_frame(frame)
            place = (None, 0) if frame is None else (frame.f_code, frame.f_lasti)
        else:
            place = (getattr(self._function, "__code__", None), 0)
        birth = make_birth(Unrecorded, (self.__class__.__name__, *place))
        fast.unrecorded = (0, birth)

    _before: Any = None  # a Mode, once entered

    def _leave(self) -> None:
        if self._before is None:
            return
        # Only what this context changed goes back: others may have been entered and left across it.
        before = {name: getattr(self._before, name) for name in self._changes()}
        current.set(changed(get_mode(), **before))
        fast.unrecorded = UNRECORDED if self._before.grad else self._unrecorded

    def __call__(self, function: F) -> F:
        return decorated(self._again, function)


def _placed(context: Any, function: Any) -> Any:
    """The context of a call of `function`, which was decorated."""
    if isinstance(context, _ModeContext):
        context._function = function
    return context


def decorated(context: Callable[[], Any], function: F) -> F:
    """`function` run inside `context()`; generators re-enter it each time their body runs."""
    if inspect.isclass(function):
        warnings.warn(
            f"Decorating class {function.__name__} covers only its construction; decorate its "
            "methods "
            "instead.",
            FutureWarning,
            stacklevel=origin.stacklevel(),
        )
    if inspect.isgeneratorfunction(function):
        again: F = _decorated_generator(context, function)
        return again

    @functools.wraps(function, updated=() if inspect.isclass(function) else ("__dict__",))
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        with _placed(context(), function):
            return function(*args, **kwargs)

    return wrapper  # type: ignore[return-value]  # same signature, by wraps


def _decorated_generator(context: Callable[[], Any], function: Callable[..., Any]) -> Any:
    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        generator = function(*args, **kwargs)
        step: Callable[[], Any] = lambda: next(generator)  # noqa: E731 (replaced below)
        while True:
            try:
                with _placed(context(), function):
                    value = step()
            except StopIteration as end:
                return end.value
            try:
                received = yield value
            except GeneratorExit:
                with context():
                    generator.close()
                raise
            except BaseException as error:
                step = functools.partial(generator.throw, error)
            else:
                step = functools.partial(generator.send, received)

    return wrapper


class _GradContext(_ModeContext):
    """A context that changes grad mode alone.

    Where nothing else is unusual, entering and leaving are written out here: each of the steps of
    `_enter` and `_leave` would be a call, and all together take four times as long.
    """

    mode: bool

    def _changes(self) -> dict[str, Any]:
        return {"grad": self.mode}

    def __enter__(self) -> None:
        before = get_mode()
        if before is not PLAIN and before is not NO_GRAD:
            Whole.__enter__(self)
        elif not self.mode:
            self._stop(before, getframe(1))
        else:  # a block that records
            try:
                self._unrecorded = fast.unrecorded
                self._before = before
                set_mode(PLAIN)
                fast.unrecorded = UNRECORDED
            except BaseException:
                self._leave()
                raise

    def _stop(self, before: Any, frame: Any) -> None:
        """Enter a block that does not, at a line of `frame`."""
        try:
            self._unrecorded = outer = fast.unrecorded
            self._before = before
            set_mode(NO_GRAD)
            if before is PLAIN and outer is not UNRECORDED:
                fast.unrecorded = UNRECORDED  # of another thread, see `_note_block`
                return
            function = self._function
            if function is None:
                if internal[frame.f_code.co_filename]:
                    frame = user_frame(frame)
                code, lasti = (None, 0) if frame is None else (frame.f_code, frame.f_lasti)
            else:
                code, lasti = getattr(function, "__code__", None), 0
            fast.unrecorded = (0, make_birth(Unrecorded, (self.__class__.__name__, code, lasti)))
        except BaseException:
            self._leave()
            raise

    def __exit__(self, *error: object) -> None:
        try:
            mode, before = get_mode(), self._before
            if before is None or (mode is not NO_GRAD and mode is not PLAIN):
                self._leave()
            elif before.grad:
                set_mode(PLAIN)
                fast.unrecorded = UNRECORDED
            else:
                set_mode(NO_GRAD)
                fast.unrecorded = self._unrecorded
        except BaseException:
            self._leave()
            raise


class _PlainOrCalled(_GradContext):
    """`@no_grad` works like `@no_grad()`."""

    def __new__(cls, function: Any = None) -> Any:
        if function is None:
            return _new(cls)
        return decorated(cls, function)


_new = object.__new__
set_mode = current.set


class no_grad(_PlainOrCalled):
    """Disable recording of the graph: a context manager and a decorator, also on generators.

    >>> import pullback as torch
    >>> x = torch.ones(1, requires_grad=True)
    >>> with torch.no_grad():
    ...     (x * 2).requires_grad
    False
    """

    mode = False


class enable_grad(_PlainOrCalled):
    """Enable recording of the graph again inside `no_grad`.

    >>> import pullback as torch
    >>> x = torch.ones(1, requires_grad=True)
    >>> with torch.no_grad(), torch.enable_grad():
    ...     (x * 2).requires_grad
    True
    """

    mode = True


class set_grad_enabled(_GradContext):
    """Switch recording on or off: from the call on, or for a block as a context manager.

    >>> import pullback as torch
    >>> with torch.set_grad_enabled(False):
    ...     torch.is_grad_enabled()
    False
    """

    _noted: tuple[Any, ...] = UNRECORDED

    def __init__(self, mode: bool) -> None:
        if mode.__class__ is not bool:
            raise TypeError(f"set_grad_enabled() needs a bool, got {type(mode).__name__}.")
        self.mode = mode
        before = get_mode()
        if before is not PLAIN and before is not NO_GRAD:
            before = settle()
        if before is PLAIN or before is NO_GRAD:
            if mode:
                _GradContext.__enter__(self)
            else:
                self._stop(before, getframe(1))
            self._noted = fast.unrecorded
            return
        self._before = before
        try:
            current.set(with_grad(before, grad=mode))
            self._note_block()
        except BaseException:
            current.set(before)
            raise

    def __enter__(self) -> None:
        if get_mode() is (PLAIN if self.mode else NO_GRAD) and fast.unrecorded is self._noted:
            return  # as making this object left it
        Whole.__enter__(self)

    def _enter(self) -> None:
        current.set(with_grad(get_mode(), grad=self.mode))
        fast.unrecorded = self._unrecorded  # making this object noted it already
        self._note_block()

    def __call__(self, function: F) -> F:
        """Decorate: the mode set by making this object goes back, and holds in each call."""
        current.set(with_grad(get_mode(), grad=self._before.grad))
        return super().__call__(function)

    def _again(self) -> _ModeContext:
        return set_grad_enabled(self.mode)

    def __repr__(self) -> str:
        return f"set_grad_enabled(mode={self.mode})"


class _force_original_view_tracking(_ModeContext):
    """Views taken from now on have their own operators replayed when their history is rebuilt.

    Otherwise one `AsStridedBackward0` stands for however many steps led to a view. As
    `set_grad_enabled`, it holds at once when called, until the end of the block as a context.

    >>> import pullback as torch
    >>> x = torch.ones(3, requires_grad=True) * 1
    >>> with torch.autograd.grad_mode._force_original_view_tracking(True):
    ...     view = x[1:]
    >>> _ = x.mul_(2)
    >>> view.grad_fn.name()
    'SliceBackward0'
    """

    def __init__(self, mode: bool) -> None:
        self.mode = mode
        self._before = settle()
        current.set(changed(self._before, view_replay=mode))

    def _enter(self) -> None:
        current.set(changed(get_mode(), view_replay=self.mode))

    def _leave(self) -> None:
        current.set(changed(get_mode(), view_replay=self._before.view_replay))

    def __call__(self, function: F) -> F:
        """Decorate: the mode set by making this object goes back, and holds in each call."""
        current.set(changed(get_mode(), view_replay=self._before.view_replay))
        return super().__call__(function)

    def _again(self) -> _ModeContext:
        return _force_original_view_tracking(self.mode)

    def _changes(self) -> dict[str, Any]:
        return {"view_replay": self.mode}


class _unsafe_preserve_version_counter(Whole):
    """Inside, writes to these tensors leave their version counters as they are when it ends.

    Unsafe: backward then cannot tell that a saved value changed.

    >>> import pullback as torch
    >>> t = torch.zeros(2)
    >>> with torch.autograd._unsafe_preserve_version_counter(t):
    ...     _ = t.add_(1)
    >>> t._version
    0
    """

    def __init__(self, tensors: Tensor | tuple[Tensor, ...]) -> None:
        self.tensors = (tensors,) if isinstance(tensors, Tensor) else tensors
        assert isinstance(self.tensors, tuple), "Give a tensor or a tuple of tensors."
        self._versions = tuple(tensor._version for tensor in self.tensors)

    def _enter(self) -> None:
        pass

    def _leave(self) -> None:
        for tensor, version in zip(self.tensors, self._versions, strict=True):
            cell = own_cell(tensor)
            cell[0] = version
            del cell[1:]  # the forgotten writes would be taken for later ones


class inference_mode(_ModeContext):
    """Like `no_grad`; new tensors have no version counter either, and never enter a graph.

    >>> import pullback as torch
    >>> with torch.inference_mode():
    ...     torch.ones(1).is_inference()
    True
    """

    mode: bool

    def __new__(cls, mode: Any = True) -> Any:
        """A context; or, for `@inference_mode` without parentheses, the decorated function."""
        if mode is not True and mode is not False:
            return decorated(cls, mode)
        made = _new(cls)
        made.mode = mode
        return made

    def __init__(self, mode: Any = True) -> None:
        """For classes derived from this one, which call it: the mode is known by now."""

    def __enter__(self) -> None:
        before = get_mode()
        if not self.mode or (before is not PLAIN and before is not NO_GRAD):
            super().__enter__()
            return
        try:
            self._before = before
            set_mode(INFERENCE)
            self._note_block()
        except BaseException:
            self._leave()
            raise

    def __exit__(self, *error: object) -> None:
        try:
            before = self._before
            if get_mode() is not INFERENCE or (before is not PLAIN and before is not NO_GRAD):
                self._leave()
                return
            set_mode(before)
            fast.unrecorded = UNRECORDED if before is PLAIN else self._unrecorded
        except BaseException:
            self._leave()
            raise

    def _again(self) -> _ModeContext:
        made: _ModeContext = inference_mode(self.mode)
        return made

    def _changes(self) -> dict[str, Any]:
        return {"inference": self.mode, "grad": not self.mode, "forward_ad": not self.mode}


def is_view_replay_enabled() -> bool:
    """Whether views remember the operators that made them."""
    return get_mode().view_replay


__dir__ = _only_public(globals())
