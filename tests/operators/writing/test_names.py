"""No name is forbidden: operators do the same whatever their parameters are called."""

from __future__ import annotations

import ast
import keyword
from types import FunctionType

import pytest

import pullback as torch
from pullback.core.writer import named
from pullback.func import jvp
from pullback.library import _scoped_library
from pullback.library.call.fast_path import lines_of as call_lines_of
from pullback.operators import declare
from pullback.operators.declare import (
    OPERATORS,
    Array,
    Arrays,
    Dim,
    Dims,
    Namespace,
    unwritten,
)
from pullback.operators.running.on_arrays import on_arrays
from pullback.operators.writing import build, inplace, nodes, record
from pullback.transforms import dual

graph = torch.autograd.graph


def product(xp: Namespace, first: Array, second: Array, *, scale: float = 1) -> Array:
    return xp.multiply(first, second) * scale


def exponential(xp: Namespace, first: Array) -> Array:
    return xp.exp(first)


def total(xp: Namespace, first: Array, dims: Dims = None, keep: bool = False) -> Array:
    return xp.sum(first, axis=dims, keepdims=keep)


def turned(xp: Namespace, first: Array, a: Dim, b: Dim) -> Array:
    return xp.swapaxes(first, a, b)


def with_indices(xp: Namespace, first: Array, dim: Dim) -> tuple[Array, Array]:
    return xp.max(first, axis=dim), xp.argmax(first, axis=dim)


def joined(xp: Namespace, parts: Arrays, dim: Dim = 0) -> Array:
    return xp.concatenate(parts, axis=dim)


def moved(xp: Namespace, first: Array, second: Array | None = None) -> Array:
    return first + 0 if second is None else first + second


def _of_maximum(g_values, first, values, dim):
    shape = [1 if i == dim else n for i, n in enumerate(first.shape)]
    return g_values.reshape(shape) * (first == values.reshape(shape))


def _summed(g, first_shape, dims, keep):
    shape = [1 if dims is None or i in dims else n for i, n in enumerate(first_shape)]
    return (g if keep else g.reshape(shape)) + 0 * torch.ones(first_shape).numpy()


X = [[0.5, 1.5], [2.5, -1.0]]
Y = [[2.0, 3.0], [-1.0, 4.0]]
# Kind, forward, rules, what else is declared, positional arguments, options.
DECLARED = {
    "product": (
        "elementwise",
        product,
        {
            "first": lambda g, second, scale: g * second * scale,
            "second": lambda g, first, scale: g * first * scale,
        },
        {},
        (X, Y),
        {"scale": 2},
    ),
    "exponential": ("elementwise", exponential, {"first": lambda g, out: g * out}, {}, (X,), {}),
    "total": ("linear", total, {"first": _summed}, {}, (X,), {"dims": -1}),
    "turned": (
        "view",
        turned,
        {"first": lambda g, a, b: g.swapaxes(a, b)},
        {},
        (X,),
        {"a": 0, "b": -1},
    ),
    "with_indices": (
        "primitive",
        with_indices,
        {"first": _of_maximum},
        {"outputs": "values indices", "fixed": "indices"},
        (X,),
        {"dim": -1},
    ),
    "moved": (
        "multilinear",
        moved,
        {"first": lambda g: g, "second": lambda g: g},
        {"promote": "same"},
        (X, Y),
        {},
    ),
}


def renamed(function, names):
    """A function whose variables have other names."""
    code = function.__code__
    known = tuple(names.get(name, name) for name in code.co_varnames)
    made = FunctionType(
        code.replace(co_varnames=known), function.__globals__, "_renamed", function.__defaults__
    )
    made.__module__ = function.__module__
    made.__annotations__ = {names.get(n, n): one for n, one in function.__annotations__.items()}
    made.__kwdefaults__ = function.__kwdefaults__ and {
        names.get(name, name): value for name, value in function.__kwdefaults__.items()
    }
    return made


def declared(case, names):
    """The operator of a case with other names for its parameters."""
    kind, forward, rules, about, *_ = DECLARED[case]
    shapes = {f"{old}_shape": f"{new}_shape" for old, new in names.items()}
    rules = {names.get(name, name): renamed(rule, names | shapes) for name, rule in rules.items()}
    about = {**about, "name": "_renamed", "method": False, "has_out": False}
    made = declare._declare(kind, renamed(forward, names), rules, about)
    del OPERATORS["_renamed"]
    return made


def texts(op):
    """All that is written for an operator."""
    yield build.lines_of(op)
    yield inplace.inplace_lines_of(op)
    yield dual.lines_of(op)
    if build.recorder_of(op):
        yield record.recorder_lines(op)
    for name in ("_run", "_run_tensors"):
        yield nodes.NodeWriter(op, {}, on_arrays).lines(name)


def names_in(lines):
    tree = ast.parse(named(lines)[0])
    used = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    return used | {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}


# What rules understand by these names does not depend on the operator.
MEANINGS = {"g", "xp", "first_shape"}


def variants(case):
    """Other names for the parameters of a case, which together are all that its code has."""
    op = declared(case, {}).op
    own = [param.name for param in op.params]
    used = set().union(*map(names_in, texts(op)))
    found = sorted(used - MEANINGS - {*own, *op.outputs, *op.gradient_names})
    assert {"node", "mode", "r", "call", "type"} <= {*found}
    for start in range(0, len(found), len(own)):
        yield dict(zip(own, found[start : start + len(own)], strict=False))


