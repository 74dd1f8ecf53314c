"""Every public function and method, called with wrong arguments.

A call may succeed, or fail with an error of a documented kind whose words are ours. It must not
raise anything else, must leave the tensors it was given as they were if it fails, and must not
change a mode. Each call follows from the seed and its number alone.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import random
import re
import signal
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy

import pullback as torch
from pullback.core.forward import LEVELS
from pullback.core.mode import current, get_mode, settle
from stress.report import Report

ALLOWED = (TypeError, ValueError, RuntimeError, IndexError)
# Words that only our own code, or NumPy's, would use: the user is told nothing by them.
LEAKED = re.compile(r"has no attribute|_array\b|Unable to allocate|C long|maximum recursion")
# Where torch has assertions, and DLPack its own kind, so have we.
BESIDES: dict[str, tuple[type[Exception], ...]] = {
    "autograd.functional.jacobian": (AssertionError,),
    "autograd.functional.hessian": (AssertionError,),
    "autograd.gradcheck": (AssertionError,),
    "autograd.gradgradcheck": (AssertionError,),
    "nn.functional.embedding": (AssertionError,),
    "nn.functional.multi_head_attention_forward": (AssertionError,),
    "Tensor.cuda": (AssertionError,),
    "Tensor.mtia": (AssertionError,),
    "Tensor.xpu": (AssertionError,),
    "from_dlpack": (BufferError,),
    **{f"nn.functional.lp_pool{n}d": (ZeroDivisionError,) for n in (1, 2, 3)},
    "Tensor.__int__": (OverflowError,),  # as Python's int() of infinity
    # As Python's float() of an int that none is large enough for, which torch hands on here.
    **{f"Tensor.{name}_": (OverflowError,) for name in ("cauchy", "log_normal", "normal")},
}
SLOW = 4.0  # seconds of the processor for one call on small tensors; the first loads SciPy

SPACES = (
    *("", "nn.functional", "linalg", "fft", "special", "signal.windows", "func", "autograd"),
    *("autograd.functional", "nn.init", "nn.utils", "masked"),
)
# What changes a mode, waits, writes files or ends the process when it succeeds, as it should.
_CHANGING = """
    set_default_dtype set_default_tensor_type set_default_device set_printoptions set_num_threads
    set_num_interop_threads set_flush_denormal set_deterministic_debug_mode set_warn_always
    use_deterministic_algorithms set_grad_enabled set_anomaly_enabled set_float32_matmul_precision
    set_rng_state manual_seed seed save load compile set_multithreading_enabled detect_anomaly
    enforce_grad_layout_policy set_autocast_enabled share_memory_ set_autocast_cpu_enabled
    set_autocast_cache_enabled set_autocast_dtype set_autocast_cpu_dtype clear_autocast_cache
    autocast_increment_nesting autocast_decrement_nesting set_autocast_gpu_dtype set_vital
    inference_mode no_grad enable_grad requires_grad_ retain_grad
"""
LEFT_OUT = frozenset(_CHANGING.split())


# What is called -----------------------------------------------------------------------------------


def public_functions() -> dict[str, Callable[..., Any]]:
    """Functions by the name that users write, and methods as `Tensor.name`."""
    found: dict[str, Callable[..., Any]] = {}
    for space in SPACES:
        module = functools.reduce(getattr, space.split(".") if space else (), torch)
        for name in getattr(module, "__all__", None) or dir(module):
            value = getattr(module, name, None)
            if _is_function(name, value):
                found[f"{space}.{name}".lstrip(".")] = value
    for name in dir(torch.Tensor):
        value = getattr(torch.Tensor, name, None)  # loads those that stand on a descriptor
        if _is_function(name, value) or name in _SIGNS:
            found[f"Tensor.{name}"] = value
    return dict(sorted(found.items()))


_OPERATORS = """
    add sub mul truediv floordiv mod pow matmul and or xor lshift rshift radd rsub rmul iadd isub
    imul itruediv lt le gt ge neg abs invert getitem setitem bool int float index len contains
