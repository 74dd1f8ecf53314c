"""The older interface for custom operators (C-73 to C-80)."""

import gc
import weakref

import numpy as np
import pytest
from pullback._custom_op.impl import CustomOp, custom_op

import pullback as torch
from pullback import Tensor, _custom_ops
from tests.leaves import leaf

pytestmark = pytest.mark.filterwarnings("ignore:This is the older interface:DeprecationWarning")


@pytest.fixture
def short(namespace):
    """A name for the function, and its qualified form."""
    return namespace, f"{namespace}::op"


def defined(qualname, schema="(Tensor x) -> Tensor", kernel=None):
    """An operator by the functions, with a kernel."""
    _custom_ops.custom_op(qualname, schema)
    _custom_ops.impl(qualname, func=kernel or (lambda x: torch.from_numpy(x.numpy() * 2)))
    space, _, name = qualname.partition("::")
    return getattr(getattr(torch.ops, space), name)


def formula(qualname, backward, save=lambda inputs, output: None, differentiability=None):
    _custom_ops.impl_save_for_backward(qualname, func=save)
    _custom_ops.impl_backward(qualname, differentiability, func=backward)


# Defining ----------------------------------------------------------------------------------------


def test_functions_work_as_decorators_and_directly(short):
    """C-73."""
    _, qualname = short

    @_custom_ops.custom_op(qualname)
    def op(x: Tensor, n: int) -> Tensor:
        raise NotImplementedError

    @_custom_ops.impl(qualname, device_types="cpu")
    def _(x, n):
        return torch.from_numpy(x.numpy() * n)

    @_custom_ops.impl_abstract(qualname)
    def _(x, n):
        return torch.empty_like(x)

    @_custom_ops.impl_save_for_backward(qualname)
    def _(inputs, output):
        return inputs.n

    @_custom_ops.impl_backward(qualname)
    def _(ctx, saved, g):
        return {"x": g * saved}

    x = leaf()
    out = getattr(torch.ops, short[0]).op(x, 3)
    out.sum().backward()
    assert x.grad.tolist() == [3, 3]
    assert _custom_ops.get_ctx() is None
    _custom_ops._destroy(qualname)
    assert not hasattr(getattr(torch.ops, short[0]), "op")


def test_object_has_the_same_parts_as_methods(short):
    """C-73."""

    @custom_op(short[1])
    def op(x: Tensor) -> Tensor: ...

    assert isinstance(op, CustomOp)
    assert repr(op) == f'<CustomOp(op="{short[1]}")>'
    with pytest.raises(NotImplementedError, match="'cpu'"):
        op(torch.ones(1))
    op.impl("cpu")(lambda x: x * 2)
    op.impl_abstract()(lambda x: x)
    op.impl_save_for_backward()(lambda inputs, output: None)
    op.impl_backward()(lambda ctx, saved, g: {"x": g * 2})
    x = leaf()
    op(x).sum().backward()
    assert x.grad.tolist() == [2, 2]
    with pytest.raises(RuntimeError, match="not made by hand"):
        CustomOp(op._operator)


def test_factory_makes_tensors_from_nothing(short):
    """C-73."""

    @custom_op(short[1])
    def op(n: int) -> Tensor: ...

    op.impl_factory()(lambda n: torch.ones(n))
    assert op(3).tolist() == [1, 1, 1]


def test_defining_is_deprecated(short):
    """C-73."""
    with pytest.warns(DeprecationWarning, match="older interface"):
        _custom_ops.custom_op(short[1], "(Tensor x) -> Tensor")
    with pytest.warns(DeprecationWarning, match="older interface"):
        custom_op(f"{short[1]}2")


def op(x: Tensor) -> Tensor: ...
def other(x: Tensor) -> Tensor: ...


@pytest.mark.parametrize("name", ["op", "a::b::op", "ns::op.overload", "a.b::op"])
def test_name_must_be_simple_and_qualified(name):
    """C-74."""
    with pytest.raises(ValueError, match=r"'ns::op'|overloads|no '.'"):
        _custom_ops.custom_op(name, op)
    with pytest.raises(ValueError, match=r"'ns::op'|overloads|no '.'"):
        custom_op(name)(op)


@pytest.mark.parametrize("space", ["prim", "prims", "aten", "at", "torch", "pytorch", "pullback"])
def test_reserved_namespaces_are_refused(space):
    """C-74."""
    with pytest.raises(ValueError, match="reserved"):
        _custom_ops.custom_op(f"{space}::op", op)


def test_definition_must_be_a_function_of_the_operators_name(short):
    """C-74."""
    with pytest.raises(ValueError, match="plain function"):
        _custom_ops.custom_op(short[1])(3)
    with pytest.raises(ValueError, match="'other'"):
        _custom_ops.custom_op(short[1], other)


