"""Losses, norms and bags at the top of torch have other signatures than in nn.functional."""

import warnings

import numpy
import pytest

import pullback

torch = pytest.importorskip("torch")

LIBRARIES = (pullback, torch)


def random(*shape, seed=0):
    return numpy.random.default_rng(seed).standard_normal(shape)


def outcome(library, program):
    """Results as lists with dtypes, then the gradients of what was made by `leaf`; or the error."""
    leaves = []

    def leaf(array):
        leaves.append(library.tensor(numpy.asarray(array)).requires_grad_())
        return leaves[-1]

    try:
        found = program(library, leaf)
    except (RuntimeError, TypeError, ValueError) as error:
        return type(error)
    found = found if isinstance(found, tuple) else (found,)
    found[0].sum().backward()
    grads = [one.grad for one in leaves]
    return [(one.detach().numpy(), str(one.dtype).split(".")[-1]) for one in (*found, *grads)]


def same(program):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        ours, theirs = (outcome(library, program) for library in LIBRARIES)
    if isinstance(theirs, type) or isinstance(ours, type):
        assert ours is theirs
        return
    assert len(ours) == len(theirs)
    for (mine, my_dtype), (wanted, dtype) in zip(ours, theirs, strict=True):
        assert my_dtype == dtype
        assert mine.shape == wanted.shape
        numpy.testing.assert_allclose(mine, wanted, rtol=1e-6, atol=1e-9)


A, B, C = random(4, 3), random(4, 3, seed=1), random(4, 3, seed=2)
P = numpy.abs(B)
SIGNS = numpy.sign(random(4, seed=3))
FRAMES = random(5, 2, 4, seed=4)

LOSSES = {
    "binary_cross_entropy_with_logits": lambda t, x, *r: t.binary_cross_entropy_with_logits(
        x(A), t.tensor(P), t.tensor(P[0]), t.tensor(P[1]), *r
    ),
    "kl_div": lambda t, x, *r: t.kl_div(x(A), t.tensor(P), *r),
    "kl_div of logarithms": lambda t, x, *r: t.kl_div(x(A), t.tensor(B), *r, log_target=True),
    "hinge_embedding_loss": lambda t, x, *r: t.hinge_embedding_loss(
        x(A[:, 0]), t.tensor(SIGNS), 0.5, *r
    ),
    "margin_ranking_loss": lambda t, x, *r: t.margin_ranking_loss(
        x(A[:, 0]), x(B[:, 0]), t.tensor(SIGNS), 0.5, *r
    ),
    "cosine_embedding_loss": lambda t, x, *r: t.cosine_embedding_loss(
        x(A), x(B), t.tensor(SIGNS), 0.1, *r
    ),
    "triplet_margin_loss": lambda t, x, *r: t.triplet_margin_loss(
        x(A), x(B), x(C), 2.0, 2.0, 1e-6, True, *r
    ),
    "ctc_loss": lambda t, x, *r: t.ctc_loss(
        t.log_softmax(x(FRAMES), 2), t.tensor([[1, 2], [3, 1]]), [5, 4], [2, 1], 0, *r
    ),
    "poisson_nll_loss": lambda t, x, *r: t.poisson_nll_loss(
        x(A), t.tensor(P), True, False, 1e-8, *r
    ),
}


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("reduction", [(), (0,), (1,), (2,), (3,), (-1,), ("mean",), (True,)])
def test_the_reduction_of_a_loss_is_a_number(loss, reduction):
    same(lambda t, leaf: LOSSES[loss](t, leaf, *reduction))


def test_a_poisson_loss_says_all_its_options():
    same(lambda t, leaf: t.poisson_nll_loss(leaf(A), t.tensor(P)))


NUMBERS = [0, 2, 1, 5, 1]


@pytest.mark.parametrize("mode", [0, 1, 2, 3, "mean"])
@pytest.mark.parametrize("starts", [[0, 2, 2, 4], [0, 2, 2, 4, 5]])
@pytest.mark.parametrize("padding", [None, 1, -5])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_bags_have_four_results(mode, starts, padding, dtype):
    def program(t, leaf):
        table = leaf(random(6, 3).astype(dtype))
        options = () if padding is None else (padding,)
        last = len(starts) == 5
        return t.embedding_bag(
            table, t.tensor(NUMBERS), t.tensor(starts), False, mode, False, None, last, *options
        )

    same(program)


@pytest.mark.parametrize("mode", [0, 1])
def test_bags_with_weights(mode):
    same(
        lambda t, leaf: t.embedding_bag(
            leaf(random(6, 3)),
            t.tensor(NUMBERS, dtype=t.int32),
            t.tensor([0, 3], dtype=t.int32),
            mode=mode,
            per_sample_weights=leaf(random(5)) if mode == 0 else None,
        )
    )


@pytest.mark.parametrize("mode", [0, 1, 2])
def test_empty_bags(mode):
    none = numpy.zeros(0, int)
    same(
        lambda t, leaf: t.embedding_bag(
            leaf(random(6, 3)), t.tensor(none), t.tensor([0, 0]), mode=mode
        )
    )


def test_a_table_by_columns_names_the_bags():
    same(
        lambda t, leaf: t.embedding_bag(
            leaf(random(3, 6).astype("f")).t(), t.tensor(NUMBERS), t.tensor([0, 3])
        )
    )


@pytest.mark.parametrize("norm", ["batch_norm", "instance_norm"])
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("length", [1, 4])
def test_norms_take_scale_and_shift_before_the_statistics(norm, training, length):
    def program(t, leaf):
        mean, var = t.tensor(random(3, seed=5)), t.tensor(P[0])
        x, scale, shift = leaf(random(1, 3, length)), leaf(B[0]), leaf(C[0])
        out = getattr(t, norm)(x, scale, shift, mean, var, training, 0.1, 1e-5, True)
        return out, mean, var

    same(program)
    same(
        lambda t, leaf: getattr(t, norm)(
            leaf(random(2, 3, length)), None, None, None, None, training, 0.1, 1e-5, False
        )
    )