"""
_SIGNS = frozenset(f"__{name}__" for name in _OPERATORS.split())


def _is_function(name: str, value: Any) -> bool:
    if name.startswith("_") or name in LEFT_OUT or inspect.isclass(value):
        return False
    return callable(value) and not inspect.ismodule(value)


@functools.cache
def _parameters(function: Callable[..., Any]) -> tuple[list[str], list[str], int]:
    """Positional names, keyword-only names, and how many arguments are required."""
    try:
        signature = inspect.signature(function)
    except (ValueError, TypeError):
        return ["a", "b", "c"], [], 1
    positional, keywords, required = [], [], 0
    for parameter in signature.parameters.values():
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD):
            positional.append(parameter.name)
            required += parameter.default is parameter.empty
        elif parameter.kind is parameter.VAR_POSITIONAL:
            positional += [""] * 2  # may be given, by position alone
        elif parameter.kind is parameter.KEYWORD_ONLY:
            keywords.append(parameter.name)
    return positional, keywords, required


# What it is called with ---------------------------------------------------------------------------


def _computed() -> Any:
    leaf = torch.ones(2, 3, requires_grad=True)
    return leaf * 2


TENSORS: tuple[Callable[[], Any], ...] = (
    lambda: torch.tensor(1.5),
    lambda: torch.tensor([1.0, -2.0, 0.5]),
    lambda: torch.arange(6.0).reshape(2, 3),
    lambda: torch.arange(9.0).reshape(3, 3) + torch.eye(3),
    lambda: torch.arange(24.0).reshape(2, 3, 4),
    lambda: torch.ones(1, 2, 4, 4),
    lambda: torch.empty(0),
    lambda: torch.empty(2, 0),
    lambda: torch.tensor(2),
    lambda: torch.tensor([0, 1, 2]),
    lambda: torch.tensor([[0, 1], [2, 0]], dtype=torch.int32),
    lambda: torch.tensor([255, 0], dtype=torch.uint8),
    lambda: torch.tensor([True, False, True]),
    lambda: torch.ones(2, 3) > 0,
    lambda: torch.tensor([1 + 2j, -1j]),
    lambda: torch.tensor([1.0, 2.0, 3.0], dtype=torch.float16),
    lambda: torch.tensor([[1.0, 2.0]], dtype=torch.float64),
    lambda: torch.ones(2, 3, requires_grad=True),
    _computed,
    lambda: torch.arange(6.0).reshape(2, 3).t(),
    lambda: torch.ones(3, 1).expand(3, 3),
    lambda: torch.tensor([float("nan"), float("inf"), -0.0]),
)
SMALL = (0, 1, 2, 3, -1, -2, 4, 5)
OTHERS: tuple[Any, ...] = (
    *(True, False, None, 1.5, -0.5, 0.0, float("nan"), float("inf"), 1j, 2 + 1j),
    *(2**45, 2**62, 2**63, 2**70, -(2**63), -(2**70), 10**400),
    *("", "sum", "mean", "ij->i", "text", b"bytes", [], (), {}, {"dim": 0}, [1, 2], (2, 3), (0, 1)),
    *([1.5, "a"], [None], (1, (2, 3)), slice(None), ..., object(), int, len, range(3), {1, 2}),
    *(numpy.float32(1.5), numpy.int64(2), numpy.ones(3), numpy.array(["a"])),
)


def _dtypes() -> tuple[Any, ...]:
    return (torch.float32, torch.int64, torch.complex64, torch.bool, torch.strided)


def _value(draw: random.Random) -> Any:
    kind = draw.random()
    if kind < 0.3:
        return draw.choice(TENSORS)()
    if kind < 0.55:
        return draw.choice(SMALL)
    if kind < 0.62:
        return [draw.choice(TENSORS)() for _ in range(draw.randrange(1, 4))]
    if kind < 0.66:
        return draw.choice(_dtypes())
    return draw.choice(OTHERS)


def drawn_call(
    function: Callable[..., Any], draw: random.Random, *, of_tensor: bool
) -> tuple[list[Any], dict[str, Any]]:
    """Arguments for one call: mostly as many as there must be, mostly with a tensor first."""
    positional, keywords, required = _parameters(function)
    count = min(len(positional), required + draw.choice((0, 0, 0, 1, 2)))
    if draw.random() < 0.04:
        count = draw.randrange(len(positional) + 2)
    args = [_value(draw) for _ in range(count)]
    if of_tensor or (args and draw.random() < 0.7):
        args[:1] = [draw.choice(TENSORS)()]
    named = [name for name in (*positional[count:], *keywords) if name]
    kwargs = {}
    while named and draw.random() < 0.2:
        kwargs[draw.choice(named)] = _value(draw)
    return args, kwargs


# One call -----------------------------------------------------------------------------------------


class TooSlow(BaseException):
    """A call that took longer than any should."""


@contextlib.contextmanager
def _limited(seconds: float) -> Iterator[None]:
    def stop(*_: Any) -> None:
        raise TooSlow

    before = signal.signal(signal.SIGPROF, stop)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def _tensors(values: Any) -> Iterator[Any]:
    for value in values:
        if isinstance(value, torch.Tensor):
            yield value
        elif isinstance(value, list | tuple):
            yield from _tensors(value)


def _state(tensor: Any) -> tuple[Any, ...]:
    array = tensor._array
    values = array.tobytes()
    return values, array.shape, array.strides, array.dtype, tensor.requires_grad, tensor._version


def _modes() -> tuple[Any, ...]:
    return get_mode(), torch.get_default_dtype(), len(LEVELS), torch.is_anomaly_enabled()


def _shown(value: Any) -> str:
    if isinstance(value, torch.Tensor):
        kind = str(value.dtype).removeprefix("torch.")
        return f"<{kind} {tuple(value.shape)}{' grad' if value.requires_grad else ''}>"
    if isinstance(value, list):
        return "[" + ", ".join(map(_shown, value)) + "]"
    text = repr(value)
    return text if len(text) < 40 else text[:37] + "..."


def try_call(report: Report, name: str, function: Callable[..., Any], number: int) -> None:
    """Make call number `number` of the seed, and note what is wrong with it."""
    draw = random.Random(f"{report.seed}:{number}")
    args, kwargs = drawn_call(function, draw, of_tensor=name.startswith("Tensor."))
    given = [*args, *kwargs.values()]
    before = [(one, _state(one)) for one in _tensors(given)]
    modes = _modes()
    listed = ", ".join([*map(_shown, args), *(f"{k}={_shown(v)}" for k, v in kwargs.items())])
    example = f"{name}({listed})  # call {number}"
    failed = True
    try:
        with warnings.catch_warnings(), _limited(SLOW):
            warnings.simplefilter("ignore")
            function(*args, **kwargs)
        failed = False
        report.counts["succeeded"] += 1
    except TooSlow:
        report.counts["too slow"] += 1
        report.found(f"{name}: took more than {SLOW} s", example)
    except RecursionError:
        report.found(f"{name}: RecursionError", example)
    except ALLOWED as error:
        kind = next(allowed.__name__ for allowed in ALLOWED if isinstance(error, allowed))
        report.counts[kind] += 1
        if leaked := LEAKED.search(str(error)):
            report.found(f"{name}: {type(error).__name__} says {leaked[0]!r}", example)
    except BESIDES.get(name, ()) as error:
        report.counts[type(error).__name__] += 1
    except Exception as error:
        report.counts[f"undocumented: {type(error).__name__}"] += 1
        report.found(f"{name}: {type(error).__name__}: {str(error)[:80]}", example)
    if failed and any(_state(one) != state for one, state in before):
        report.found(f"{name}: a failed call changed its arguments", example)
    if _modes() != modes:
        report.found(f"{name}: a mode was changed", example)
        current.set(modes[0])
        torch.set_default_dtype(modes[1])


def run(seconds: float, seed: int, calls: int | None = None) -> Report:
    """Call functions in turn until the time, or the number of calls, is over."""
    report = Report("api", seed)
    settle()  # the first use in a thread sets its mode, which is no finding
    functions = list(public_functions().items())
    random.Random(seed).shuffle(functions)
    end = time.monotonic() + seconds
    number = 0
    # Some functions make files, by the name that they are given.
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        while time.monotonic() < end and (calls is None or number < calls):
            name, function = functions[number % len(functions)]
            try_call(report, name, function, number)
            number += 1
    report.counts["calls"] = number
    report.counts["functions"] = len(functions)
    return report
