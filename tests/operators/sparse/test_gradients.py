"""Sparse gradients: where they come from, how they add up, who sees them."""

import gc
import weakref

import pytest

import pullback as torch
from pullback.nn import functional

NUMBERS = [[1, 2], [1, 0]]


def table():
    return torch.arange(12.0, dtype=torch.float64).reshape(4, 3).requires_grad_()


def rows(weight, **options):
    return functional.embedding(torch.tensor(NUMBERS), weight, **options)


def dense_gradient(program):
    weight = table()
    program(weight).backward()
    return weight.grad


def test_embedding_has_one_row_for_each_lookup():
    """B-61: duplicates kept, uncoalesced, summed by coalesce()"""
    weight = table()
    (rows(weight, sparse=True) ** 2).sum().backward()
    assert weight.grad.is_sparse
    assert not weight.grad.is_coalesced()
    assert weight.grad._indices().tolist() == [[1, 2, 1, 0]]
    assert tuple(weight.grad._values().shape) == (4, 3)
    assert weight.grad.coalesce()._nnz() == 3
    assert torch.equal(weight.grad.to_dense(), dense_gradient(lambda w: (rows(w) ** 2).sum()))


def test_padding_rows_are_left_out():
    """B-61"""
    weight = table()
    rows(weight, sparse=True, padding_idx=1).sum().backward()
    assert weight.grad._indices().tolist() == [[2, 0]]
    module = torch.nn.Embedding(4, 3, padding_idx=0, sparse=True)
    module(torch.tensor([0, 2, 0])).sum().backward()
    assert module.weight.grad._indices().tolist() == [[2]]


def test_scaling_by_frequency_has_no_sparse_form():
    """B-63"""
    weight = table()
    with pytest.raises(RuntimeError, match="scale_grad_by_freq"):
        rows(weight, sparse=True, scale_grad_by_freq=True).sum().backward()


def test_max_norm_shortens_rows_before_a_sparse_gradient_too():
    """B-63: in place, counted as a write"""
    weight = torch.full((3, 2), 3.0).requires_grad_()
    version = weight._version
    functional.embedding(torch.tensor([1]), weight, max_norm=1.0, sparse=True).sum().backward()
    assert weight._version > version
    assert weight[1].norm().item() == pytest.approx(1.0, abs=1e-4)
    assert weight.grad._indices().tolist() == [[1]]


@pytest.mark.parametrize("mode", ["sum", "mean"])
def test_bags_have_sparse_gradients(mode):
    """B-65"""

    def loss(weight, sparse):
        numbers, offsets = torch.tensor([1, 2, 1, 0]), torch.tensor([0, 3])
        bags = functional.embedding_bag(numbers, weight, offsets, mode=mode, sparse=sparse)
        return (bags * bags).sum()

    weight = table()
    loss(weight, True).backward()
    assert weight.grad.is_sparse
    assert torch.allclose(weight.grad.to_dense(), dense_gradient(lambda w: loss(w, False)))


def test_weights_of_samples_go_with_sparse_gradients():
    """B-65"""
    weight, scale = table(), torch.tensor([2.0, 3.0], dtype=torch.float64, requires_grad=True)
    bags = functional.embedding_bag(
        torch.tensor([1, 2]),
        weight,
        torch.tensor([0]),
        mode="sum",
        sparse=True,
        per_sample_weights=scale,
    )
    bags.sum().backward()
    assert weight.grad.to_dense()[:, 0].tolist() == [0, 2, 3, 0]
    assert scale.grad.tolist() == [12, 21]


def test_gather_has_a_sparse_gradient_if_asked():
    weight = table()
    index = torch.tensor([[0, 0], [2, 1]])
    (torch.gather(weight, 1, index, sparse_grad=True) ** 2).sum().backward()
    assert weight.grad.is_sparse
    assert weight.grad.sparse_dim() == 2
    assert weight.grad._nnz() == 4
    expected = dense_gradient(lambda w: (torch.gather(w, 1, index) ** 2).sum())
    assert torch.equal(weight.grad.to_dense(), expected)


@pytest.mark.parametrize("ordered", [False, True])
def test_sparse_and_dense_add_up_within_a_pass(ordered, monkeypatch):
    """B-62, E-78: sparse and sparse stay sparse, dense wins in any order"""
    monkeypatch.setattr("pullback.engine.request.always_ordered", ordered)
    both = [
        lambda w: rows(w, sparse=True).sum() + (rows(w, sparse=True) * 2).sum(),
        lambda w: rows(w, sparse=True).sum() + (w * w).sum(),
        lambda w: (w * w).sum() + rows(w, sparse=True).sum(),
        lambda w: rows(w * 2, sparse=True).sum() + rows(w, sparse=True).sum(),
    ]
    plain = [
        lambda w: rows(w).sum() + (rows(w) * 2).sum(),
        lambda w: rows(w).sum() + (w * w).sum(),
        lambda w: (w * w).sum() + rows(w).sum(),
        lambda w: rows(w * 2).sum() + rows(w).sum(),
    ]
    for sparse, dense, stays in zip(both, plain, (True, False, False, True), strict=True):
        weight = table()
        sparse(weight).backward()
        assert weight.grad.is_sparse is stays
        assert torch.equal(weight.grad.to_dense(), dense_gradient(dense))
        (captured,) = torch.autograd.grad(sparse(weight), weight)
        assert captured.is_sparse is stays


def test_sparse_on_sparse_is_added_in_place():
    """V-123, B-62: the same tensor, concatenated"""
    weight = table()
    rows(weight, sparse=True).sum().backward()
    stored, version = weight.grad, weight.grad._version
    rows(weight, sparse=True).sum().backward()
    assert weight.grad is stored
    assert stored._version == version + 1
    assert stored._nnz() == 8