@pytest.mark.parametrize(
    "schema",
    ["(Tensor(a!) x) -> Tensor", "(Tensor(a) x) -> Tensor(a)", "(Tensor x) -> ()",
     "(Tensor self) -> Tensor"],
)  # fmt: skip
def test_only_functional_schemas_without_self(short, schema):
    """C-74."""
    with pytest.raises(ValueError, match=r"functional|'self'"):
        _custom_ops.custom_op(short[1], schema)


def test_manual_schema_goes_with_a_bare_function(short):
    """C-74."""
    schema = "(Tensor x, int n) -> Tensor"

    def good(x, n): ...
    def hinted(x: Tensor, n): ...
    def default(x, n=3): ...
    def named(x, m): ...

    for function, says in ((hinted, "no annotations"), (default, "no defaults"), (named, "'m'")):
        function.__name__ = "op"
        with pytest.raises(ValueError, match=says):
            custom_op(short[1], manual_schema=schema)(function)
    good.__name__ = "op"
    made = custom_op(short[1], manual_schema=schema)(good)
    made.impl("cpu")(lambda x, n: x * n)
    assert made(torch.ones(1), 4).item() == 4


def test_only_two_types_of_devices(short):
    """C-74."""
    _custom_ops.custom_op(short[1], "(Tensor x) -> Tensor")
    with pytest.raises(ValueError, match="cpu, cuda"):
        _custom_ops.impl(short[1], device_types="xpu", func=lambda x: x)


def test_second_registration_gives_the_place_of_the_first(short):
    """C-75."""
    _, name = short
    defined(name)
    _custom_ops.impl_abstract(name, func=lambda x: x)
    formula(name, lambda ctx, saved, g: {"x": g})
    for again, kind in (
        (lambda: _custom_ops.impl(name, func=lambda x: x), "cpu kernel"),
        (lambda: _custom_ops.impl_abstract(name, func=lambda x: x), "abstract"),
        (lambda: _custom_ops.impl_save_for_backward(name, func=print), "save_for_backward"),
        (lambda: _custom_ops.impl_backward(name, func=print), "backward"),
    ):
        with pytest.raises(RuntimeError, match=rf"{name}.*{kind}.*test_formulas.py:\d+"):
            again()


# Formulas ----------------------------------------------------------------------------------------


def test_call_itself_refuses_autograd_without_a_formula(short):
    """C-76."""
    op = defined(short[1], "(Tensor[] xs) -> Tensor", lambda xs: xs[0] * 2)
    with pytest.raises(RuntimeError, match="not implemented"):
        op([torch.ones(1), leaf()])
    with torch.no_grad():
        assert op([leaf()]).tolist() == [2, 4]
    assert op([torch.ones(1)]).item() == 2


def test_saved_tree_comes_back_as_it_was(short):
    """C-77."""
    seen = []

    def save(inputs, output):
        seen.append((type(inputs).__name__, inputs._fields, output.tolist()))
        return {"x": inputs.x, "rest": [inputs.n, (output, None)], "text": "a"}

    def backward(ctx, saved, g):
        assert list(saved) == ["x", "rest", "text"]
        n, (output, nothing) = saved["rest"]
        assert nothing is None
        assert saved["text"] == "a"
        assert output.tolist() == [3, 6]
        return {"x": g * n}

    op = defined(short[1], "(Tensor x, int n) -> Tensor", lambda x, n: x * n)
    formula(short[1], backward, save)
    x = leaf()
    out = op(x, 3)
    assert out.grad_fn.name() == "op_customopBackward"
    out.sum().backward()
    assert x.grad.tolist() == [3, 3]
    assert seen == [("op_args", ("x", "n"), [3, 6])]


def test_saved_tensors_are_checked_and_freed(short):
    """C-77."""
    op = defined(short[1])
    formula(short[1], lambda ctx, saved, g: {"x": g * saved}, lambda inputs, output: inputs.x)
    x = leaf()
    out = op(x).sum()
    out.backward()
    with pytest.raises(RuntimeError, match="retain_graph"):
        out.backward()
    out = op(x).sum()
    with torch.no_grad():
        x.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace"):
        out.backward()


def test_saved_output_makes_no_cycle(short):
    """C-77 and pitfall 11."""
    op = defined(short[1])
    formula(short[1], lambda ctx, saved, g: {"x": g}, lambda inputs, output: [output])
    gc.disable()
    try:
        out = op(leaf())
        node = weakref.ref(out.grad_fn)
        del out
        assert node() is None
    finally:
        gc.enable()


@pytest.mark.parametrize("half", ["save_for_backward", "backward"])
def test_half_a_formula_is_told_with_its_place(short, half):
    """C-77."""
    op = defined(short[1])
    getattr(_custom_ops, f"impl_{half}")(short[1], func=lambda *args: None)
    with pytest.raises(RuntimeError, match=rf"{half} function.*test_formulas.py:\d+.*other half"):
        op(leaf())


