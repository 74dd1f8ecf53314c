"""The written function equals the interpreted one, and is fast for a reason that can be read."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import pullback as torch
from pullback.operators import declare
from pullback.operators.declare import OPERATORS, Array, Op, primitive
from pullback.operators.dispatch.asking import WATCH
from pullback.operators.dispatch.layers import code_of
from pullback.operators.running import interpret
from pullback.operators.running.on_arrays import array_call, kernel, on_arrays
from pullback.operators.writing import build


def test_a_forward_that_is_one_array_call_is_bound_directly():
    assert array_call(OPERATORS["mul"]) == "multiply"
    assert array_call(OPERATORS["add"]) == "add"
    assert kernel(OPERATORS["mul"]) is np.multiply
    assert array_call(torch.sigmoid.op) is None


def test_references_taken_before_the_first_call_become_fast_too():
    program = """
import pullback as torch
function = torch.logaddexp2
before = function.__code__
function(torch.ones(1), torch.ones(1))
assert torch.logaddexp2 is function
assert function.__code__ is not before
print(function.__code__.co_filename)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout == "<pullback logaddexp2>\n", done.stderr


def test_rules_run_on_bare_arrays_without_tensors():
    rule = OPERATORS["mul"].rules["input"]
    assert type(on_arrays(rule)(np.ones(2), np.full(2, 3.0))) is np.ndarray


def test_built_and_interpreted_make_the_same_node():
    x = torch.rand(3, dtype=torch.float64, requires_grad=True)
    w = torch.rand(3, dtype=torch.float64, requires_grad=True)
    built = x * w
    slow = interpret.call(OPERATORS["mul"], (x, w), {})
    assert type(built.grad_fn) is type(slow.grad_fn)
    assert built.tolist() == slow.tolist()
    for one in (built, slow):
        (g,) = torch.autograd.grad(one.sum(), x)
        assert g.tolist() == w.tolist()


def test_source_is_readable_python():
    source = build.source_of(OPERATORS["exp"])
    compile(source, "exp", "exec")
    assert "node.s_out" in source


def test_an_unknown_name_in_a_rule_fails_at_declaration():
    def forward(xp, input: Array):
        return input

    forward.__annotations__ = {"input": "Array"}
    with pytest.raises(TypeError, match="asks for \\['nonsense'\\]"):
        Op("elementwise", forward, {"input": lambda g, nonsense: g}, {})


def test_numbers_keep_the_dtype_and_the_sign_of_zero():
    x = torch.ones(2)
    assert (x * 2.5).dtype is torch.float32
    assert (1 / (x * -0.0))[0].item() == -float("inf")
    assert (1 / (x * 0.0))[0].item() == float("inf")


def test_inplace_form_saves_the_old_value_only_where_a_rule_needs_it():
    x = torch.full((2,), 3.0, requires_grad=True)
    y = x * 1.0
    y.mul_(2.0)
    assert y.grad_fn._saved_self is None
    z = x * 1.0
    z.sin_()
    z.sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), np.cos(np.full(2, 3.0)), rtol=1e-6)


def test_overwritten_second_operand_is_found_out():
    x = torch.ones(2, requires_grad=True)
    y = x * 1.0
    y.mul_(y)
    with pytest.raises(RuntimeError, match="modified by an inplace"):
        y.sum().backward()


@pytest.mark.parametrize("name", ["values", "out", "input_v"])
def test_a_parameter_that_rules_or_nodes_would_take_for_something_else_is_refused(name):
    def forward(xp, input, renamed):
        return input

    forward.__code__ = forward.__code__.replace(co_varnames=("xp", "input", name))
    forward.__annotations__ = {"input": "Array", name: "Array"}
    with pytest.raises(TypeError, match=f"cannot be called '{name}', as"):
        Op("primitive", forward, {}, {"outputs": "values indices"})


def test_a_rule_that_is_taken_for_a_field_is_refused():
    def forward(xp, batch):
        return batch

    forward.__annotations__ = {"batch": "Array"}
    with pytest.raises(TypeError, match="a tensor that has a rule cannot be called 'batch'"):
        primitive(batch=lambda g: g)(forward)


def test_a_second_operator_of_one_name_is_refused():
    known = OPERATORS["mul"].forward

    def forward(xp, input):
        return input

    forward.__annotations__ = {"input": "Array"}
    with pytest.raises(TypeError, match=f"mul.* in {known.__module__}"):
        primitive(name="mul")(forward)
    assert OPERATORS["mul"].forward is known


MIXED = [torch.bool, torch.uint8, torch.int64, torch.float16, torch.float32, torch.float64]
NUMBERS = [2, -3, 2.5, 2**40, 2**70]


@pytest.mark.parametrize("name", ["add", "mul", "true_divide", "gt", "atan2", "sub"])
@pytest.mark.parametrize("dtype", MIXED, ids=str)
def test_operands_of_other_dtypes_meet_as_the_interpreter_lets_them(name, dtype):
    op = OPERATORS[name]
    x = torch.tensor([0, 1, 3], dtype=dtype)
    others = [torch.tensor([1, 0, 2], dtype=other) for other in MIXED]
    for other in [*others, *(o[0] for o in others), *NUMBERS]:
        built = outcome(op.function, x, other)
        interpreted = outcome(interpret.call, op, (x, other), {})
        assert built == interpreted, other


def outcome(function, *args):
    try:
        result = function(*args)
    except (RuntimeError, TypeError) as error:
        return type(error), str(error)
    return result.dtype, repr(result)