def outcomes(function, case, names):
    """What comes of an operator in every form that is written for it."""
    op, (*_, values, options) = function.op, DECLARED[case]
    options = {names.get(name, name): value for name, value in options.items()}
    tensors = [torch.tensor(value, dtype=torch.float64, requires_grad=True) for value in values]
    by_name = dict(zip([param.name for param in op.inputs], tensors, strict=False))

    def first(*args, **kwargs):
        made = function(*args, **kwargs, **options)
        return made[0] if isinstance(made, tuple) else made

    def gradients(result):
        graded = torch.autograd.grad((result * result).sum(), tensors, create_graph=True)
        return [one.tolist() for one in (*graded, *torch.autograd.grad(graded[0].sum(), tensors))]

    yield first(*tensors).tolist()
    yield first(**by_name).tolist()
    with torch.no_grad():
        yield first(*tensors).tolist()
    plain = [one.detach() for one in tensors]
    yield first(*plain).tolist()
    yield torch.autograd.grad(first(*tensors).sum(), tensors[0])[0].tolist()
    if case != "total":  # whose rule is for arrays alone
        yield gradients(first(*tensors))
        with graph.saved_tensors_hooks(lambda t: t, lambda t: t):
            yield gradients(first(*tensors))
    if dual.has_form(op):
        yield [one.tolist() for one in jvp(first, tuple(plain), tuple(plain))]
    if case in ("product", "exponential"):
        changed = unwritten(op, "_renamed_", inplace=True)
        yield gradients(changed(tensors[0] * 1, *tensors[1:], **options))


@pytest.mark.parametrize("case", DECLARED)
def test_an_operator_does_the_same_whatever_its_parameters_are_called(case):
    expected = list(outcomes(declared(case, {}), case, {}))
    for names in variants(case):
        made = declared(case, names)
        assert list(outcomes(made, case, names)) == expected, names


def test_an_operator_over_a_sequence_too():
    about = {"name": "_renamed", "method": False, "has_out": False}
    rule = lambda g, parts_shape: [g[0:2], g[2:4]]  # noqa: E731 (as declarations have it)
    split = declare._declare("linear", joined, {"parts": rule}, dict(about))
    del OPERATORS["_renamed"]
    x = torch.tensor(X, requires_grad=True)
    for name in sorted(names_in(build.lines_of(split.op)) - {"parts", "xp"}):
        names = {"parts": name, "parts_shape": f"{name}_shape", "dim": f"_{name}"}
        rules = {name: renamed(rule, names)}
        made = declare._declare("linear", renamed(joined, names), rules, dict(about))
        del OPERATORS["_renamed"]
        assert made([x, x]).tolist() == [*X, *X], name
        (g,) = torch.autograd.grad(made([x, x]).sum(), x)
        assert g.tolist() == [[2, 2], [2, 2]], name


def test_a_users_operator_too():
    """Its keywords keep their names; none of them takes it off the fast path."""
    with _scoped_library("names_of_ours", "DEF") as library:
        library.define("first(Tensor x, *, float scale=1.0) -> Tensor")
        library.impl("first", lambda x, *, scale=1.0: x * scale, "CPU")
        overload = torch.ops.names_of_ours.first.default
        used = sorted(names_in(call_lines_of(overload._operator)) - {"x"})
        assert {"self", "mode", "bail_out", "kernel"} <= {*used}
        for number, name in enumerate(used):
            library.define(f"one{number}(Tensor x, *, float {name}=1.0) -> Tensor")
            library.impl(f"one{number}", lambda x, **given: x * next(iter(given.values())), "CPU")
            called = getattr(torch.ops.names_of_ours, f"one{number}")
            lines = call_lines_of(called.default._operator)
            assert len(lines) > 10, name  # a fast path
            x = torch.ones(2)
            assert called(x, **{name: 3.0}).tolist() == [3, 3], name
            assert called(x).tolist() == [1, 1], name


def test_a_name_that_python_cannot_write_takes_the_whole_way():
    assert keyword.iskeyword("lambda")
    with _scoped_library("names_of_python", "DEF") as library:
        library.define("scaled(Tensor x, *, float lambda=1.0) -> Tensor")
        library.impl("scaled", lambda x, **given: x * given["lambda"], "CPU")
        scaled = torch.ops.names_of_python.scaled
        assert scaled(torch.ones(2), **{"lambda": 3.0}).tolist() == [3, 3]


def test_a_guard_keeps_a_compositions_names():
    """`layer` and `plain` are names of the guard, too."""
    from pullback.operators.dispatch.guards import guard_of
    from pullback.operators.dispatch.layers import Layer

    def composed(layer, plain, asks, *, error=1, found=2, explain=3, REFUSALS=4, Tensor=5):  # noqa: N803
        return layer, plain, asks, error, found, explain, REFUSALS, Tensor

    copy = FunctionType(composed.__code__, composed.__globals__)
    copy.__kwdefaults__ = composed.__kwdefaults__
    guarded = FunctionType(guard_of(composed, Layer(copy)), composed.__globals__)
    guarded.__kwdefaults__ = composed.__kwdefaults__
    assert guarded("stands for layer", 8, 9, found=10) == ("stands for layer", 8, 9, 1, 10, 3, 4, 5)
    assert {guarded.__code__: 1}[guarded.__code__] == 1  # debuggers keep tables by code


def test_declarations_are_as_before():
    assert "_renamed" not in declare.OPERATORS
