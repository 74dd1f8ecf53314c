"""The node of a Function, its hooks, the modes it runs in, and old ways to use one.

F-89 to F-95, F-108 to F-111, F-121 to F-123.
"""

import copy
import gc
import pickle
import weakref
from collections import namedtuple

import pytest

import pullback as torch
from pullback.autograd import function
from pullback.autograd.function import Function
from pullback.autograd.graph import get_gradient_edge
from tests.leaves import double_leaf as leaf


class Two(Function):
    """(x * k, 7, w * 1)."""

    @staticmethod
    def forward(ctx, x, k, w):
        ctx.k = k
        ctx.save_for_backward(x)
        return x * k, 7, w * 1

    @staticmethod
    def backward(ctx, g, _, h):
        return g * ctx.k, None, h


def test_surface_of_the_node():
    """F-89, F-95."""
    out, _, _ = Two.apply(leaf(1.0, 2.0), 3, leaf(4.0))
    node = out.grad_fn
    assert node.name() == "TwoBackward"
    assert "pullback.autograd.function.TwoBackward object at" in repr(node)
    assert [tuple(entry.shape) for entry in node._input_metadata] == [(2,), (), (1,)]
    assert node._input_metadata[0].dtype == torch.float64
    assert node._forward_cls is Two
    assert node.origin.file == __file__
    node._set_sequence_nr(5)
    assert node._sequence_nr() == 5
    node.metadata["note"] = 1
    assert node.metadata == {"note": 1}


def test_sequence_number_is_given_at_apply():
    """F-95."""
    numbers = []

    class Looks(Function):
        @staticmethod
        def forward(ctx, x):
            numbers.append(ctx._sequence_nr())
            return x * 1

    x = leaf(1.0)
    before = (x * 1).grad_fn._sequence_nr()
    out = Looks.apply(x)
    after = (x * 1).grad_fn._sequence_nr()
    assert before < numbers[0] == out.grad_fn._sequence_nr() < after


def test_prehooks_come_before_materialisation_and_posthooks_after_validation():
    """F-90."""
    seen = []
    x, w = leaf(1.0), leaf(2.0)
    out, _, _ = Two.apply(x, 3, w)
    node = out.grad_fn
    node.register_prehook(lambda gs: seen.append(gs))
    node.register_hook(lambda gi, go: seen.append((gi, go)))
    out.sum().backward()
    before, (gi, go) = seen
    assert [g is None for g in before] == [False, True, True]
    assert [g is None for g in go] == [False, True, True]
    assert [g.tolist() for g in gi] == [[3.0], [0.0]]


def bad_hooks():
    yield "not a tuple", lambda gs, *_: [*gs], TypeError
    yield "wrong length", lambda gs, *_: gs[:1], RuntimeError
    yield "other dtype", lambda gs, *_: (gs[0].float(), *gs[1:]), RuntimeError
    yield "other shape", lambda gs, *_: (gs[0].sum(), *gs[1:]), RuntimeError


@pytest.mark.parametrize("kind", ["register_hook", "register_prehook"])
@pytest.mark.parametrize(("name", "hook", "error"), list(bad_hooks()))
def test_hook_results_are_checked(kind, name, hook, error):
    """F-91."""

    def the_hook(*args):
        return hook(*args)

    out, _, _ = Two.apply(leaf(1.0, 2.0), 3, leaf(2.0))
    handle = getattr(out.grad_fn, kind)(the_hook)
    with pytest.raises(error, match="the_hook"):
        out.sum().backward(retain_graph=True)
    handle.remove()
    out.sum().backward()


def test_hooks_cannot_replace_none_but_may_put_it():
    """F-91."""
    x, w = leaf(1.0), leaf(2.0)
    out, _, _ = Two.apply(x, 3, w)
    handle = out.grad_fn.register_prehook(lambda gs: (gs[0], gs[0], None))
    with pytest.raises(RuntimeError, match="None"):
        out.sum().backward(retain_graph=True)
    handle.remove()
    out.grad_fn.register_prehook(lambda gs: (None, None, None))
    out.sum().backward()
    assert x.grad.tolist() == [0.0]


