"""Calls with one argument that is wrong, on torch too: what torch refuses is refused here.

A call is that of an operator's sample, as a function or as a method, with one thing changed: an
array or a list for a tensor, text for a number, a number for a bool, a dtype that does not fit, an
argument that there is not. Each side gets the same call. Where torch raises and we return, a
mistake of the user's would go unseen.
"""

from __future__ import annotations

import inspect
import os
import random
import time
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy

import pullback
from pullback.testing import SAMPLES, resolve, samples_for
from stress.forks import in_a_fork
from stress.report import Report

LIMIT = 60.0  # seconds for one operator's calls, and what they may wait for


class Change(NamedTuple):
    """One wrong thing: of which kind, at which argument (a place or a name), and the value."""

    kind: str
    at: int | str
    made: Callable[[Any, Any], Any]  # of the library and the value that was there
    text: str


def _fixed(value: Any) -> Callable[[Any, Any], Any]:
    return lambda library, before: value


_NUMBERS: dict[str, Callable[[Any, Any], Any]] = {
    "'1'": _fixed("1"),
    "None": _fixed(None),
    "[1.0]": _fixed([1.0]),
    "1j": _fixed(1j),
    "dict": _fixed({}),
    "a tensor that requires grad": lambda library, _: library.tensor(1.0, requires_grad=True),
    "a tensor of two": lambda library, _: library.tensor([1.0, 2.0]),
}
# What is put in the place of an argument of a kind.
WRONG: dict[str, dict[str, Callable[[Any, Any], Any]]] = {
    "bool": {
        "1": _fixed(1),
        "0.5": _fixed(0.5),
        "'yes'": _fixed("yes"),
        "None": _fixed(None),
        "[]": _fixed([]),
        "a tensor": lambda library, _: library.tensor([True]),
    },
    "int": {
        "1.5": _fixed(1.5),
        "1.0": _fixed(1.0),
        "True": lambda library, _: True,
        **{name: made for name, made in _NUMBERS.items() if name != "a tensor of two"},
        "a float tensor": lambda library, _: library.tensor(1.0),
    },
    "float": _NUMBERS,
    "text": {
        "'nonsense'": _fixed("nonsense"),
        "0": _fixed(0),
        "None": _fixed(None),
        "b'sum'": _fixed(b"sum"),
    },
    "sequence": {
        "floats": lambda library, value: [float(one) for one in value],
        "texts": lambda library, value: [str(one) for one in value],
        "nested": lambda library, value: [value],
        "one more": lambda library, value: [*value, *value, 0],
        "None": _fixed(None),
        "set": lambda library, value: set(value),
        "99": _fixed(99),
    },
    "dtype": {
        "text": _fixed("float32"),
        "0": _fixed(0),
        "NumPy's": _fixed(numpy.float32),
        "None of ours": _fixed(object()),
    },
    "tensor": {
        "an array": lambda library, value: value.detach().numpy(),
        "a list": lambda library, value: value.tolist(),
        "1.5": _fixed(1.5),
        "2": _fixed(2),
        "None": _fixed(None),
        "'text'": _fixed("text"),
        "as int64": lambda library, value: value.detach().to(library.int64),
        "as bool": lambda library, value: value.detach().to(library.bool),
        "as complex": lambda library, value: value.detach().to(library.complex128),
        "as half": lambda library, value: value.detach().to(library.float16),
        "as float32": lambda library, value: value.detach().to(library.float32),
        "one dimension more": lambda library, value: value.detach().unsqueeze(0),
        "without dimensions": lambda library, value: library.tensor(1.0, dtype=value.dtype),
        "of other length": lambda library, value: library.ones(
            [size + 2 for size in value.shape], dtype=value.dtype
        ),
        "on meta": lambda library, value: value.detach().to("meta"),
    },
    "tensors": {
        "one tensor": lambda library, value: value[0],
        "none": _fixed([]),
        "arrays": lambda library, value: [one.detach().numpy() for one in value],
        "with a number": lambda library, value: [*value, 2],
    },
}
# Kinds of which none may be accepted. The others are counted: some are kernels that torch has not.
HELD = ("tensor: an array", "bool: ", "unknown keyword", "one argument more")
# Accepted on purpose, see the table in docs/coming-from-torch.md.
LOOSER = ("method: out=",)


def _kind(value: Any) -> str | None:
    """Which sort of argument a value is."""
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "int"
    if isinstance(value, float | complex):
        return "float"
    if isinstance(value, str):
        return "text"
    if isinstance(value, pullback.Tensor):
        return "tensor"
    if isinstance(value, pullback.dtype):
        return "dtype"
    if isinstance(value, list | tuple) and value:
        if all(isinstance(one, pullback.Tensor) for one in value):
            return "tensors"
        if all(isinstance(one, int) for one in value):
            return "sequence"
    return None


