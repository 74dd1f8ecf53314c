"""Programs that train on sparse gradients."""

import pytest

import pullback as torch
from pullback.nn import functional


def word2vec(optimizer, sparse):
    """Skip-gram with negative samples over a toy text; the losses of all steps."""
    torch.manual_seed(0)
    text = [word % 7 for word in range(60)]
    into = torch.nn.Embedding(7, 4, sparse=sparse)
    out = torch.nn.Embedding(7, 4, sparse=sparse)
    step = optimizer([*into.parameters(), *out.parameters()])
    losses = []
    for epoch in range(8):
        for centre in range(0, 50, 10):
            words = torch.tensor(text[centre : centre + 9])
            beside = torch.tensor(text[centre + 1 : centre + 10])
            others = torch.tensor([(word * 3 + epoch) % 7 for word in text[centre : centre + 9]])
            near = (into(words) * out(beside)).sum(1)
            far = (into(words) * out(others)).sum(1)
            loss = -(functional.logsigmoid(near) + functional.logsigmoid(-far)).mean()
            step.zero_grad()
            loss.backward()
            step.step()
            losses.append(loss.item())
    return losses


@pytest.mark.parametrize(
    "optimizer",
    [
        lambda p: torch.optim.SGD(p, lr=0.5),
        lambda p: torch.optim.Adagrad(p, lr=0.3),
    ],
)
def test_word2vec_trains_as_with_dense_gradients(optimizer):
    """B-64: where rows without a gradient stay either way, step for step"""
    sparse, dense = word2vec(optimizer, True), word2vec(optimizer, False)
    assert sparse == pytest.approx(dense, rel=1e-5)
    assert sum(sparse[-5:]) < 0.8 * sum(sparse[:5])


@pytest.mark.parametrize(
    "optimizer",
    [
        lambda p: torch.optim.SparseAdam(p, lr=0.1),
        lambda p: torch.optim.SGD(p, lr=0.2, momentum=0.8),
    ],
)
def test_word2vec_trains_by_optimizers_that_remember_rows(optimizer):
    """B-64"""
    losses = word2vec(optimizer, True)
    assert sum(losses[-5:]) < 0.8 * sum(losses[:5])


def test_momentum_of_sparse_gradients_is_that_of_dense_ones():
    """B-64: SGD with momentum"""
    results = []
    for sparse in (True, False):
        weight = torch.arange(6.0).reshape(3, 2).requires_grad_()
        step = torch.optim.SGD([weight], lr=0.1, momentum=0.9)
        for number in (0, 1, 0, 2):
            step.zero_grad()
            index = torch.tensor([number, number])
            (functional.embedding(index, weight, sparse=sparse) ** 2).sum().backward()
            step.step()
        results.append(weight.detach())
    assert torch.allclose(*results)


def test_lbfgs_takes_sparse_gradients():
    """B-64"""
    weight = torch.tensor([[3.0], [4.0]], requires_grad=True)
    step = torch.optim.LBFGS([weight], lr=0.5)

    def closure():
        step.zero_grad()
        loss = (functional.embedding(torch.tensor([0, 1]), weight, sparse=True) ** 2).sum()
        loss.backward()
        return loss

    for _ in range(5):
        step.step(closure)
    assert weight.abs().max().item() < 0.1


@pytest.mark.parametrize("name", ["Adam", "AdamW"])
def test_adam_points_to_sparse_adam(name):
    """B-64"""
    weight = torch.ones(2, 2, requires_grad=True)
    functional.embedding(torch.tensor([0]), weight, sparse=True).sum().backward()
    with pytest.raises(RuntimeError, match=f"{name} .*SparseAdam"):
        getattr(torch.optim, name)([weight]).step()


def test_a_sparse_matrix_of_weights_is_learned():
    """B-66: gradients and steps stay at the specified places"""
    torch.manual_seed(0)
    truth = torch.tensor([[1.0, 0.0, -2.0], [0.0, 3.0, 0.0]])
    weight = truth.sign().abs().to_sparse().requires_grad_()
    inputs = torch.randn(3, 20)
    for _ in range(200):
        loss = ((torch.sparse.mm(weight, inputs) - truth @ inputs) ** 2).mean()
        (g,) = torch.autograd.grad(loss, weight)
        with torch.no_grad():
            weight = weight.detach().sub(g, alpha=0.3).requires_grad_()
    assert weight._nnz() == 3
    assert torch.allclose(weight.detach().to_dense(), truth, atol=1e-2)