def test_custom_nodes_take_attributes_and_are_not_callable():
    """F-92."""
    out, _, _ = Two.apply(leaf(1.0), 3, leaf(2.0))
    node = out.grad_fn
    node.anything = [1]
    assert node.anything == [1]
    with pytest.raises(TypeError, match="not callable"):
        node(torch.ones(1))
    node.register_prehook(lambda gs: pytest.fail("no hooks"))
    g, nothing, h = node.apply(torch.ones(1), None, None)
    assert (g.tolist(), nothing, h) == ([3.0], None, None)


def test_attributes_never_disturb_the_engine():
    """Pitfall 1: users call their attributes as they like."""
    names = "name shape dtype sizes edges seq cold code op output inner special prefix origin run"

    class Names(Function):
        @staticmethod
        def forward(ctx, x):
            for name in names.split():
                setattr(ctx, name, name)
            return x * 2, x * 3

        @staticmethod
        def backward(ctx, g, h):
            assert all(getattr(ctx, name) == name for name in names.split())
            if fails:
                raise ValueError("user")
            return 2 * g + 3 * h

    fails = False
    x = leaf(1.0)
    a, b = Names.apply(x)
    (a * b).sum().backward()
    assert x.grad.tolist() == [12.0]
    fails = True
    a, b = Names.apply(x)
    with pytest.raises(ValueError, match="user") as caught:
        a.sum().backward()
    assert "NamesBackward, recorded at test_node.py" in caught.value.__notes__[0]


def test_nodes_are_not_copied():
    """F-93."""
    node = Two.apply(leaf(1.0), 3, leaf(2.0))[0].grad_fn
    for attempt in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="TwoBackward"):
            attempt(node)


def test_holding_the_node_holds_what_it_needs():
    """F-93."""
    x = leaf(1.0)
    out, _, _ = Two.apply(x * 1, 3, leaf(2.0))
    node, alive = out.grad_fn, weakref.ref(out)
    del out
    gc.collect()
    assert alive() is None
    assert node.next_functions[0][0].name() == "MulBackward0"
    assert node.saved_tensors[0].tolist() == [1.0]


def test_results_are_like_any_other_tensor():
    """F-94."""
    log = []
    x = leaf(1.0)
    out, _, _ = Two.apply(x, 3, leaf(2.0))
    out.register_hook(lambda g: log.append(g.tolist()))
    out.retain_grad()
    edge = get_gradient_edge(out)
    assert (edge.node, edge.output_nr) == (out.grad_fn, 0)
    out2 = out * 5
    (g,) = torch.autograd.grad(out2.sum(), edge, retain_graph=True)
    assert g.tolist() == [5.0]
    out2.sum().backward()
    assert out.grad.tolist() == [10.0]
    assert log == [[5.0], [5.0]]
    out.mul_(2)
    assert out.grad_fn.name() == "MulBackward0"


@pytest.mark.parametrize("number", [0, 1])
def test_gradient_edges_of_one_output_of_several(number):
    """F-94."""
    x, w = leaf(1.0), leaf(2.0)
    outs = [o for o in Two.apply(x, 3, w) if isinstance(o, torch.Tensor)]
    edge = get_gradient_edge(outs[number])
    (g,) = torch.autograd.grad((outs[0] * 2 + outs[1] * 5).sum(), edge)
    assert g.tolist() == [[2.0], [5.0]][number]


# Modes and subclasses -----------------------------------------------------------------------------


def test_subclasses_reach_forward_and_come_back():
    """F-109."""

    class Mine(torch.Tensor):
        pass

    class Same(Function):
        @staticmethod
        def forward(ctx, x):
            assert type(x) is Mine
            return x

        @staticmethod
        def backward(ctx, g):
            assert type(g) is torch.Tensor
            return g * 2

    x = object.__new__(Mine)
    source = leaf(1.0)
    x._array, x._node, x._cell = source._array, source._node, source._cell
    out = Same.apply(x)
    assert out is not x
    out.sum().backward()
    assert x.grad.tolist() == [2.0]


