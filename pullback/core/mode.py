"""What this thread wants: grad mode, inference mode, active transforms.

Its own file because every operator call reads it, once.

A mode is an immutable object kept in a `ContextVar` (a read costs a third of a `threading.local`
attribute). The usual three, `PLAIN`, `NO_GRAD` and `INFERENCE`, are singletons, so the fast path of
an operator tests identity and nothing else. What holds for the whole process (anomaly detection, a
forward-mode level) is switched by `detour`, which takes the singletons away from the fast path's
sight.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable
from contextvars import ContextVar
from operator import attrgetter
from typing import Any

from pullback.core import sequence
from pullback.core.explain.birth import UNRECORDED
from pullback.core.process.float_errors import hear_float_errors

# The settings, as most threads have them.
_SETTINGS: dict[str, Any] = {
    "grad": True,
    "inference": False,
    "forward_ad": True,
    # How many of the open forward-mode levels are visible; None: those that are open everywhere.
    "dual_depth": None,
    # Active transforms, innermost last; each has `process(op, args, options)`.
    "levels": (),
    # (pack, unpack) pairs of saved-tensor hooks, innermost last.
    "saved_hooks": (),
    # Set while saved-tensor hooks are forbidden: the message to raise.
    "saved_hooks_forbidden": None,
    "multithreading": True,
    "enforce_grad_layout": True,
    # Whether views remember the operators that made them, also where strides would say it all.
    "view_replay": False,
    # The user's dispatch modes (below autograd) and function modes (above it), innermost last.
    "dispatch": (),
    "functions": (),
    # Settings of autocast (core/autocast.py) where it is on for a device, else None.
    "autocast": None,
    # What writes down operator calls instead of running them (compiled/capture); None: they run.
    "tracing": None,
}


class Mode:
    """All thread-wide settings that change how an operator runs.

    No dataclass: making one, and loading what makes them, is a thirtieth of the package's import.
    """

    __slots__ = tuple(_SETTINGS)

    grad: bool
    inference: bool
    forward_ad: bool
    dual_depth: int | None
    levels: tuple[Any, ...]
    saved_hooks: tuple[Any, ...]
    saved_hooks_forbidden: str | None
    multithreading: bool
    enforce_grad_layout: bool
    view_replay: bool
    dispatch: tuple[Any, ...]
    functions: tuple[Any, ...]
    autocast: Any
    tracing: Any

    def __init__(self, settings: Iterable[Any]) -> None:
        for fill, value in zip(_FILL, settings, strict=True):
            fill(self, value)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"A mode does not change: {name} = {value!r}.")


def _usually(**changes: Any) -> Mode:
    return Mode({**_SETTINGS, **changes}.values())


class Hooked(Mode):
    """A mode in which saved-tensor hooks are all that is unusual; operators ask for the class.

    Such calls are written out too (operators/writing/build.py): `pack` and `unpack` are the
    innermost pair, `usual` is the mode that would be without them.
    """

    __slots__ = ("pack", "unpack", "usual")

    pack: Any
    unpack: Any
    usual: Mode

    def __init__(self, settings: tuple[Any, ...], usual: Mode) -> None:
        super().__init__(settings)
        pack, unpack = self.saved_hooks[-1]
        object.__setattr__(self, "pack", pack)
        object.__setattr__(self, "unpack", unpack)
        object.__setattr__(self, "usual", usual)


class Mapped(Mode):
    """A mode in which vmap levels are all that is unusual; operators ask for the class.

    Such calls are written out too (transforms/vmap_fast_path.py): `level` is the innermost, `below`
    is the mode without it.
    """

    __slots__ = ("below", "level")

    below: Mode
    level: Any

    def __init__(self, settings: tuple[Any, ...], below: Mode) -> None:
        for fill, value in zip(_FILL, settings, strict=True):
            fill(self, value)
        _fill_below(self, below)
        _fill_level(self, self.levels[-1])


class Perturbed(Mode):
    """A mode that sees forward-mode levels of function transforms: the first `dual_depth` of these.

    A mode that follows from it knows them, too, and need not ask what is open.
    """

    __slots__ = ("seen",)

    seen: tuple[Any, ...]

    def __init__(self, settings: tuple[Any, ...], seen: tuple[Any, ...]) -> None:
        for fill, value in zip(_FILL, settings, strict=True):
            fill(self, value)
        _fill_seen(self, seen)


class Dual(Perturbed):
    """A mode in which one perturbation is all that is unusual; operators ask for the class.

    Such calls are written out too (transforms/dual.py): `level` holds the tangents, `below`
    is the mode without it. A vmap level that batches tangents alone may be there: that of `batch`.
    """

    __slots__ = ("batch", "below", "level")

    below: Mode
    batch: Mapped | None
    level: Any

    def __init__(
        self, settings: tuple[Any, ...], seen: tuple[Any, ...], below: Mode, batch: Mapped | None
    ) -> None:
        for fill, value in zip(_FILL, settings, strict=True):
            fill(self, value)
        _fill_seen(self, seen)
        _fill_dual_below(self, below)
        _fill_batch(self, batch)
        _fill_perturbation(self, seen[0])


_FILL = tuple(Mode.__dict__[name].__set__ for name in Mode.__slots__)
_fill_seen = Perturbed.__dict__["seen"].__set__
_fill_dual_below, _fill_batch = Dual.__dict__["below"].__set__, Dual.__dict__["batch"].__set__
_fill_perturbation = Dual.__dict__["level"].__set__
_fill_below, _fill_level = Mapped.__dict__["below"].__set__, Mapped.__dict__["level"].__set__


PLAIN = _usually()
NO_GRAD = _usually(grad=False)
INFERENCE = _usually(grad=False, inference=True, forward_ad=False)
# Inside the forward of a user's Function: what it computes is not differentiated in either way.
FORWARD = _usually(grad=False, forward_ad=False)
# What a thread or context starts with. It equals PLAIN but for one thing: NumPy there still warns
# of divisions by zero and the like. The first operator call settles that, see `settle`.
FRESH = _usually()

current: ContextVar[Mode] = ContextVar("pullback_mode", default=FRESH)
get_mode = current.get


class _FastPath:
    """The modes in which operators may run their fast path; None while detoured."""

    __slots__ = ("forward", "inference", "no_grad", "others", "plain", "reasons", "unrecorded")

    def __init__(self) -> None:
        self.plain: Mode | None = PLAIN
        self.no_grad: Mode | None = NO_GRAD
        self.inference: Mode | None = INFERENCE
        self.forward: Mode | None = FORWARD
        self.others: tuple[Mode, ...] = (NO_GRAD, INFERENCE, FORWARD)  # besides `plain`
        self.reasons: frozenset[Any] = frozenset()
        # The version counter of results made under no_grad: it says which block they came from.
        self.unrecorded: tuple[Any, ...] = UNRECORDED


fast = _FastPath()


_detouring = threading.RLock()


def detour(reason: Any, *, needed: bool) -> None:
    """Add or take away a process-wide reason for which every operator must leave its fast path."""
    with _detouring:
        fast.reasons = fast.reasons | {reason} if needed else fast.reasons - {reason}
        usual = (None,) * 4 if fast.reasons else (PLAIN, NO_GRAD, INFERENCE, FORWARD)
        fast.plain, fast.no_grad, fast.inference, fast.forward = usual
        fast.others = () if fast.reasons else (NO_GRAD, INFERENCE, FORWARD)


def exactly_traced() -> Any:
    """Who captures what runs now for kernels that are eager's own, to the last bit; else None.

    Not what is differentiated on the way: eager computes that with tensors too.
    """
    mode = get_mode()
    tracing = mode.tracing
    if tracing is None or not tracing.exact or mode.grad or mode.levels or mode.dual_depth:
        return None
    return tracing


def settle() -> Mode:
    """The current mode, after making our own calls of NumPy as silent as torch about inf and NaN.

    `numpy.seterr` after the first use of pullback in a thread has its way with our calls, too.
    """
    mode = get_mode()
    if mode is FRESH:
        hear_float_errors(_unsettle)
        sequence.arrive()
        current.set(PLAIN)
        return PLAIN
    return mode


def _unsettle(
    get: Any = get_mode, put: Any = current.set, settled: Mode = PLAIN, fresh: Mode = FRESH
) -> None:
    """Have the next operator settle again; names no global, as there are none at the very end."""
    if get() is settled:
        put(fresh)


def with_grad(mode: Mode, *, grad: bool) -> Mode:
    """`mode` with grad mode on or off."""
    if mode is PLAIN or mode is NO_GRAD:
        return PLAIN if grad else NO_GRAD
    if mode.__class__ is Mapped:
        below = mode.below
        return mode if mode.grad is grad else with_level(with_grad(below, grad=grad), mode.level)
    if mode.__class__ is Dual:
        return mode if mode.grad is grad else _perturbed((grad, *_settings(mode)[1:]), mode.seen)
    if mode is FORWARD and fast.plain is not None:  # no levels are open, so nothing is pushed
        return PLAIN if grad else FORWARD
    return changed(mode, grad=grad)


def changed(mode: Mode, **changes: Any) -> Mode:
    """`mode` with `changes`; the singletons whenever nothing else differs from them."""
    if not changes.keys() <= _USUAL:
        return _with_changes(mode, changes)
    for name, value in changes.items():
        if getattr(mode, name) != value:
            break
    else:
        return mode if mode is not FRESH else PLAIN
    key = (mode, *changes.items())
    known = _changed.get(key)
    if known is None:
        known = _with_changes(mode, changes)
        known_to_user = mode.saved_hooks or mode.dispatch or mode.functions
        if known_to_user or mode.autocast or mode.tracing:
            return known  # what the user's objects hold on to must not be kept alive here
        if len(_changed) > _MOST_CHANGES:
            _changed.clear()
        _changed[key] = known
    return known


# Transforms go back and forth between a few modes, and making one takes 2 us.
_changed: dict[Any, Mode] = {}
_MOST_CHANGES = 200
_USUAL = frozenset({"grad", "inference", "forward_ad", "dual_depth", "levels"})


def _with_changes(mode: Mode, changes: dict[str, Any]) -> Mode:
    values = list(_settings(mode))
    for name, value in changes.items():
        values[_PLACES[name]] = value
    new = tuple(values)
    if isinstance(mode, Perturbed) and values[_PLACES["dual_depth"]]:
        return _perturbed(new, mode.seen)
    for singleton in (PLAIN, NO_GRAD, INFERENCE, FORWARD):
        if new == _settings(singleton):
            return singleton
    if mode.saved_hooks or "saved_hooks" in changes:
        values[_PLACES["saved_hooks"]] = ()
        for usual in (PLAIN, NO_GRAD):
            if tuple(values) == _settings(usual):
                return Hooked(new, usual)
    levels = values[_PLACES["levels"]]
    if levels and _maps(levels[-1]):
        inside = _with_changes(mode, {**changes, "levels": levels[:-1]})
        if inside is PLAIN or inside is NO_GRAD or inside.__class__ is Mapped:
            return Mapped(new, inside)
    return Mode(new)


def _perturbed(settings: tuple[Any, ...], seen: tuple[Any, ...]) -> Mode:
    """The mode of these settings, which sees the first `dual_depth` of the levels `seen`."""
    grad, inference, forward_ad, dual_depth, levels, *others = settings
    if dual_depth != 1 or not forward_ad or inference or tuple(others) != _OTHERS:
        return Perturbed(settings, seen)
    if seen[0].rule is not None:
        return Perturbed(settings, seen)
    below = PLAIN if grad else NO_GRAD
    if not levels:
        return Dual(settings, seen, below, None)
    if len(levels) == 1 and levels[0].for_tangents and levels[0].transform == "vmap":
        batch = Mapped((grad, inference, True, None, levels, *others), below)
        return Dual(settings, seen, below, batch)
    return Perturbed(settings, seen)


def with_perturbation(mode: Mode, seen: tuple[Any, ...]) -> Mode:
    """`mode`, seeing these forward-mode levels."""
    grad, inference, _, _, *others = _settings(mode)
    return _perturbed((grad, inference, True, len(seen), *others), seen)


def _maps(level: Any) -> bool:
    return getattr(level, "transform", None) == "vmap"


def with_level(mode: Mode, level: Any) -> Mode:
    """`mode` with one vmap level more, innermost."""
    if mode is PLAIN or mode is NO_GRAD or mode.__class__ is Mapped:
        grad, inference, forward_ad, dual_depth, levels, *others = _settings(mode)
        settings = (grad, inference, forward_ad, dual_depth, (*levels, level), *others)
        return Mapped(settings, mode)
    return changed(mode, levels=(*mode.levels, level))


_settings = attrgetter(*Mode.__slots__)
_OTHERS = _settings(PLAIN)[5:]
_PLACES = {name: place for place, name in enumerate(Mode.__slots__)}


def change(**changes: Any) -> Mode:
    """Change this thread's mode and return the one before."""
    before = settle()
    current.set(changed(before, **changes))
    return before