def test_backward_gets_a_bare_ctx_and_one_gradient_for_each_output(short):
    """C-78."""
    seen = []

    def backward(ctx, saved, g, gs, n):
        seen.append((type(ctx), g.tolist(), [one.tolist() for one in gs], n))
        return {"x": g + gs[0]}

    op = defined(
        short[1],
        "(Tensor x) -> (Tensor, Tensor[], int)",
        lambda x: (x * 1, [x * 2, x * 3], 5),
    )
    formula(short[1], backward)
    a, (b, c), n = op(leaf())
    assert n == 5
    b.sum().backward()
    assert seen == [(object, [0, 0], [[1, 1], [0, 0]], None)]
    assert c.requires_grad
    assert a.requires_grad


def test_lists_and_optional_tensors_get_their_gradients(short):
    """C-78, C-79."""
    op = defined(
        short[1],
        "(Tensor[] xs, Tensor? y, Tensor? z=None, float[] k=[1.0]) -> Tensor",
        lambda xs, y, z, k: torch.from_numpy(np.asarray(xs[0].numpy() + xs[1].numpy() + y.numpy())),
    )
    formula(short[1], lambda ctx, saved, g: {"xs": (g, None), "y": 2 * g, "z": None})
    a, b, y = leaf(), leaf(), leaf()
    op([a, b], y).sum().backward()
    assert (a.grad.tolist(), b.grad, y.grad.tolist()) == ([1, 1], None, [2, 2])


def test_keyword_only_arguments_are_refused_at_registration(short):
    """C-78."""
    defined(short[1], "(Tensor x, *, int n) -> Tensor", lambda x, n: x * n)
    with pytest.raises(RuntimeError, match="keyword-only"):
        formula(short[1], print)


def test_save_runs_even_if_nothing_requires_grad(short):
    """C-78."""
    seen = []
    op = defined(short[1])
    formula(short[1], print, lambda inputs, output: seen.append(1))
    assert not op(torch.ones(1)).requires_grad
    assert seen == [1]


RETURNED = {
    "no dict": (lambda g: g, "must return a dict.*a Tensor"),
    "missing": (lambda g: {"x": g}, r"keys \['x', 'xs', 'y'\].*are \['x'\]"),
    "extra": (lambda g: {"x": g, "xs": [g, g], "y": None, "n": g}, r"'n'"),
    "no list": (lambda g: {"x": g, "xs": g, "y": None}, "'xs', which is a list"),
    "length": (lambda g: {"x": g, "xs": [g], "y": None}, "1 gradients for 'xs'.*2 tensors"),
    "element": (lambda g: {"x": g, "xs": [g, 3], "y": None}, "int at index 1.*'xs'"),
    "type": (lambda g: {"x": 3.0, "xs": [g, g], "y": None}, "float as the gradient of 'x'"),
    "none": (lambda g: {"x": g, "xs": [g, g], "y": g}, "'y', but the argument was None"),
}


@pytest.mark.parametrize("what", RETURNED)
def test_gradients_are_a_dict_of_the_tensor_arguments(short, what):
    """C-79 and pitfall 4."""
    returned, says = RETURNED[what]
    op = defined(
        short[1], "(Tensor x, Tensor[] xs, Tensor? y, int n) -> Tensor", lambda x, *rest: x * 1
    )
    formula(short[1], lambda ctx, saved, g: returned(g))
    with pytest.raises(RuntimeError, match=says) as caught:
        op(leaf(), [leaf(), leaf()], None, 3).sum().backward()
    assert short[1] in str(caught.value)
    assert "test_formulas.py:" in str(caught.value)


@pytest.mark.parametrize("given", [(True, False), [True], [True, 1], [True, "a"], True])
def test_differentiability_is_a_list_of_bools(short, given):
    """C-80."""
    defined(short[1], "(Tensor x) -> (Tensor, Tensor[])", lambda x: (x * 1, [x * 2]))
    with pytest.raises(RuntimeError, match="list of 2 bools"):
        _custom_ops.impl_backward(short[1], given, func=print)


def test_output_that_is_said_not_to_be_differentiable_is_not(short):
    """C-80."""
    op = defined(short[1], "(Tensor x) -> (Tensor, Tensor[])", lambda x: (x * 1, [x * 2, x * 3]))
    formula(short[1], lambda ctx, saved, g, gs: {"x": g}, differentiability=[True, False])
    a, (b, c) = op(leaf())
    assert a.requires_grad
    assert not b.requires_grad
    assert not c.requires_grad


def test_number_cannot_be_said_to_be_differentiable(short):
    """C-80."""
    op = defined(short[1], "(Tensor x) -> (Tensor, int)", lambda x: (x * 1, 3))
    formula(short[1], print, differentiability=[True, True])
    with pytest.raises(RuntimeError, match=r"output 1.*int"):
        op(leaf())


@pytest.mark.parametrize("kind", ["str", "Tensor?", "Scalar"])
def test_other_returns_have_no_formula(short, kind):
    """C-80."""
    defined(short[1], f"(Tensor x) -> {kind}", lambda x: None)
    with pytest.raises(RuntimeError, match=r"cannot have a backward formula.*\(Tensor x\)"):
        formula(short[1], print)
