"""A gradient on a device is kept as it came where nobody else can see its memory, else copied."""

import pytest

import pullback as torch
from pullback.engine import accumulate


@pytest.fixture
def adopted(monkeypatch):
    """Whether gradients were kept as they came, in the order in which leaves got them."""
    found, original = [], accumulate._laid_out_there

    def watched(leaf, g, *, owned):
        found.append(owned)
        return original(leaf, g, owned=owned)

    monkeypatch.setattr(accumulate, "_laid_out_there", watched)
    return found


def ones():
    return torch.ones(4, device="cuda").requires_grad_()


def test_what_a_rule_made_is_kept(library, adopted):
    x = ones()
    (x * 3).sum().backward()
    assert adopted == [True]
    assert x.grad.tolist() == [3.0] * 4


def test_what_a_hook_keeps_is_copied(library, adopted):
    x, kept = ones(), []
    y = x * 3
    x.register_hook(kept.append)
    y.sum().backward()
    x.grad.zero_()
    assert kept[0].tolist() == [3.0] * 4


def test_what_the_user_gave_is_copied(library, adopted):
    x, g = ones(), torch.full((4,), 2.0, device="cuda")
    (x + 0).backward(g)
    x.grad.zero_()
    assert g.tolist() == [2.0] * 4


@pytest.mark.parametrize("alias", [lambda g: g[:], lambda g: g.view(2, 2), lambda g: g.detach()])
def test_what_a_view_still_shows_is_copied(library, adopted, alias):
    kept = []

    class Showing(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            made = g * 2
            kept.append(alias(made))
            return made

    x = ones()
    Showing.apply(x).sum().backward()
    x.grad.zero_()
    assert kept[0].flatten().tolist() == [2.0] * 4


def test_memory_that_another_array_lies_on_is_copied(library, adopted):
    kept = []

    class Window(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 1

        @staticmethod
        def backward(ctx, g):
            made = g * 2
            kept.append(torch.as_strided(made, (2,), (2,)))
            return made

    x = ones()
    Window.apply(x).sum().backward()
    x.grad.zero_()
    assert kept[0].tolist() == [2.0] * 2


def test_two_leaves_never_share_a_gradient(library, adopted):
    x, y = ones(), ones()
    (x + y).sum().backward()
    x.grad.zero_()
    assert y.grad.tolist() == [1.0] * 4


def test_sums_that_a_hook_saw_are_not_added_into(library):
    kept = []
    x = ones()
    p, q = x * 1, x * 1
    s = p + q
    s.register_hook(kept.append)
    ((p * 3).sum() + (q * 3).sum() + (s * s).sum()).backward()
    assert x.grad.tolist() == [14.0] * 4
    assert kept[0].tolist() == [4.0] * 4
