"""nn.functional: the names are there, and a small network of them learns."""

import numpy
import pytest

import pullback as torch
from pullback.autograd import forward_ad
from pullback.autograd.gradcheck import gradcheck, gradgradcheck

functional = torch.nn.functional


def randn(*shape, seed=0):
    values = numpy.random.default_rng(seed).standard_normal(shape)
    return torch.tensor(values, requires_grad=True)


def test_every_listed_name_is_a_documented_function():
    for name in functional.__all__:
        function = getattr(functional, name)
        assert callable(function)
        assert function.__doc__


@pytest.mark.parametrize("shape", [(3,), (2, 3), (4, 2, 3), (0, 3)])
def test_linear_is_one_product_and_a_bias(shape):
    x, w, b = randn(*shape), randn(4, 3, seed=1), randn(4, seed=2)
    expected = x.detach().numpy() @ w.detach().numpy().T + b.detach().numpy()
    result = functional.linear(x, w, b)
    numpy.testing.assert_allclose(result.detach().numpy(), expected, rtol=1e-12)
    assert gradcheck(functional.linear, (x, w, b))
    assert gradgradcheck(functional.linear, (x, w, b))
    assert gradgradcheck(functional.linear, (x, w))
    assert gradgradcheck(functional.linear, (x, w[0].detach().requires_grad_()))


def test_linear_does_not_write_its_bias_into_anything_but_its_result():
    x, w, b = torch.ones(2, 2), torch.eye(2), torch.ones(2)
    functional.linear(x, w, b)
    assert x.tolist() == [[1, 1], [1, 1]]
    assert b.tolist() == [1, 1]


def test_bilinear_is_a_form_in_each_input():
    a, b, w, c = randn(2, 3), randn(2, 4, seed=1), randn(5, 3, 4, seed=2), randn(5, seed=3)
    expected = numpy.einsum("ni,kij,nj->nk", *(t.detach().numpy() for t in (a, w, b)))
    result = functional.bilinear(a, b, w)
    numpy.testing.assert_allclose(result.detach().numpy(), expected, rtol=1e-12)
    assert gradcheck(functional.bilinear, (a, b, w, c))


REFUSED = [
    ("takes 2 features", lambda x: functional.linear(x, torch.ones(4, 2))),
    ("expand", lambda x: functional.linear(x, torch.ones(4, 3), torch.ones(3))),
    ("same dtype", lambda x: functional.linear(x, torch.ones(4, 3).double())),
    ("bias has dtype", lambda x: functional.linear(x, torch.ones(4, 3), torch.ones(4).double())),
    ("vector without bias", lambda x: functional.linear(x, torch.ones(3), torch.ones(()))),
    ("at least 1", lambda x: functional.linear(torch.tensor(1.0), torch.ones(4, 3))),
    ("does not fit", lambda x: functional.bilinear(x, x, torch.ones(2, 3, 4))),
]


@pytest.mark.parametrize(("words", "call"), REFUSED)
def test_misfits_are_refused(words, call):
    with pytest.raises(RuntimeError, match=words):
        call(torch.ones(2, 3))


def test_normalize_gives_unit_vectors_and_zeros():
    x = torch.tensor([[3.0, 4.0], [0.0, 0.0]])
    numpy.testing.assert_allclose(functional.normalize(x).numpy(), [[0.6, 0.8], [0, 0]], rtol=1e-6)


def test_cosine_similarity_of_parallel_vectors_is_one():
    x = torch.tensor([[1.0, 2.0], [3.0, -1.0]])
    similarity = functional.cosine_similarity(x, x * torch.tensor([[2.0], [-3.0]]))
    numpy.testing.assert_allclose(similarity.numpy(), [1, -1], rtol=1e-6)


def test_pairwise_distances_agree():
    x = randn(4, 3)
    full = torch.cdist(x, x).detach().numpy()
    numpy.testing.assert_allclose(
        functional.pdist(x).detach().numpy(), full[numpy.triu_indices(4, 1)], rtol=1e-12
    )
    near = functional.pairwise_distance(x[:2], x[2:], eps=0.0)
    numpy.testing.assert_allclose(near.detach().numpy(), [full[0, 2], full[1, 3]], rtol=1e-12)


