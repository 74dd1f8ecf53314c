"""What a Function saves for backward, and how long it lives (F-33 to F-42, F-112 to F-120)."""

import gc
import weakref

import numpy as np
import pytest

import pullback as torch
from pullback.autograd.function import Function
from pullback.autograd.graph import saved_tensors_hooks
from tests.leaves import double_leaf as leaf


def saving(choose, backward=None):
    """x -> 2x, saving `choose(x, intermediate, result)`."""

    class Mine(Function):
        @staticmethod
        def forward(ctx, x):
            between = x * 3
            out = x * 2
            ctx.save_for_backward(*choose(x, between, out))
            return out

        @staticmethod
        def backward(ctx, g):
            return backward(ctx, g) if backward is not None else g * 2

    return Mine


@pytest.mark.parametrize("bad", [3, "s", [1], np.ones(2)])
def test_only_tensors_are_saved(bad):
    """F-33."""
    mine = saving(lambda x, i, o: (x, bad))
    with pytest.raises(TypeError, match=rf"argument 1 is a {type(bad).__name__}"):
        mine.apply(leaf(1.0))
    with torch.no_grad():
        mine.apply(leaf(1.0))


def test_saving_again_replaces():
    """F-33."""

    class Mine(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x, x)
            ctx.save_for_backward(x * 5)
            return x * 2

    (saved,) = Mine.apply(leaf(1.0)).grad_fn.saved_tensors
    assert saved.tolist() == [5.0]


def test_inputs_come_back_as_themselves_outputs_with_history_intermediates_without():
    """F-34, F-35."""
    x = leaf(1.0)
    out = saving(lambda x, i, o: (x, None, i, o)).apply(x)
    given, nothing, between, result = out.grad_fn.saved_tensors
    assert given is x
    assert nothing is None
    assert between.grad_fn is None
    assert not between.requires_grad
    assert result is not out
    assert result.grad_fn is out.grad_fn
    assert result.tolist() == out.tolist()


def test_saved_output_of_several_keeps_its_number():
    """F-34."""

    class Two(Function):
        @staticmethod
        def forward(ctx, x):
            a, b = x * 2, x * 3
            ctx.save_for_backward(b)
            return a, b

    _, b = Two.apply(leaf(1.0))
    (saved,) = b.grad_fn.saved_tensors
    assert (saved.grad_fn, saved.output_nr) == (b.grad_fn, 1)


def test_saved_returned_input_is_the_input_in_the_combined_style():
    """F-26, F-34."""

    class Same(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0]

    x = leaf(3.0)
    out = Same.apply(x)
    assert out.grad_fn.saved_tensors[0] is x
    out.sum().backward()
    assert x.grad.tolist() == [3.0]