def test_sparse_on_dense_is_added_in_place():
    """V-123, B-62"""
    weight = table()
    rows(weight).sum().backward()
    stored = weight.grad
    rows(weight, sparse=True).sum().backward()
    assert weight.grad is stored
    assert stored[:, 0].tolist() == [2, 4, 2, 0]


def test_dense_on_sparse_makes_a_new_dense_tensor():
    """V-123"""
    weight = table()
    rows(weight, sparse=True).sum().backward()
    stored = weight.grad
    rows(weight).sum().backward()
    assert weight.grad is not stored
    assert weight.grad.layout is torch.strided
    assert stored._nnz() == 4
    assert weight.grad[:, 0].tolist() == [2, 4, 2, 0]


def test_a_first_sparse_gradient_is_copied_unless_it_is_ours():
    """V-123: what the user gave is not what is stored"""
    x = torch.ones(3, requires_grad=True)
    g = torch.sparse_coo_tensor([[1]], [2.0], (3,))
    x.backward(g)
    g._values().fill_(7)
    assert x.grad.to_dense().tolist() == [0, 2, 0]


def test_layouts_of_assigned_gradients():
    """V-29: COO for strided, else the tensor's own"""
    x = torch.eye(2)
    x.grad = torch.eye(2).to_sparse()
    assert x.grad.is_sparse
    for made in (torch.eye(2).to_sparse_csr(), torch.eye(2).to_sparse_bsc((1, 1))):
        with pytest.raises(RuntimeError, match="layout"):
            x.grad = made
    sparse = torch.eye(2).to_sparse()
    sparse.grad = torch.eye(2).to_sparse()
    with pytest.raises(RuntimeError, match="layout"):
        sparse.grad = torch.eye(2)


LAYOUTS = {
    "strided": lambda x: x.clone(),
    "coo": lambda x: x.to_sparse(),
    "csr": lambda x: x.to_sparse_csr(),
    "csc": lambda x: x.to_sparse_csc(),
    "bsr": lambda x: x.to_sparse_bsr((1, 1)),
}


@pytest.mark.parametrize("given", LAYOUTS)
@pytest.mark.parametrize("own", LAYOUTS)
def test_layouts_of_gradients_that_backward_returns(own, given):
    """E-88, F-68: dense and COO fit anything, compressed ones their own layout alone"""

    class Returns(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return torch.ones(())

        @staticmethod
        def backward(ctx, g):
            return LAYOUTS[given](torch.eye(2))

    x = LAYOUTS[own](torch.eye(2)).requires_grad_()
    if given in ("strided", "coo", own):
        Returns.apply(x).backward()
        assert x.grad.layout is LAYOUTS[given](torch.eye(2)).layout
        x.grad = None
        root = x * 2
        root.backward(LAYOUTS[given](torch.eye(2)))
        assert x.grad.to_dense().tolist() == [[2, 0], [0, 2]]
    else:
        with pytest.raises(RuntimeError, match=r"layout torch.sparse_\w+ for input 0"):
            Returns.apply(x).backward()
        with pytest.raises(RuntimeError, match="layout"):
            (x * 2).backward(LAYOUTS[given](torch.eye(2)))


def test_hooks_see_sparse_gradients_and_may_change_them():
    weight, seen = table(), []
    weight.register_hook(lambda g: (seen.append(g.layout), g * 2)[1])
    weight.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.layout))
    rows(weight, sparse=True).sum().backward()
    assert seen == [torch.sparse_coo, torch.sparse_coo]
    assert weight.grad.to_dense()[:, 0].tolist() == [2, 4, 2, 0]
    other = torch.ones(2, requires_grad=True)
    other.register_hook(lambda g: g.to_sparse())
    with pytest.raises(RuntimeError, match="layout"):
        (other * 2).sum().backward()


def test_retained_gradients_may_be_sparse():
    weight = table()
    twice = weight * 2
    twice.retain_grad()
    rows(twice, sparse=True).sum().backward()
    assert twice.grad.is_sparse
    assert weight.grad.is_sparse
    assert weight.grad.to_dense()[:, 0].tolist() == [2, 4, 2, 0]


def test_a_sparse_gradient_of_a_constant_slope_does_not_require_grad():
    """B-67; where the slope has a history, the gradient has one too, as in torch 2.13"""
    weight = table()
    (g,) = torch.autograd.grad(rows(weight, sparse=True).sum(), weight, create_graph=True)
    assert not g.requires_grad
    (g,) = torch.autograd.grad((rows(weight, sparse=True) ** 3).sum(), weight, create_graph=True)
    (second,) = torch.autograd.grad(g.to_dense().sum(), weight)
    expected = torch.autograd.grad(
        torch.autograd.grad((rows(weight) ** 3).sum(), weight, create_graph=True)[0].sum(), weight
    )[0]
    assert torch.equal(second.to_dense(), expected)


def test_nothing_is_kept_by_a_cycle():
    gc.disable()
    try:
        weight = table()
        loss = rows(weight, sparse=True).sum()
        node = weakref.ref(loss.grad_fn)
        loss.backward()
        x = torch.eye(2).to_sparse().requires_grad_()
        y = (x.sin() * 2).to_dense().sum()
        y.backward()
        others = [weakref.ref(y.grad_fn), weakref.ref(x)]
        del loss, y, x, weight
        assert node() is None
        assert all(one() is None for one in others)
    finally:
        gc.enable()


def test_unused_inputs_get_zeros_of_their_layout():
    x = torch.eye(2).to_sparse().requires_grad_()
    y = torch.ones(1, requires_grad=True)
    g, _ = torch.autograd.grad(y * 2, (x, y), materialize_grads=True)
    assert g.is_sparse
    assert g._nnz() == 0