@pytest.mark.filterwarnings("ignore:Anomaly detection")
def test_anomaly_mode_leads_to_the_line_of_the_forward():
    """F-111."""

    class Fails(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            return g * float("nan") if nan else g.no_such_method()

    for nan, error in ((True, RuntimeError), (False, AttributeError)):
        with torch.autograd.detect_anomaly():
            out = Fails.apply(leaf(1.0))
            assert any("test_node.py" in line for line in out.grad_fn.metadata["traceback_"])
            said = "FailsBackward" if nan else "no_such_method"
            with (
                pytest.warns(UserWarning, match="leads_to_the_line"),
                pytest.raises(error, match=said),
            ):
                out.sum().backward()


@pytest.mark.filterwarnings("ignore:Anomaly detection")
def test_nodes_made_in_a_backward_know_the_node_that_ran():
    """F-111."""
    x = leaf(2.0)
    with torch.autograd.detect_anomaly():
        out, _, _ = Two.apply(x, 3, x * x)
        (g,) = torch.autograd.grad((out * out).sum(), x, create_graph=True)
    node = g.grad_fn
    while "parent_" not in node.metadata or node.metadata["parent_"] is not out.grad_fn:
        node = next(n for n, _ in node.next_functions if n is not None)
    assert node.metadata["parent_"] is out.grad_fn


def test_view_made_under_no_grad_leads_nowhere():
    """F-11."""
    with torch.no_grad():
        view = leaf(1.0, 2.0)[:1]
    out, _, _ = Two.apply(view, 3, leaf(1.0))
    assert out.grad_fn.next_functions[0] == (None, 0)
    out.sum().backward()
    assert view.grad is None


# Legacy -------------------------------------------------------------------------------------------


def test_instances_do_nothing():
    """F-121."""
    with pytest.warns(DeprecationWarning, match="Two should not be instantiated"):
        instance = Two()
    assert instance.saved_tensors == ()
    assert instance.next_functions == ()
    assert instance.needs_input_grad is None
    assert instance.name() == "Two"
    with pytest.raises(RuntimeError, match="static"):
        instance(leaf(1.0))


@pytest.mark.filterwarnings("ignore:.*should not be instantiated")
def test_old_classes_keep_their_surface():
    """F-122."""
    assert function.InplaceFunction().inplace is False
    assert function.InplaceFunction(inplace=True).inplace is True
    nested = function.NestedIOFunction()
    x, y = torch.ones(1), torch.zeros(1)
    nested.save_for_backward([x, (y, None)])
    assert nested.to_save == (x, y)
    assert nested.saved_tensors == ([x, (y, None)],)
    nested.mark_dirty([x], key=y)
    assert nested.dirty_tensors == (x, y)
    nested.mark_non_differentiable((x,))
    assert nested.non_differentiable == (x,)
    for method in ("forward_extended", "backward_extended"):
        with pytest.raises(NotImplementedError):
            getattr(nested, method)(x)
    assert not hasattr(function, "traceable")
    assert not hasattr(Function, "is_traceable")


def test_mark_shared_storage_only_warns():
    """F-122."""

    class Old(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_shared_storage((x, x))
            return x * 1

    with pytest.warns(FutureWarning, match="mark_shared_storage"):
        Old.apply(leaf(1.0))


def test_helpers_walk_nested_values():
    """F-123."""
    x, y = torch.ones(1), leaf(2.0)
    assert function._ContextMethodMixin is function.FunctionCtx
    tree = [x, (y, None), {"k": x}]
    assert [t is u for t, u in zip(function._iter_tensors(tree), (x, y, x), strict=True)] == [
        True
    ] * 3
    assert list(function._iter_tensors_permissive(["s", 3])) == ["s", 3]
    assert list(function._iter_None_tensors([None, (None,)])) == [None, None]
    with pytest.raises(ValueError, match="str"):
        list(function._iter_tensors([x, "s"]))
    mapped = function._map_tensor_data(tree)
    assert not mapped[1][0].requires_grad
    pair = namedtuple("pair", "a b")
    plus = function._nested_map(lambda v: isinstance(v, int), lambda v: v + 1, "ints")
    assert plus([1, (2, None), {"k": 3}, pair(1, 2)]) == [2, (3, None), {"k": 4}, pair(2, 3)]
    with pytest.raises(ValueError, match="ints"):
        plus(["s"])
    assert function._unflatten([1, 2, 3], [0, None, (0, [0])]) == [1, None, (2, [3])]
