"""Sums of gradients: their values are tested with the passes, here what else they keep."""

import pytest

import pullback as torch


def test_a_sum_with_the_zeros_of_a_step_keeps_the_format(both_passes):
    """The zeros come in the order of the gradient; in another, they would decide the sum's."""
    x = torch.randn(2, 4, 3, 3).to(memory_format=torch.channels_last).requires_grad_()
    y = torch.sign(x) * x
    (g,) = torch.autograd.grad(y, x, torch.ones_like(y))
    assert g.is_contiguous(memory_format=torch.channels_last)


LONG = {
    "broadcast": lambda x, w: (x + w).sum(),
    "linear bias": lambda x, w: torch.nn.functional.linear(x, x[:1], w).sum(),
    "layer norm bias": lambda x, w: torch.nn.functional.layer_norm(x, (1,), None, w).sum(),
    "index": lambda x, w: w[torch.zeros(len(x), dtype=torch.int64)].sum(),
    "gather": lambda x, w: w.gather(0, torch.zeros(len(x), dtype=torch.int64)).sum(),
    "embedding": lambda x, w: torch.nn.functional.embedding(
        torch.zeros(len(x), dtype=torch.int64), w[:, None]
    ).sum(),
}


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", LONG)
def test_gradients_of_half_precision_are_summed_in_single(dtype, name):
    """3,000 ones: in half precision their sum would stop at 2,048, or at 256."""
    kind = getattr(torch, dtype)
    x, w = torch.ones(3000, 1, dtype=kind), torch.zeros(1, dtype=kind, requires_grad=True)
    LONG[name](x, w).backward()
    assert w.grad.dtype is kind
    assert w.grad.item() == pytest.approx(3000, rel=0.005)


def test_sparse_gradients_are_added_in_place_as_dense_ones_are(both_passes):
    rows = torch.tensor([0, 2, 2])
    for sparse in (True, False):
        w = torch.ones(3, 2, requires_grad=True)
        torch.nn.functional.embedding(rows, w, sparse=sparse).sum().backward()
        first, version = w.grad, w.grad._version
        torch.nn.functional.embedding(rows[:2], w, sparse=sparse).sum().backward()
        assert w.grad is first
        assert w.grad._version == version + 1
        assert w.grad.to_dense().tolist() == [[2, 2], [0, 0], [3, 3]]
