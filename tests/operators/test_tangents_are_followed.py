"""Forward mode follows or refuses a tangent of every input on which a result depends."""

import subprocess
import sys

import numpy
import pytest

import pullback
from pullback.autograd import forward_ad
from pullback.testing import SAMPLES, resolve, samples_for, tensors_in

NAMES = [name for name in SAMPLES if resolve(pullback, name) is not None]


def is_constant(name):
    """Torch declares some functions to have no derivative at all: neither gradient nor tangent."""
    op = getattr(resolve(pullback, name), "op", None)
    return name.startswith("special.") and op is not None and not op.rules


# Numbers that a loss is given beside its inputs; torch takes them for constants, in both modes.
CONSTANT_INPUTS = {
    ("nn.functional.nll_loss", 2),
    ("nn.functional.cross_entropy", 2),
    ("nn.functional.binary_cross_entropy_with_logits", 3),
    ("nn.functional.hinge_embedding_loss", 1),
    ("nn.functional.cosine_embedding_loss", 2),
}


def results(function, sample, change):
    """Floating results, with the tensors of a sample changed by their number."""
    number = iter(range(99))

    def given(value):
        if isinstance(value, tuple | list):
            return type(value)(map(given, value))
        if isinstance(value, pullback.Tensor):
            return change(next(number), value.detach().clone())
        return value

    args = [given(value) for value in (sample.input, *sample.args)]
    kwargs = {name: given(value) for name, value in sample.kwargs.items()}
    pullback.manual_seed(0)
    made = tensors_in(function(*args, **kwargs))
    return [one for one in made if one.dtype.is_floating_point]


def depends(function, sample, at):
    def numbers(step):
        made = results(function, sample, lambda n, t: t + step if n == at else t)
        return [one.detach().numpy() for one in made]

    try:
        pairs = list(zip(numbers(0.0), numbers(1e-4), strict=True))
    except (RuntimeError, ValueError):  # not what the operator takes any more
        return False
    return any(
        a.shape != b.shape or not numpy.allclose(a, b, rtol=0, atol=1e-9, equal_nan=True)
        for a, b in pairs
    )


def tangents(function, sample, at):
    def dual(number, tensor):
        direction = pullback.ones_like(tensor)
        return forward_ad.make_dual(tensor, direction) if number == at else tensor

    with forward_ad.dual_level():
        made = results(function, sample, dual)
        return [forward_ad.unpack_dual(one).tangent for one in made]


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", NAMES)
def test_a_tangent_is_followed_or_refused(name):
    function = resolve(pullback, name)
    for sample in samples_for(name):
        if sample.layout != "contiguous":
            continue
        for at, tensor in enumerate(sample.tensors):
            constant = is_constant(name) or (name, at) in CONSTANT_INPUTS
            if constant or not tensor.dtype.is_floating_point or not tensor.numel():
                continue
            if not depends(function, sample, at):
                continue
            try:
                found = tangents(function, sample, at)
            except (RuntimeError, NotImplementedError):
                continue
            assert any(one is not None for one in found), (sample, at)


DRAWS = [
    lambda x: pullback.bernoulli(x),
    lambda x: pullback.bernoulli(x, 0.3),
    lambda x: pullback.poisson(x),
    lambda x: pullback.normal(x, 1.0),
    lambda x: pullback.normal(0.0, x),
    lambda x: pullback.normal(x, x),
]
COUNTS = [
    lambda x: pullback.linalg.vector_norm(x, 0),
    lambda x: pullback.norm(x, 0),
    lambda x: pullback.dist(x, pullback.ones(2, 3), 0),
    lambda x: pullback.cdist(x, pullback.ones(2, 3), p=0),
    lambda x: pullback.pdist(x, p=0),
    lambda x: pullback.nn.functional.pairwise_distance(x, pullback.ones(2, 3), p=0),
]


@pytest.mark.parametrize("function", [*DRAWS, *COUNTS])
def test_draws_and_counts_have_derivatives_of_zero(function):
    x = pullback.full((2, 3), 0.5)
    with forward_ad.dual_level():
        made = function(forward_ad.make_dual(x, pullback.ones(2, 3)))
        tangent = forward_ad.unpack_dual(made).tangent
        assert pullback.equal(tangent, pullback.zeros_like(made))
    made = function(x.requires_grad_())
    made.sum().backward()
    if made.grad_fn.name() in ("CdistBackward0", "PdistBackward0") or function in DRAWS:
        assert pullback.equal(x.grad, pullback.zeros(2, 3))
    else:
        assert x.grad is None  # as in torch


@pytest.mark.parametrize(
    "function",
    [
        lambda x: pullback.binomial(pullback.full((3,), 4.0), x),
        lambda x: pullback.histogram(x, 2).hist,
        lambda x: pullback.histogramdd(x.reshape(1, 3), [2, 2, 2]).hist,
    ],
)
def test_what_has_no_derivative_says_so_in_both_modes(function):
    x = pullback.full((3,), 0.5)
    with forward_ad.dual_level(), pytest.raises(NotImplementedError, match="not implemented"):
        function(forward_ad.make_dual(x, pullback.ones(3)))
    made = function(x.requires_grad_())
    assert made.requires_grad
    with pytest.raises(NotImplementedError, match="not implemented"):
        made.sum().backward()


@pytest.mark.parametrize("which", ["running_mean", "running_var"])
@pytest.mark.parametrize("shape", [(3, 2), (3, 2, 4)])
def test_running_statistics_with_tangents_are_refused(which, shape):
    with forward_ad.dual_level():
        x = forward_ad.make_dual(pullback.ones(shape), pullback.ones(shape))
        given = {"running_mean": pullback.zeros(2), "running_var": pullback.ones(2)}
        given[which] = forward_ad.make_dual(given[which], pullback.ones(2))
        functional = pullback.nn.functional
        with pytest.raises(RuntimeError, match=f"{which} has a tangent"):
            functional.batch_norm(x, **given, training=False)
        with pytest.raises(RuntimeError, match=f"{which} has a tangent"):
            functional.instance_norm(x, **given, use_input_stats=False)
        functional.batch_norm(x, **given, training=True)  # which only moves them


def test_forward_mode_alone_loads_what_it_needs():
    program = (
        "import pullback as torch\n"
        "from pullback.autograd import forward_ad\n"
        "with forward_ad.dual_level():\n"
        "    x = forward_ad.make_dual(torch.eye(2), torch.ones(2, 2))\n"
        "    try: torch.geqrf(x)\n"
        "    except NotImplementedError: print('refused')\n"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ran.stdout == "refused\n", ran.stderr