def changes(function: Any, sample: Any, *, method: bool) -> Iterator[Change]:
    """Every wrong thing that can be done to a call."""
    given: dict[int | str, Any] = {0: sample.input, **dict(enumerate(sample.args, 1))}
    given.update(sample.kwargs)
    for name, default in _left_out(function, len(sample.args) + 1):
        given.setdefault(name, default)
    for at, value in given.items():
        kind = _kind(value)
        if kind is None or (method and at == 0):
            continue
        for text, made in WRONG[kind].items():
            yield Change(f"{kind}: {text}", at, made, text)
    yield Change("unknown keyword", "nonexistent", _fixed(1), "1")
    yield Change("one argument more", len(sample.args) + 1, _fixed("more"), "'more'")
    if method:
        yield Change("method: out=", "out", lambda library, _: library.empty(0), "empty(0)")


def _left_out(function: Any, count: int) -> Iterator[tuple[str, Any]]:
    """Options that the sample does not give, with their defaults."""
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return
    for place, one in enumerate(parameters):
        if one.default is one.empty or one.kind is one.VAR_KEYWORD or place < count:
            continue
        if isinstance(one.default, bool | int | float | str):
            yield one.name, one.default


def ended(library: Any, function: Any, sample: Any, change: Change) -> tuple[str, str]:
    """The name of the error that a call ends with, and its words; "" where it returns."""
    args: list[Any] = [sample.input, *sample.args]
    kwargs = dict(sample.kwargs)
    try:
        if isinstance(change.at, str):
            kwargs[change.at] = change.made(library, kwargs.get(change.at))
        elif change.at < len(args):
            args[change.at] = change.made(library, args[change.at])
        else:
            args.append(change.made(library, None))
    except Exception:
        return "cannot be made", ""
    try:
        function(*args, **kwargs)
    except Exception as error:
        return type(error).__name__, str(error)
    return "", ""


def compared(torch: Any, name: str, seed: int) -> list[tuple[str, str, str, str, str]]:
    """Of each wrong call of an operator: its kind, the call, and how both sides ended."""
    draw = random.Random(f"{seed}:{name}")
    found = []
    method = name.rpartition(".")[2] if "." not in name else ""
    ways: list[tuple[str, bool]] = [(name, False)]
    if method and hasattr(torch.Tensor, method) and hasattr(pullback.Tensor, method):
        ways.append((f"Tensor.{method}", True))
    for way, is_method in ways:
        ours, theirs = resolve(pullback, way), resolve(torch, way)
        if ours is None or theirs is None:
            continue
        mine = list(samples_for(name, requires_grad=False))
        others = list(samples_for(name, requires_grad=False, module=torch))
        signature = getattr(pullback.Tensor, method) if is_method else ours
        for number in draw.sample(range(len(mine)), min(2, len(mine))):
            for change in changes(signature, mine[number], method=is_method):
                answer = ended(pullback, ours, mine[number], change)
                other = ended(torch, theirs, others[number], change)
                call = f"{way}, sample {number}: {change.at} = {change.text}"
                found.append((change.kind, call, *other, answer[0]))
    return found


def run(seconds: float, seed: int, calls: int | None = None) -> Report:
    """Operators in an order that the seed shuffles, until the time or the calls are over."""
    report = Report("refusals", seed)
    try:
        import torch
    except ImportError:
        report.counts["torch is not installed: nothing compared"] = 1
        return report
    if not hasattr(os, "fork"):
        report.counts["this system has no fork: nothing tried"] = 1
        return report
    names = [name for name in SAMPLES if not name.startswith("Tensor.")]
    random.Random(seed).shuffle(names)
    end = time.monotonic() + seconds
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for name in names:
            if time.monotonic() > end or (calls is not None and report.counts["calls"] >= calls):
                break
            # In a fork: wrong calls may end torch's process.
            outcomes = in_a_fork(lambda name=name: compared(torch, name, seed), LIMIT)
            if isinstance(outcomes, str):
                report.counts[f"left out: {outcomes}"] += 1
                continue
            for kind, call, theirs, words, mine in outcomes:
                _judge(report, kind, call, theirs, words, mine)
    return report


def _judge(report: Report, kind: str, call: str, theirs: str, words: str, mine: str) -> None:
    if "cannot be made" in (theirs, mine):
        return
    report.counts["calls"] += 1
    if theirs and not mine and kind in LOOSER:
        report.counts["refused by torch, accepted here on purpose"] += 1
    elif theirs and not mine:
        report.counts["refused by torch, accepted here"] += 1
        report.counts[f"of these, {kind}"] += 1
        if kind.startswith(HELD) and "unexpected keyword" not in words:
            report.found(f"accepted: {kind}", f"{call}  # {theirs}: {words[:120]}")
    elif mine and not theirs:
        report.counts["accepted by torch, refused here"] += 1
    elif theirs != mine:
        report.counts["refused by both, another type of error"] += 1
    else:
        report.counts["refused by both" if mine else "accepted by both"] += 1
