"""Kernels beside what their operators mean: which of them runs for a sample, how far off it is."""

from __future__ import annotations

import numpy

from pullback.operators.attach.every import load_all
from pullback.operators.conditions import FACTS
from pullback.operators.declare import OPERATORS
from pullback.testing import samples_kernels_nn

load_all()
assert samples_kernels_nn  # imported for the samples that it enters
WITH_KERNELS = sorted(
    {
        op.name: op for op in OPERATORS.values() if any(one.on == "host" for one in op.kernels)
    }.items()
)


def named(op, sample, when):
    """What a condition may ask about, by its name."""
    facts = {"xp": numpy, **sample}
    for param in op.inputs:
        value = sample[param.name]
        for fact in FACTS if isinstance(value, numpy.ndarray) else ():
            facts[f"{param.name}_{fact}"] = getattr(value, fact)
    for name, text in when.facts.items():
        facts[name] = eval(text, {**when.scope, **facts})
    return facts


def evaluated(text, op, when, sample):
    return eval(text, {**when.scope, **named(op, sample, when)})


def holds(op, entry, sample):
    """The condition, question by question: those behind a no are not asked."""
    return all(evaluated(one, op, entry.when, sample) for one in entry.when.questions)


def run(op, entry, sample):
    facts = named(op, sample, entry.when)
    return entry.function(*[facts[name] for name in entry.params])


def listed(made):
    return [numpy.asarray(one) for one in (made if isinstance(made, tuple | list) else [made])]


def in_double(value):
    if type(value) is tuple:
        return tuple(map(in_double, value))
    is_float = isinstance(value, numpy.ndarray) and value.dtype.kind == "f"
    return value.astype(numpy.float64) if is_float else value


def meaning(op, sample):
    return listed(op.meaning(numpy, **sample))


def scale_of(op, sample, wide):
    """The largest number that there is a last place of: of the results, or of what is added up."""
    arrays = {name: v for name, v in sample.items() if isinstance(v, numpy.ndarray)}
    floats = {name: abs(in_double(v)) for name, v in arrays.items() if v.dtype.kind == "f"}
    is_sum = op.kind in ("linear", "multilinear")
    added = meaning(op, {**sample, **floats}) if is_sum else floats.values()
    return max([abs(one[numpy.isfinite(one)]).max(initial=0) for one in (*wide, *added)], default=0)


def around(entry):
    return sorted({max(n + by, 0) for _, n in entry.when.limits for by in (-1, 0, 1)}) or [3]