def test_saved_tensors_is_empty_inside_forward():
    """F-35."""

    class Mine(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            assert ctx.saved_tensors == ()
            ctx.save_for_forward(x)
            assert ctx.saved_tensors == (x,)
            assert ctx.saved_tensors[0] is x
            return x * 2

    Mine.apply(leaf(1.0))


@pytest.mark.parametrize("which", ["input", "output", "intermediate"])
def test_changes_since_are_noticed(which):
    """F-34, V-146."""
    kept = []
    pick = {"input": 0, "intermediate": 1, "output": 2}[which]
    mine = saving(
        lambda *all_three: kept.append(all_three) or (all_three[pick],),
        lambda ctx, g: g * ctx.saved_tensors[0],
    )
    y = leaf(1.0, 2.0) * 1
    out = mine.apply(y)
    with torch.no_grad():
        kept[0][pick].add_(1)
    with pytest.raises(RuntimeError, match=r"saved_tensors\[0\].*add_ at test_saved"):
        out.sum().backward()


def test_reading_after_the_graph_was_freed():
    """F-36, E-118."""
    x = leaf(1.0)
    reads = saving(lambda x, i, o: (), lambda ctx, g: (ctx.saved_tensors, g)[1])
    out = reads.apply(x)
    out.sum().backward()
    with pytest.raises(RuntimeError, match="retain_graph=True"):
        _ = out.grad_fn.saved_tensors
    with pytest.raises(RuntimeError, match="retain_graph=True"):
        out.sum().backward()


def test_function_that_never_reads_may_run_again():
    """F-36, F-37."""

    class Mine(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            ctx.k = 3
            return x * 3

        @staticmethod
        def backward(ctx, g):
            return g * ctx.k

    x = leaf(1.0)
    out = Mine.apply(x)
    out.sum().backward()
    out.sum().backward()
    assert x.grad.tolist() == [6.0]


def test_raw_saved_tensors_take_hooks():
    """F-38, V-153 to V-156."""
    x = leaf(2.0)
    mine = saving(lambda x, i, o: (x, None, o), lambda ctx, g: g * ctx.saved_tensors[0])
    out = mine.apply(x)
    of_x, of_none, of_out = out.grad_fn._raw_saved_tensors
    log = []
    of_x.register_hooks(lambda t: log.append(t) or 7, lambda k: torch.full((1,), float(k)).double())
    assert log[0] is not x
    assert not log[0].requires_grad
    assert of_x.data == 7
    assert out.grad_fn.saved_tensors[0].requires_grad
    of_out.register_hooks(lambda t: t.numpy().copy(), lambda a: torch.tensor(a))
    assert out.grad_fn.saved_tensors[2].grad_fn is out.grad_fn
    with pytest.raises(RuntimeError, match="one pair only"):
        of_x.register_hooks(lambda t: t, lambda t: t)
    with pytest.raises(RuntimeError, match="None"):
        of_none.register_hooks(lambda t: t, lambda t: t)
    with pytest.raises(TypeError, match="callable"):
        of_x.register_hooks(3, 4)
    out.sum().backward()
    assert x.grad.tolist() == [7.0]
    with pytest.raises(RuntimeError, match="retain_graph"):
        _ = out.grad_fn._raw_saved_tensors
    with pytest.raises(RuntimeError, match="retain_graph"):
        of_x.register_hooks(lambda t: t, lambda t: t)
    with pytest.raises(RuntimeError, match="by hand"):
        type(of_x)()


def test_pack_hook_that_writes_is_refused():
    """V-155."""
    out = saving(lambda x, i, o: (i,)).apply(leaf(2.0))
    with pytest.raises(RuntimeError, match="modified its argument"):
        out.grad_fn._raw_saved_tensors[0].register_hooks(lambda t: t.add_(1), lambda t: t)


def test_saved_variables_is_the_old_name():
    """F-38."""
    x = leaf(1.0)
    out = saving(lambda x, i, o: (x,)).apply(x)
    with pytest.warns(DeprecationWarning, match="saved_tensors"):
        assert out.grad_fn.saved_variables[0] is x


def test_clear_saved_tensors_on_access():
    """F-39."""
    freed = []

    class Once(Function):
        clear_saved_tensors_on_access = True

        @staticmethod
        def forward(ctx, x):
            between = x * 3
            ctx.save_for_backward(between)
            freed.append(weakref.ref(between))
            return between * 1

        @staticmethod
        def backward(ctx, g):
            (between,) = ctx.saved_tensors
            result = g * 3
            del between
            freed.append(freed[0]() is None)
            return result

    out = Once.apply(leaf(1.0))
    out.sum().backward(retain_graph=True)
    assert freed[1]
    with pytest.raises(RuntimeError, match="clear_saved_tensors_on_access"):
        out.sum().backward()


@pytest.mark.parametrize("retain", [False, True])
def test_maybe_clear_saved_tensors(retain):
    """F-40."""
    seen = []

    class Mine(Function):
        @staticmethod
        def forward(ctx, x):
            between = x * 3
            seen.append(weakref.ref(between))
            ctx.save_for_backward(between)
            return between * 1

        @staticmethod
        def backward(ctx, g):
            ctx.saved_tensors
            ctx.maybe_clear_saved_tensors()
            seen.append(seen[0]() is None)
            return g * 3

    out = Mine.apply(leaf(1.0))
    out.sum().backward(retain_graph=retain)
    assert seen[1] is not retain


def test_staging_attributes_are_reset():
    """F-41."""

    class Mine(Function):
        @staticmethod
        def forward(ctx, x):
            names = ("to_save", "dirty_tensors", "non_differentiable", "saved_for_forward")
            assert all(getattr(ctx, name) is None for name in names)
            out = x * 2
            ctx.to_save = (x,)
            ctx.non_differentiable = ()
            ctx.saved_for_forward = (x,)
            assert ctx.to_save == (x,)
            return out

    node = Mine.apply(leaf(1.0)).grad_fn
    for name in ("to_save", "dirty_tensors", "non_differentiable", "saved_for_forward"):
        assert getattr(node, name) is None
    assert len(node.saved_tensors) == 1


def test_staging_must_be_a_tuple():
    """F-41."""

    class Mine(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.to_save = [x]
            return x * 2

    with pytest.raises(RuntimeError, match="to_save must be a tuple"):
        Mine.apply(leaf(1.0))


def test_inference_tensors_cannot_be_saved():
    """F-42."""
    with torch.inference_mode():
        frozen = torch.ones(1, dtype=torch.float64)

    class Mine(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(frozen)
            return x * 2

    with pytest.raises(RuntimeError, match="inference tensor"):
        Mine.apply(leaf(1.0))
    Mine.apply(torch.ones(1))


@pytest.mark.parametrize("which", [0, 1, 2])
def test_saved_tensor_hooks_see_what_is_saved(which):
    """F-34, F-112."""
    seen = []
    mine = saving(
        lambda *three: (three[which], None), lambda ctx, g: g * ctx.saved_tensors[0].detach()
    )
    x = leaf(2.0)
    with saved_tensors_hooks(lambda t: seen.append(t) or t.numpy() * 10, torch.tensor):
        out = mine.apply(x)
    assert len(seen) == 1
    unpacked = out.grad_fn.saved_tensors[0]
    assert unpacked.requires_grad is (which != 1)
    assert (unpacked.grad_fn is out.grad_fn) is (which == 2)
    out.sum().backward()
    assert x.grad.tolist() == [[20.0], [60.0], [40.0]][which]


def test_saved_view_goes_through_hooks_with_its_place_in_the_graph():
    """F-34."""
    mine = saving(lambda x, i, o: (x,), lambda ctx, g: g * ctx.saved_tensors[0])
    x = leaf(1.0, 2.0, 3.0)
    with saved_tensors_hooks(lambda t: t.numpy().copy(), torch.tensor):
        out = mine.apply(x.view(3, 1))
    (g,) = torch.autograd.grad(out.sum(), x, create_graph=True)
    assert g.tolist() == [1.0, 2.0, 3.0]
    (h,) = torch.autograd.grad(g.sum(), x)
    assert h.tolist() == [1.0, 1.0, 1.0]


# Lifetimes ----------------------------------------------------------------------------------------


@pytest.fixture
def no_collector():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def alive():
    kinds = (torch.autograd.graph.Node, torch.Tensor)
    return sum(issubclass(type(thing), kinds) for thing in gc.get_objects())


@pytest.mark.parametrize("choose", [(0,), (1,), (2,), (0, 1, 2), ()])
def test_no_cycle_is_made_by_saving(no_collector, choose):
    """F-118."""
    mine = saving(lambda *three: [three[i] for i in choose])
    x = leaf(1.0)
    out = mine.apply(x)
    node, array = weakref.ref(out.grad_fn), weakref.ref(out)
    del out
    assert node() is None
    assert array() is None


def test_memory_is_flat_with_the_collector_off(no_collector):
    """F-118, F-119."""
    mine = saving(lambda *three: three, lambda ctx, g: g * ctx.saved_tensors[1])

    class Dirty(Function):
        @staticmethod
        def forward(ctx, x, w):
            ctx.mark_dirty(x)
            ctx.save_for_backward(x, w)
            ctx.scale = 2
            return x.mul_(2)

        @staticmethod
        def backward(ctx, g):
            x, _ = ctx.saved_tensors
            return g * 2, x * 0

    x, w = leaf(1.0, 2.0), leaf(1.0, 1.0)
    counts = []
    for _ in range(4):
        for _ in range(20):
            y = Dirty.apply(mine.apply(x) * 1, w)
            base = y * 1
            Dirty.apply(base[1:], w[1:])
            base.sum().backward()
        del y, base
        counts.append(alive())
    assert counts[1] == counts[2] == counts[3]


def test_inputs_as_attributes_make_no_cycle_and_outputs_do(no_collector):
    """F-118."""

    class Keeps(Function):
        @staticmethod
        def forward(ctx, x, kind):
            out = x * 2
            ctx.kept = x if kind == "input" else out
            return out

    x = leaf(1.0)
    out = Keeps.apply(x, "input")
    node = weakref.ref(out.grad_fn)
    del out
    assert node() is None
    out = Keeps.apply(x, "output")
    node = weakref.ref(out.grad_fn)
    del out
    assert node() is not None
    gc.collect()
    assert node() is None


def test_saved_tensors_are_released_right_after_their_node(no_collector):
    """F-119."""
    log = []

    class Watched(Function):
        @staticmethod
        def forward(ctx, x):
            between = x * 3
            ctx.save_for_backward(between)
            log.append(weakref.ref(between))
            return between * 1

        @staticmethod
        def backward(ctx, g):
            ctx.saved_tensors
            return g * 3

    class Looks(Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            log.append(log[0]() is None)
            return g

    out = Watched.apply(Looks.apply(leaf(1.0)))
    out.sum().backward()
    assert log[1] is True


@pytest.mark.parametrize("mode", [torch.no_grad, torch.enable_grad])
def test_nothing_outlives_a_call_that_is_not_recorded(no_collector, mode):
    """F-120."""
    alive = []

    class Mine(Function):
        @staticmethod
        def forward(ctx, x):
            between = x * 3
            ctx.save_for_backward(x, between)
            ctx.save_for_forward(between)
            alive.extend([weakref.ref(between), weakref.ref(ctx), weakref.ref(x)])
            return between * 1

    with mode():
        out = Mine.apply(torch.ones(2))
    assert [ref() for ref in alive] == [None, None, None]
    del out


def test_a_long_chain_of_functions_is_built_run_and_freed(no_collector):
    """V-195."""
    mine = saving(lambda x, i, o: (o,), lambda ctx, g: (ctx.saved_tensors, g)[1])
    x = leaf(1.0)
    out = x
    for _ in range(10_000):
        out = mine.apply(out)
    out.backward()
    assert x.grad.tolist() == [1.0]
    out = x
    for _ in range(10_000):
        out = mine.apply(out)
    del out
