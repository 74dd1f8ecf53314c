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


# Helpers that a forward names and that ask, by family. What all families share, `arrays` and
# `running`, chooses for itself, as NumPy's functions do. "A choice" is to become a kernel.
CHOICE = "a choice"
VALUES = "what the elements are decides among formulas, which no condition knows"
PRECISION = "what one precision has not the digits or the range for"
HELPERS = {
    "indexing.advanced._taken": ORDERED,
    "indexing.places._write_put": "what lies row by row is written to as one row",
    "linalg.matrix_functions._exponential": PRECISION,
    "nn.activation.softmax.exponentials_of": "exponentials that cannot overflow are not shifted",
    "nn.conv.kernels.correlated": CHOICE,
    "nn.conv.operators.laid_out": LAYOUT,
    "nn.norm.layout.layout": "a plan of shapes, which kernels ask for",
    "nn.norm.standardise._laid_out": LAYOUT,
    "nn.pool.kernels._maxima_by_lines": ORDERED,
    "nn.pool.kernels._of_block": "more points than bytes number are looked up",
    "nn.pool.places.spot": "positions that all ways share: of few, where images begin is known",
    "pointwise.arithmetic._plus_scaled": IN_HALF,
    "pointwise.complex._complex_of": "dtypes that have complex numbers of their parts",
    "pointwise.extrema._limited": "numbers of other dtypes are brought to theirs",
    "pointwise.powers._power": "whole exponents up to one are products, which are exact",
    "random.gamma._gammas": "torch rounds to the precision of what is asked for",
    "reduce.statistics._moments": PRECISION,
    "reduce.truth._truth": "truth of bytes are bytes, as torch's",
    "shape.reshaping.reshape": LAYOUT,
    "shape.tiling._rolled": ORDERED,
    "shape.views._writable": "what may be written to",
    "special.functions._derived": VALUES,
    "special.polynomials._polynomial": VALUES,
}
MOST_CHOICES = 1


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


def helpers():
    """The functions of families that forwards name and that ask, with what they ask."""
    found = {}
    for op in OPERATORS.values():
        function = inspect.unwrap(op.meaning)
        if not in_a_family(function):
            continue
        for one in map(inspect.unwrap, named_in(function)):
            if in_a_family(one) and (asked := asked_for_speed(one)):
                module = one.__module__.removeprefix("pullback.operators.")
                found[f"{module}.{one.__name__}"] = asked
    return found


def named_in(function):
    """What a function and those inside it name, and what it was made with."""
    codes, names = [function.__code__], set()
    for code in codes:
        names.update(code.co_names)
        codes += [one for one in code.co_consts if inspect.iscode(one)]
    scope = function.__globals__
    yield from [scope[name] for name in sorted(names & scope.keys())]
    yield from [cell.cell_contents for cell in function.__closure__ or ()]


def in_a_family(function):
    if not inspect.isfunction(function) or hasattr(function, "op"):
        return False
    room = function.__module__.removeprefix("pullback.operators.")
    return room != function.__module__ and room.partition(".")[0] not in ("arrays", "running")


def test_helpers_of_forwards_ask_no_question_of_speed_but_those_listed():
    found = helpers()
    new = {key: asked for key, asked in found.items() if key not in HELPERS}
    assert not new, "make quicker ways kernels (@kernel), or give the reason here"
    assert not HELPERS.keys() - found.keys(), "these no longer ask: take the reason out"
    assert sum(one == CHOICE for one in HELPERS.values()) <= MOST_CHOICES, "it only goes down"


def test_a_ladder_is_found():
    def forward(xp, input):
        if xp is numpy and input.size < _FEW:  # noqa: F821
            return input.dot(input)
        if input.dtype.kind not in "fc":
            raise TypeError
        return (input * input).sum()

    assert asked_for_speed(forward) == ["xp is numpy and input.size < _FEW"]
