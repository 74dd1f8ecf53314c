"""allow_mutation_on_saved_tensors: backward uses the values of the time of saving."""

import gc
import threading

import numpy
import pytest

import pullback as torch
from tests.leaves import leaf

allow = torch.autograd.graph.allow_mutation_on_saved_tensors


WRITES = {
    "method": lambda y: y.add_(100),
    "augmented": lambda y: y.__imul__(7),
    "setitem": lambda y: y.__setitem__(0, 50.0),
    "setitem of a mask": lambda y: y.__setitem__(y > 1, 50.0),
    "copy": lambda y: y.copy_(torch.zeros(2)),
    "zero": lambda y: y.zero_(),
    "fill": lambda y: y.fill_(3),
    "random": lambda y: y.uniform_(),
    "index_put": lambda y: y.index_put_((torch.tensor([0]),), torch.tensor([9.0])),
    "index_fill": lambda y: y.index_fill_(0, torch.tensor([1]), 9.0),
    "scatter": lambda y: y.scatter_(0, torch.tensor([1]), 9.0),
    "masked_fill": lambda y: y.masked_fill_(torch.tensor([True, False]), 9.0),
    "clamp": lambda y: y.clamp_(5, 6),
    "relu": lambda y: torch.relu_(y.neg_()),
    "view": lambda y: y.view(2)[:1].zero_(),
    "view with an offset": lambda y: y[1:].zero_(),
    "detached": lambda y: y.detach().add_(1),
    "detached view": lambda y: y.detach()[1].zero_(),
    "no_grad": lambda y: torch.no_grad()(y.add_)(1),
    "data": lambda y: y.data.add_(1),
    "addcmul": lambda y: y.addcmul_(torch.ones(2), torch.ones(2)),
    "cumsum": lambda y: y.cumsum_(0),
    "lerp": lambda y: y.lerp_(torch.zeros(2), 0.5),
}


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
@pytest.mark.parametrize("saved", ["input", "output", "view"])
def test_backward_uses_the_saved_value(write, saved):
    """G-55, G-56."""
    x = leaf()
    with allow():
        if saved == "input":
            y = x * 1
            z = (y * y).sum()
        elif saved == "output":
            y = x.exp()
            z = y.sum()
        else:
            y = x * 1
            z = y[1:].square().sum()
        write(y)
        z.backward()
    plain = leaf()
    if saved == "output":
        plain.exp().sum().backward()
    else:
        plain[slice(1 if saved == "view" else 0, None)].square().sum().backward()
    assert x.grad.tolist() == plain.grad.tolist()


def test_out_arguments_count_as_writes():
    """G-56."""
    x = leaf()
    with allow():
        y = x * 1
        z = (y * y).sum()
        with torch.no_grad():
            torch.add(torch.ones(2), 5, out=y.detach())
        z.backward()
    assert x.grad.tolist() == [2.0, 4.0]


def test_writes_to_the_base_count_for_its_views():
    """G-56."""
    x = leaf()
    with allow():
        base = x * 1
        view = base[1:]
        z = (view * view).sum()
        base[1:] = 7.0
        z.backward()
    assert x.grad.tolist() == [0.0, 4.0]


def test_nothing_is_copied_without_a_write_and_once_with_several():
    """G-55, G-57."""
    x = leaf()
    with allow() as context:
        y = x * 1
        z = (y * y).sum()
        assert len(context.original) == 1
        assert len(context.cloned) == 0
        y.add_(1)
        assert len(context.original) == 0
        assert len(context.cloned) == 1
        (kept,) = context.cloned.values()
        y.add_(1)
        assert [t is kept for t in context.cloned.values()] == [True]
        w = (y * y).sum()
        assert len(context.original) == 1
        y.add_(1)
        assert len(context.cloned) == 2
        (z + w).backward()
    assert x.grad.tolist() == [2 + 2 * 3.0, 4 + 2 * 4.0]


def test_a_write_after_the_release_copies_nothing():
    """G-57, G-61."""
    with allow() as context:
        y = leaf() * 1
        (y * y).sum().backward()
        assert (len(context.original), len(context.cloned), len(context.sid_to_tid)) == (0, 0, 0)
        assert len(context.tid_to_weakhandle) == 0
        y.detach().add_(1)
        assert len(context.cloned) == 0


def test_backward_belongs_in_the_same_context():
    """G-58."""
    with allow():
        y = leaf() * 1
        z = (y * y).sum()
    with pytest.raises(AssertionError, match="outside the context"):
        z.backward()
    with allow(), pytest.raises(AssertionError, match="outside the context"):
        z.backward()


def test_contexts_do_not_nest_and_the_outer_one_stays():
    """G-59."""
    x = leaf()
    with allow():
        with pytest.raises(RuntimeError, match="nested"), allow():
            pass
        y = x * 1
        z = (y * y).sum()
        y.zero_()
        z.backward()
    assert x.grad.tolist() == [2.0, 4.0]
    with allow():
        pass


def test_threads_have_contexts_of_their_own():
    """G-59."""
    entered = []

    def elsewhere():
        with allow():
            entered.append(True)

    with allow():
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
    assert entered == [True]


def test_what_was_saved_before_is_not_protected():
    """G-60."""
    y = leaf() * 1
    z = (y * y).sum()
    with allow():
        y.add_(1)
        with pytest.raises(RuntimeError, match="version"):
            z.backward()


def test_inner_hooks_take_over():
    """G-60."""
    x = leaf()
    with allow() as context:
        y = x * 1
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t.detach(), lambda t: t):
            z = (y * y).sum()
        assert len(context.original) == 0
        y.add_(1)
        z.backward()
    assert x.grad.tolist() == [4.0, 6.0]


def test_retained_and_recorded_passes():
    """G-61."""
    x = leaf()
    with allow() as context:
        y = x * 1
        z = (y * y * y).sum()
        y.zero_()
        z.backward(retain_graph=True)
        first = x.grad.tolist()
        x.grad = None
        (g,) = torch.autograd.grad(z, x, create_graph=True)
        assert g.tolist() == first == [3.0, 12.0]
        (gg,) = torch.autograd.grad(g.sum(), x)
        assert gg.tolist() == [6.0, 12.0]
    for table in ("cloned", "original", "tid_to_weakhandle", "sid_to_tid"):
        assert len(getattr(context, table)) == 0
    gc.collect()


def test_random_programs_equal_their_out_of_place_forms():
    """G-55."""
    steps = (
        (lambda t, c: t.mul_(c), lambda t, c: t * c),
        (lambda t, c: t.sin_(), lambda t, c: t.sin()),
        (lambda t, c: t.exp_(), lambda t, c: t.exp()),
        (lambda t, c: t.add_(c), lambda t, c: t + c),
        (lambda t, c: t.pow_(2), lambda t, c: t.pow(2)),
    )
    for seed in range(20):
        random = numpy.random.default_rng(seed)
        data = random.standard_normal(3)
        chosen = [steps[k] for k in random.integers(len(steps), size=6)]

        def run(number, data=data, chosen=chosen):
            x = torch.tensor(data, requires_grad=True)
            t, total = x * 1, 0
            for step in chosen:
                total = total + (t * t).sum() * 1e-3
                t = step[number](t, x if number < 2 else None)
            (total + t.sum() * 1e-6).backward()
            return x.grad.numpy()

        with allow():
            written = run(0)
        numpy.testing.assert_allclose(written, run(1), rtol=1e-10)