def test_whole_numbers_stay_on_the_fast_path_of_int64(monkeypatch):
    counts = torch.tensor([1, 2])
    assert (counts + 1).tolist() == [2, 3]
    monkeypatch.setattr(interpret, "call", None)  # not even looked at
    monkeypatch.setitem(torch.add.__globals__, "call", None)
    assert (counts + 2**62).tolist() == [1 + 2**62, 2 + 2**62]
    assert torch.add(counts, torch.tensor([0.5, 1.5])).tolist() == [1.5, 3.5]


CALLS = {
    "mul": lambda x: (x, x),
    "gt": lambda x: (x, x),
    "cummax": lambda x: (x, 0),
    "transpose": lambda x: (x, 0, 1),
    "unbind": lambda x: (x, 0),
    "cat": lambda x: ([x, x], 0),
}


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
@pytest.mark.parametrize("recorded", [True, False])
@pytest.mark.parametrize("name", CALLS)
def test_results_are_of_the_same_kind_in_every_mode(name, recorded, mode):
    assert getattr(torch, name)  # loads its family
    op = OPERATORS[name]
    x = torch.rand(2, 3, requires_grad=recorded)
    with mode():
        for source in (x, x[:, 1:], x * 2):
            args = CALLS[name](source)
            built, interpreted = op.function(*args), interpret.call(op, args, {})
            assert kinds(built) == kinds(interpreted)


def kinds(results):
    """What a program can tell of results by how they were made."""
    listed = results if isinstance(results, tuple) else (results,)
    return [
        (
            one.is_inference(),
            one.requires_grad,
            one._is_view(),
            one._is_view() and one._node.manner.creation,
            None if one.is_inference() else one._version,
        )
        for one in listed
    ]


@pytest.mark.parametrize("name", ["sum", "nansum", "cumsum", "cumprod", "prod"])
def test_whole_numbers_made_of_others_have_no_history(name):
    x = torch.tensor([1.0, 2.0], requires_grad=True)
    made = getattr(torch, name)(x, 0, dtype=torch.int64)
    assert made.grad_fn is None
    assert not made.requires_grad
    assert getattr(torch, name)(x, 0, dtype=torch.float64).requires_grad


def test_an_operator_shows_its_signature_before_its_first_call():
    program = """
import pullback as torch
from inspect import signature
print(signature(torch.mul), signature(torch.amax), signature(torch.Tensor.mul_))
torch.mul(torch.ones(1), 2), torch.ones(1).mul_(2)
print(signature(torch.mul), signature(torch.Tensor.mul_))
"""
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    before, after = ran.stdout.splitlines()
    assert before == (
        "(input, other, *, out=None) (input, dim=None, keepdim=False, *, out=None) (input, other)"
    )
    assert after == "(input, other, *, out=None) (input, other)"


_KINDS = ["float16", "float32", "float64", "complex64", "complex128", "int64", "bool"]


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div", "pow", "maximum", "atan2", "hypot"])
@pytest.mark.parametrize("first", _KINDS)
@pytest.mark.parametrize("second", [*_KINDS, 2, 2.5])
def test_a_node_waits_for_gradients_of_the_dtype_that_its_result_has(name, first, second):
    def operand(kind):
        if not isinstance(kind, str):
            return kind
        made = torch.ones(2, dtype=getattr(torch, kind))
        return made.requires_grad_() if made.dtype.is_differentiable else made

    try:
        made = getattr(torch, name)(operand(first), operand(second))
    except (TypeError, RuntimeError):
        return  # no operands of this operator
    if made.grad_fn is not None:
        assert made.grad_fn._g_dtype is made._array.dtype


_LIMIT = 3


def test_the_usual_form_can_name_what_its_module_can():
    @primitive(inline="a0 + _LIMIT if a0.size < _LIMIT else forward(numpy, a0)", has_out=False)
    def _moved_in_this_test(xp, input: Array):
        return input - 1

    try:
        assert _moved_in_this_test(torch.zeros(2)).tolist() == [3.0, 3.0]
        assert _moved_in_this_test(torch.zeros(3)).tolist() == [-1.0, -1.0, -1.0]
    finally:
        del OPERATORS["_moved_in_this_test"]


@pytest.mark.parametrize("watched", [False, True])
def test_functions_that_are_written_anew_are_the_same_functions(watched):
    x = torch.rand(3, dtype=torch.float64, requires_grad=True)

    def outcomes():
        yield (x * x).grad_fn.name()
        yield torch.mul(x, 2).tolist()
        yield torch.mul(x.detach(), 2, out=torch.zeros(3, dtype=torch.float64)).tolist()
        yield (x * 1).mul_(x).tolist()
        yield x.view(3, 1).sum(axis=0).tolist()
        yield torch.func.vmap(lambda one: one * 2)(x).tolist()
        yield torch.func.jvp(lambda one: one * one, (x,), (x,))[1].tolist()
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
            yield (x * x).exp().tolist()

    function, method = torch.mul, torch.Tensor.__mul__
    expected = list(outcomes())
    if watched:  # by a mode or a class of anybody in the process
        WATCH.begin(outcomes)
    try:
        build.rewrite()
        assert code_of(function) is declare.stub.__code__
        assert list(outcomes()) == expected
        assert (torch.mul, torch.Tensor.__mul__) == (function, method)
        assert code_of(function) is not declare.stub.__code__
    finally:
        WATCH.end(outcomes)
