"""Declaring a Function, and how apply treats its arguments (F-1 to F-18)."""

import threading

import numpy as np
import pytest

import pullback as torch
from pullback.autograd import function
from pullback.autograd.function import BackwardCFunction, Function, FunctionCtx
from pullback.autograd.graph import Node
from tests.leaves import double_leaf as leaf


class Double(Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2


class SplitDouble(Function):
    @staticmethod
    def forward(x, factor=2):
        return x * factor

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.factor = inputs[1]

    @staticmethod
    def backward(ctx, g):
        return g * ctx.factor, None


def test_module_exports_torchs_names():
    """F-1."""
    names = (
        "FunctionCtx BackwardCFunction FunctionMeta Function once_differentiable InplaceFunction"
    )
    assert all(hasattr(function, name) for name in [*names.split(), "NestedIOFunction"])
    x = leaf(1.0, 2.0)
    Double.apply(x).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_style_is_split_when_setup_context_is_overridden_by_a_parent_too():
    """F-2."""

    class Child(SplitDouble):
        pass

    x = leaf(3.0)
    Child.apply(x).sum().backward()
    assert x.grad.tolist() == [2.0]


def test_every_class_statement_makes_a_node_class_with_its_own_id():
    """F-3."""

    def declare():
        class Twin(Function):
            pass

        return Twin

    first, second = declare(), declare()
    node_class = first._backward_cls
    assert node_class.__name__ == "TwinBackward"
    assert node_class.__module__ == "pullback.autograd.function"
    assert issubclass(node_class, BackwardCFunction)
    assert node_class._forward_cls is first
    assert node_class._autograd_function_id != second._backward_cls._autograd_function_id


def test_ids_are_unique_across_threads():
    """F-3, pitfall 13."""
    made = []

    def declare():
        made.extend(type(Function)("Many", (Function,), {}) for _ in range(200))

    threads = [threading.Thread(target=declare) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len({cls._backward_cls._autograd_function_id for cls in made}) == 800


def test_ctx_is_the_node():
    """F-4."""
    seen = []

    class Sees(Function):
        @staticmethod
        def forward(ctx, x):
            seen.append(ctx)
            ctx.note = "kept"
            return x * 1

        @staticmethod
        def backward(ctx, g):
            seen.append(ctx)
            return g

    x = leaf(1.0)
    out = Sees.apply(x)
    out.sum().backward()
    assert seen[0] is seen[1] is out.grad_fn
    assert out.grad_fn.note == "kept"
    assert isinstance(seen[0], Node)
    assert isinstance(seen[0], FunctionCtx)
    assert not isinstance(seen[0], Sees)


def test_subclass_overrides_backward_only():
    """F-5."""

    class Child(Double):
        @staticmethod
        def backward(ctx, g):
            return g * 7

    x = leaf(1.0)
    out = Child.apply(x)
    out.sum().backward()
    assert out.grad_fn.name() == "ChildBackward"
    assert x.grad.tolist() == [7.0]


def test_classmethods_and_plain_functions_serve_as_methods():
    """F-5."""

    class ByClass(Function):
        @classmethod
        def forward(cls, ctx, x):
            ctx.cls = cls
            return x * 2

        @classmethod
        def backward(cls, ctx, g):
            assert ctx.cls is cls
            return g * 2

    class Plain(Function):
        def forward(ctx, x):  # noqa: N805 (a static method without saying so)
            return x * 2

        def backward(ctx, g):  # noqa: N805 (a static method without saying so)
            return g * 2

    for cls in (ByClass, Plain):
        x = leaf(1.0)
        cls.apply(x).sum().backward()
        assert x.grad.tolist() == [2.0]


def test_vjp_is_another_name_of_backward():
    """F-6."""

    class Named(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def vjp(ctx, g):
            return g * 2

    class Both(Named):
        @staticmethod
        def backward(ctx, g):
            return g

    x = leaf(1.0)
    Named.apply(x).sum().backward()
    assert x.grad.tolist() == [2.0]
    out = Both.apply(x)
    with pytest.raises(RuntimeError, match="Both defines both backward and vjp"):
        out.sum().backward()


def test_missing_methods_raise_when_they_are_needed():
    """F-6."""

    class NoBackward(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

    class Nothing(Function):
        pass

    out = NoBackward.apply(leaf(1.0))
    with pytest.raises(NotImplementedError, match="NoBackward has no backward"):
        out.sum().backward()
    with pytest.raises(NotImplementedError, match="Nothing has no forward"):
        Nothing.apply(leaf(1.0))


def test_class_flags_and_raising_defaults():
    """F-7."""
    assert Function.generate_vmap_rule is False
    assert Function.clear_saved_tensors_on_access is False
    assert Function.boxed_grads_call is False
    ctx = Double.apply(leaf(1.0)).grad_fn
    for method, args in (
        ("jvp", (ctx,)),
        ("vmap", (None, None)),
        ("setup_context", (ctx, (), None)),
    ):
        with pytest.raises(NotImplementedError):
            getattr(Function, method)(*args)


def test_methods_called_directly_are_plain_functions():
    """F-8."""
    x = leaf(1.0)
    out = Double.forward(None, x)
    assert out.grad_fn.name() == "MulBackward0"
    assert Double.backward(None, torch.ones(1)).tolist() == [2.0]


def test_only_tensors_given_directly_are_tracked():
    """F-9, F-11."""

    class Takes(Function):
        @staticmethod
        def forward(ctx, x, listed, named, other, again):
            assert listed[0] is inside
            return x * listed[0] * named["w"]

        @staticmethod
        def backward(ctx, g):
            return g, None, None, None, None

    x, inside = leaf(1.0), leaf(2.0)
    out = Takes.apply(x, [inside], {"w": inside}, torch.ones(1), x)
    edges = out.grad_fn.next_functions
    assert len(edges) == 3
    assert edges[0][0] is edges[2][0]
    assert edges[0][0].variable is x
    assert edges[1] == (None, 0)
    out.sum().backward()
    assert inside.grad is None


def test_forward_gets_the_same_objects_with_grad_mode_off():
    """F-10."""
    given = leaf(1.0)
    thing = object()

    class Looks(Function):
        @staticmethod
        def forward(ctx, x, other):
            assert x is given
            assert other is thing
            assert x.requires_grad
            assert not torch.is_grad_enabled()
            assert isinstance(x.numpy(), np.ndarray)
            return x * 1

    Looks.apply(given, thing)
    assert torch.is_grad_enabled()


def test_keywords_are_tracked_like_positions():
    """F-12; the differential tests go through all ways to bind."""

    class Takes(Function):
        @staticmethod
        def forward(ctx, x, w, scale=1):
            return x * w * scale

        @staticmethod
        def backward(ctx, g):
            assert len(ctx.needs_input_grad) == 3
            return g, g * 10, None

    x, w = leaf(1.0), leaf(2.0)
    Takes.apply(x, scale=3, w=w).sum().backward()
    assert w.grad.tolist() == [10.0]
    with pytest.raises(TypeError, match=r"'w' .* is left out"):
        Takes.apply(x, scale=3)
    with pytest.raises(TypeError, match="no positional parameter 'nope'"):
        Takes.apply(x, w, nope=3)
    with pytest.raises(TypeError, match="two values for argument 'x'"):
        Takes.apply(x, x=w)


def test_split_style_fills_in_defaults():
    """F-13, F-14."""
    seen = []

    class Takes(Function):
        @staticmethod
        def forward(x, a=2, b=3):
            return (x * a * b,)

        @staticmethod
        def setup_context(ctx, inputs, output):
            assert not torch.is_grad_enabled()
            seen.append((inputs[1:], output))
            return "ignored"

        @staticmethod
        def backward(ctx, g):
            return g, None, None

    x = leaf(1.0)
    (out,) = Takes.apply(x)
    out.sum().backward()
    (inputs, output) = seen[0]
    assert inputs == (2, 3)
    assert output == (out,)
    assert output[0] is out


@pytest.mark.parametrize("where", ["forward", "setup_context"])
def test_exceptions_leave_no_trace(where):
    """F-15."""

    class Fails(Function):
        @staticmethod
        def forward(x):
            if where == "forward":
                raise KeyError("mine")
            return x * 1

        @staticmethod
        def setup_context(ctx, inputs, output):
            raise KeyError("mine")

    x = leaf(1.0) * 1
    node = x.grad_fn
    with pytest.raises(KeyError, match="mine"):
        Fails.apply(x)
    assert x.grad_fn is node
    assert torch.is_grad_enabled()


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode, torch.enable_grad])
def test_ctx_works_when_nothing_is_recorded(mode):
    """F-16, F-17, F-108."""
    seen = []

    class Looks(Function):
        @staticmethod
        def forward(ctx, x, n):
            ctx.save_for_backward(x)
            ctx.mark_non_differentiable()
            ctx.set_materialize_grads(False)
            ctx.anything = 1
            seen.append(ctx)
            return x * 1

    tracked = mode is not torch.enable_grad
    x = torch.ones(2, requires_grad=tracked)
    with mode():
        out = Looks.apply(x, 3)
    assert not out.requires_grad
    (ctx,) = seen
    assert ctx.saved_tensors == ()
    assert ctx.next_functions == ()
    assert ctx.needs_input_grad == (tracked, False)


def test_needs_input_grad_is_not_narrowed_and_may_be_overwritten():
    """F-17."""
    seen = []

    class Looks(Function):
        @staticmethod
        def forward(ctx, x, w, n, i):
            assert ctx.needs_input_grad == (True, True, False, False)
            return x * w

        @staticmethod
        def backward(ctx, g):
            seen.append(ctx.needs_input_grad)
            ctx.needs_input_grad = "mine"
            return g, g, None, None

    x, w = leaf(1.0), leaf(2.0)
    out = Looks.apply(x, w, 3, torch.ones(1, dtype=torch.int64))
    torch.autograd.grad(out.sum(), x)
    assert seen == [(True, True, False, False)]
    assert out.grad_fn.needs_input_grad == "mine"


def test_apply_works_through_an_instance_and_without_arguments():
    """F-18."""

    class Makes(Function):
        @staticmethod
        def forward(ctx):
            return torch.ones(2)

    assert Makes.apply().tolist() == [1.0, 1.0]
    with pytest.warns(DeprecationWarning, match="Makes should not be instantiated"):
        instance = Makes()
    assert instance.apply().tolist() == [1.0, 1.0]


def test_forward_runs_with_both_modes_of_differentiation_off():
    from pullback.autograd import forward_ad

    seen = []

    class Look(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            seen.append((forward_ad._is_fwd_grad_enabled(), torch.is_grad_enabled()))
            with torch.enable_grad():
                inside = x.detach().requires_grad_() * 2
            assert inside.requires_grad
            part = x[:1]
            part.add_(0)
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    x = torch.ones(2, requires_grad=True)
    Look.apply(x.detach())
    with torch.no_grad():
        assert forward_ad._is_fwd_grad_enabled()
        Look.apply(x.detach())
        assert forward_ad._is_fwd_grad_enabled()
    assert seen == [(False, False)] * 2
    assert forward_ad._is_fwd_grad_enabled()
