"""Hooks, passes, checkpoints and transforms in and around a checkpointed function."""

import gc
import weakref

import pytest

import pullback as torch
from pullback.utils.checkpoint import checkpoint as either
from pullback.utils.checkpoint import set_checkpoint_early_stop
from tests.utils.checkpoint.recomputed import Counted, body, checkpoint, gradient_of, leaf

# Hooks and passes inside -------------------------------------------------------------------------


def test_inner_hooks_keep_what_is_saved_under_them():
    """G-86."""
    log = []

    def function(t):
        t = t.sin()
        with torch.autograd.graph.saved_tensors_hooks(
            lambda v: log.append("pack") or v.detach(), lambda v: log.append("unpack") or v
        ):
            t = t.exp()
        return t.cos()

    x = leaf()
    y = checkpoint(function, x)
    y.sum().backward()
    # Packed again in the re-run, which ends at the last tensor that is the checkpoint's own.
    assert sorted(log) == ["pack", "pack", "unpack"]
    assert x.grad.tolist() == gradient_of(lambda t: t.sin().exp().cos())


@pytest.mark.parametrize("early", [True, False])
@pytest.mark.parametrize("retain", [True, False])
def test_a_pass_inside_the_function(early, retain):
    """G-87."""

    def function(t):
        a = t.sin()
        b = a.exp()
        (g,) = torch.autograd.grad(b.sum(), t, retain_graph=retain)
        return (t * t).cos() * g.detach() + (a * 1 if retain else 0)

    x = leaf()
    counted = Counted(function)
    y = checkpoint(counted, x, early_stop=early).sum()
    assert counted.calls == 2
    y.backward()
    assert counted.calls == 3
    assert x.grad.tolist() == gradient_of(function)


def test_outputs_may_be_used_one_after_another():
    """G-88."""
    x = leaf()
    counted = Counted(lambda t: (t.sin().exp(), (t * 2).cos(), t * t))
    a, b, c = checkpoint(counted, x)
    a.sum().backward()
    c.sum().backward()
    b.sum().backward()
    assert counted.calls == 4
    assert x.grad.tolist() == pytest.approx(
        gradient_of(lambda t: t.sin().exp() + (t * 2).cos() + t * t)
    )
    with pytest.raises(RuntimeError, match="retain_graph"):
        a.sum().backward()


def test_values_of_other_outputs_are_let_go_at_the_end_of_a_pass():
    """G-88."""
    made = []

    def function(t):
        u = t * 3
        made.append(weakref.ref(u._array))
        return u.sin(), t.exp()

    a, b = checkpoint(function, leaf())
    b.sum().backward(retain_graph=True)
    gc.collect()
    assert [reference() for reference in made] == [None, None]
    a.sum().backward()


# Nesting -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("early", [True, False])
def test_three_levels_run_two_three_and_four_times(early):
    """G-89, G-90."""
    calls = [0, 0, 0]

    def level(k):
        def function(t):
            calls[k] += 1
            return (checkpoint(level(k + 1), t) if k < 2 else t).sin()

        return function

    x = leaf()
    with set_checkpoint_early_stop(early):
        checkpoint(level(0), x).sum().backward()
    assert calls == [2, 3, 4]
    assert x.grad.tolist() == gradient_of(lambda t: t.sin().sin().sin())


@pytest.mark.parametrize("outer", [True, False])
def test_both_variants_mix(outer):
    """G-89."""
    x = leaf()

    def function(t):
        return either(lambda u: u.sin().exp(), t * 2, use_reentrant=not outer).cos()

    either(function, x, use_reentrant=outer).sum().backward()
    assert x.grad.tolist() == gradient_of(lambda t: (t * 2).sin().exp().cos())


# Function transforms, where torch refuses ---------------------------------------------------------

TRANSFORMS = {
    "grad": lambda f: torch.func.grad(lambda t: f(t).sum()),
    "vmap": lambda f: torch.func.vmap(f),
    "vmap of grad": lambda f: torch.func.vmap(torch.func.grad(lambda t: f(t).sum())),
    "jacrev": lambda f: torch.func.jacrev(f),
    "jvp": lambda f: lambda x: torch.func.jvp(f, (x,), (torch.ones_like(x),))[1],
    "hessian": lambda f: torch.func.hessian(lambda t: f(t).sum()),
}


@pytest.mark.parametrize("transform", TRANSFORMS.values(), ids=TRANSFORMS)
def test_checkpoints_work_inside_transforms(transform):
    """G-73."""
    x = torch.tensor([[0.5, 1.0], [1.5, -0.5]], dtype=torch.float64)
    ours = transform(lambda t: checkpoint(body, t))(x)
    assert torch.allclose(ours, transform(body)(x))


def test_backward_after_vmap_runs_the_function_inside_of_it_again():
    """G-73."""
    x = torch.tensor([[0.5, 1.0], [1.5, -0.5]], dtype=torch.float64, requires_grad=True)
    shapes = []

    def function(t):
        shapes.append(tuple(t.shape))
        return body(t) * t.sum()

    out = torch.func.vmap(lambda t: checkpoint(function, t))(x)
    (ours,) = torch.autograd.grad(out.sum(), x)
    assert shapes == [(2,), (2,)]
    (theirs,) = torch.autograd.grad(torch.func.vmap(function)(x).sum(), x)
    assert torch.allclose(ours, theirs)


def test_checkpoints_pass_second_order_checks():
    """G-73."""
    x = leaf(0.5, -0.3)
    assert torch.autograd.gradcheck(lambda t: checkpoint(body, t), (x,))
    assert torch.autograd.gradgradcheck(lambda t: checkpoint(body, t), (x,))
