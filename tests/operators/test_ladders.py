"""A declared forward says what an operator means; which way is quicker is asked by its kernels."""

from __future__ import annotations

import ast
import inspect
import re
import textwrap

from pullback.operators.attach.every import load_all
from pullback.operators.declare import OPERATORS

load_all()
# Questions of speed: the array library, the precisions that have loops of their own, the order in
# memory, a size beside a constant, machine code. Kinds of dtypes and dimensions are questions of
# meaning.
SPEED = re.compile(
    r"\bis (not )?numpy\b|\bF(32|64)\b|\.char\b|\.flags\b|\bnative\b|machine_code"
    r"|[<>]=? _?[A-Z][A-Z_0-9]+\b|\b_?[A-Z][A-Z_0-9]+ [<>]"
)
IN_HALF = "half precision is computed in single, which single itself is not asked"
LAYOUT = "results lie in memory as their input does"
ORDERED = "results are row-major, as torch's are: those that are not are copied"
# Those that ask all the same, and why.
REASONS = {
    "_expand": "the constructor of arrays in place of a helper: 0.16 of 1.6 us, and no other value",
    "_given_standardise": IN_HALF,
    "_mix": LAYOUT,
    "_rot90": ORDERED,
    "addcdiv": IN_HALF,
    "addcmul": IN_HALF,
    "batch_standardise": IN_HALF,
    "cat": ORDERED,
    "masked_fill": ORDERED,
    "pow.Scalar": ORDERED,
    "stack": ORDERED,
    "bincount": "weights of single precision are added up in double",
    "lgamma": "SciPy's infinities are looked at, where there are any",
    "polygamma": "derivatives beyond the largest factorial have another formula",
    "recurrence": "products that leave the range of a double have another formula",
    "relu": "a formula whose kernel is one call of NumPy, of two for many elements",
    "rsqrt": IN_HALF,
}


def asked_for_speed(function):
    """The questions of speed that a function asks, but for those whose answer is an error."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):  # written, or an array function itself
        return []
    choices = [one for one in ast.walk(tree) if isinstance(one, ast.If | ast.IfExp)]
    refusals = [one for one in choices if isinstance(one, ast.If) and refuses(one)]
    texts = [ast.unparse(one.test) for one in choices if one not in refusals]
    return [text for text in texts if SPEED.search(text)]


def refuses(choice):
    return isinstance(choice.body[-1], ast.Raise) and not choice.orelse


def ladders():
    found = {}
    for key, op in sorted(OPERATORS.items()):
        function = inspect.unwrap(op.meaning)
        if function.__module__.startswith("pullback.") and (asked := asked_for_speed(function)):
            found.setdefault(function, (key, asked))
    return dict(found.values())


def test_forwards_ask_no_question_of_speed_but_with_a_reason():
    found = ladders()
    new = {key: asked for key, asked in found.items() if key not in REASONS}
    assert not new, "make quicker ways kernels (@kernel), or give the reason here"
    assert not REASONS.keys() - found.keys(), "these no longer ask: take the reason out"


def test_a_ladder_is_found():
    def forward(xp, input):
        if xp is numpy and input.size < _FEW:  # noqa: F821
            return input.dot(input)
        if input.dtype.kind not in "fc":
            raise TypeError
        return (input * input).sum()

    assert asked_for_speed(forward) == ["xp is numpy and input.size < _FEW"]