FUSED = {
    "softmax": (lambda x: torch.softmax(x, 1), [(3, 4)]),
    "log_softmax": (lambda x: torch.log_softmax(x, 1), [(3, 4)]),
    "layer_norm": (lambda *t: functional.layer_norm(t[0], (4,), *t[1:]), [(3, 4), (4,), (4,)]),
    "rms_norm": (lambda *t: functional.rms_norm(t[0], (4,), t[1]), [(3, 4), (4,)]),
    "batch_norm": (
        lambda x, *t: functional.batch_norm(x, None, None, *t, training=True),
        [(3, 4, 2), (4,), (4,)],
    ),
    "cross_entropy": (lambda x: functional.cross_entropy(x, torch.tensor([0, 3, 1])), [(3, 4)]),
    "nll_loss": (lambda x: functional.nll_loss(x * x, torch.tensor([0, 3, 1])), [(3, 4)]),
    "mse_loss": (functional.mse_loss, [(3, 4), (3, 4)]),
    "linear": (functional.linear, [(3, 4), (5, 4), (5,)]),
    "embedding": (lambda w: functional.embedding(torch.tensor([0, 1, 1]), w * w), [(3, 4)]),
    "gelu": (functional.gelu, [(3, 4)]),
    "glu": (functional.glu, [(3, 4)]),
    "matmul": (torch.matmul, [(5, 2, 3), (3, 4)]),
    "einsum": (lambda *t: torch.einsum("bij,bjk->ki", *t), [(2, 3, 4), (2, 4, 5)]),
    "addmm": (lambda *t: torch.addmm(*t, beta=2, alpha=3), [(4,), (2, 3), (3, 4)]),
}


@pytest.mark.parametrize("name", FUSED)
def test_tangents_of_values_and_of_gradients_agree_with_reverse_mode(name):
    function, shapes = FUSED[name]
    inputs = [randn(*shape, seed=n) for n, shape in enumerate(shapes)]
    directions = [randn(*shape, seed=n + 10).detach() for n, shape in enumerate(shapes)]
    weights = randn(*function(*inputs).shape, seed=20).detach()
    with forward_ad.dual_level():
        duals = [forward_ad.make_dual(*pair) for pair in zip(inputs, directions, strict=True)]
        result = function(*duals)
        tangent = forward_ad.unpack_dual(result).tangent
        gradients = torch.autograd.grad(result, duals, weights, create_graph=True)
        curvatures = [forward_ad.unpack_dual(one).tangent for one in gradients]
    reverse = torch.autograd.grad(function(*inputs), inputs, weights, create_graph=True)
    along = sum((g * d).sum() for g, d in zip(reverse, directions, strict=True))
    assert (tangent * weights).sum().item() == pytest.approx(along.item(), rel=1e-9)
    seconds = torch.autograd.grad(along, inputs, allow_unused=True) if along.requires_grad else ()
    for one, other in zip(curvatures, seconds, strict=False):
        expected = 0 if other is None else other.numpy()
        got = 0 if one is None else one.detach().numpy()
        numpy.testing.assert_allclose(got, expected, rtol=1e-8, atol=1e-11)


def test_a_network_of_functions_learns():
    random = numpy.random.default_rng(0)
    x = torch.tensor(random.standard_normal((64, 2)))
    target = (x[:, 0] * x[:, 1] > 0).long()
    layers = [
        (randn(16, 2), torch.zeros(16).double().requires_grad_()),
        (randn(2, 16, seed=1), torch.zeros(2).double().requires_grad_()),
    ]
    parameters = [one for layer in layers for one in layer]
    first = None
    for _ in range(200):
        hidden = functional.gelu(functional.linear(x, *layers[0]))
        loss = functional.cross_entropy(functional.linear(hidden, *layers[1]), target)
        first = first or loss.item()
        for one, gradient in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
            with torch.no_grad():
                one.sub_(gradient * 0.5)
    assert loss.item() < 0.2 * first
