"""nn.functional against torch: options, dtypes, derivatives of both orders, errors."""

import itertools

import numpy
import pytest

import pullback

torch = pytest.importorskip("torch")

from tests.differential.compared import (
    assert_close,
    assert_same_outcome,
    compare,
    values,
)

REDUCTIONS = ["mean", "sum", "none"]
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def randn(*shape, seed=0, dtype="float64", scale=2):
    random = numpy.random.default_rng([seed, *shape])
    made = random.standard_normal(shape) * scale
    if dtype.startswith("complex"):
        made = made + 1j * random.standard_normal(shape)
    return numpy.asarray(made, dtype)


def both(name, arrays, *args, fixed=(), orders=2, **options):
    """Compare a function of the name with these tensors first and these options after."""
    compare(
        lambda *given: getattr(pullback.nn.functional, name)(*given, *args, **options),
        lambda *given: getattr(torch.nn.functional, name)(*given, *args, **options),
        arrays,
        fixed=fixed,
        orders=orders,
    )


# Classes ------------------------------------------------------------------------------------------

SCORES = [(3, 4), (4,), (3, 4, 5), (3, 4, 2, 5), (0, 4), (200, 4), (3, 4, 0)]


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("shape", SCORES)
@pytest.mark.parametrize("name", ["cross_entropy", "nll_loss"])
def test_class_losses_are_torchs_with_every_option(name, shape, reduction):
    where = shape[:1] + shape[2:] if len(shape) > 1 else ()
    target = numpy.random.default_rng(1).integers(0, 4, where)
    ignoring = target.copy()
    ignoring.reshape(-1)[:1] = -100
    weight = abs(randn(4, seed=2))
    for dtype in ("float64", "float32"):
        scores = randn(*shape, dtype=dtype)
        both(name, [scores, target], reduction=reduction)
        both(name, [scores, ignoring, weight.astype(dtype)], reduction=reduction, fixed=(2,))
        both(name, [scores, target], reduction=reduction, ignore_index=1)


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("shape", [(3, 4), (4,), (3, 4, 5)])
def test_smoothed_and_probable_targets_are_torchs(shape, reduction):
    where = shape[:1] + shape[2:] if len(shape) > 1 else ()
    target = numpy.random.default_rng(1).integers(0, 4, where)
    weight = abs(randn(4, seed=2))
    scores, probabilities = randn(*shape), abs(randn(*shape, seed=3))
    for smoothing in (0.0, 0.3):
        options = {"reduction": reduction, "label_smoothing": smoothing}
        both("cross_entropy", [scores, target], **options)
        both("cross_entropy", [scores, target], ignore_index=1, **options)
        both("cross_entropy", [scores, target, weight], fixed=(2,), **options)
        both("cross_entropy", [scores, probabilities], **options)
        both("cross_entropy", [scores, probabilities, weight], fixed=(2,), **options)


# Pairs --------------------------------------------------------------------------------------------

LOSSES = {
    "mse_loss": [{}],
    "l1_loss": [{}],
    "smooth_l1_loss": [{}, {"beta": 0.5}, {"beta": 0.0}, {"beta": 2.0}],
    "huber_loss": [{}, {"delta": 0.5}],
    "soft_margin_loss": [{}],
}


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize("name", LOSSES)
def test_losses_of_pairs_are_torchs(name, reduction):
    fixed = (1,) if name == "soft_margin_loss" else ()
    for options, dtype in itertools.product(LOSSES[name], ("float64", "float32")):
        arrays = [randn(3, 4, dtype=dtype), randn(3, 4, seed=1, dtype=dtype)]
        both(name, arrays, fixed=fixed, reduction=reduction, **options)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_losses_of_probabilities_are_torchs(reduction):
    def sigmoid(x):
        return 1 / (1 + numpy.exp(-x))

    p, q, w = sigmoid(randn(3, 4)), sigmoid(randn(3, 4, seed=1)), abs(randn(3, 4, seed=2))
    options = {"reduction": reduction}
    both("binary_cross_entropy", [p, q], **options)
    both("binary_cross_entropy", [p, q, w[0]], fixed=(2,), **options)
    both("binary_cross_entropy_with_logits", [randn(3, 4) * 5, q], **options)
    compare(
        lambda x, t, a, b: pullback.nn.functional.binary_cross_entropy_with_logits(
            x, t, a, pos_weight=b, **options
        ),
        lambda x, t, a, b: torch.nn.functional.binary_cross_entropy_with_logits(
            x, t, a, pos_weight=b, **options
        ),
        [randn(3, 4), q, w[0], w[1]],
        fixed=(2, 3),
    )
    both("kl_div", [numpy.log(p), q], **options)
    both("kl_div", [numpy.log(p), numpy.log(q)], log_target=True, **options)
    both("poisson_nll_loss", [randn(3, 4), w * 3], fixed=(1,), **options)
    both("poisson_nll_loss", [w, w * 3], fixed=(1,), log_input=False, **options)
    both("poisson_nll_loss", [randn(3, 4), w * 3], fixed=(1,), full=True, **options)
    both("gaussian_nll_loss", [randn(3, 4), randn(3, 4, seed=1), w], **options)
    both("gaussian_nll_loss", [randn(3, 4), randn(3, 4, seed=1), w[:, 0]], full=True, **options)


@pytest.mark.parametrize("reduction", REDUCTIONS)
def test_losses_with_margins_are_torchs(reduction):
    a, b, c = (randn(3, 4, seed=n) for n in range(3))
    signs, row = numpy.sign(randn(3, 4, seed=4)), numpy.sign(randn(3, seed=5))
    options = {"reduction": reduction}
    both("hinge_embedding_loss", [a, signs], fixed=(1,), **options)
    both("margin_ranking_loss", [a, b, signs], fixed=(2,), margin=0.3, **options)
    both("cosine_embedding_loss", [a, b, row], fixed=(2,), margin=0.1, **options)
    both("multilabel_soft_margin_loss", [a, (signs > 0) * 1.0], fixed=(1,), **options)
    for p in (1, 2):
        both("multi_margin_loss", [a, numpy.array([0, 3, 1])], p=p, orders=1, **options)
    listed = numpy.array([[0, 3, -1, 2], [-1, 0, 0, 0], [1, 2, 3, 0]])
    both("multilabel_margin_loss", [a, listed], orders=1, **options)
    for swap in (False, True):
        both("triplet_margin_loss", [a, b, c], swap=swap, **options)
        both("triplet_margin_with_distance_loss", [a, b, c], swap=swap, **options)


# Norms --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(
    ("shape", "last"), [((3, 5), 1), ((2, 3, 5), 2), ((5,), 1), ((0, 5), 1), ((3, 1), 1)]
)
def test_layer_and_rms_norm_are_torchs(shape, last, dtype):
    sizes = shape[-last:]
    x, w, b = (randn(*s, seed=n, dtype=dtype) for n, s in enumerate((shape, sizes, sizes)))
    compare(
        lambda x, w, b: pullback.nn.functional.layer_norm(x, sizes, w, b),
        lambda x, w, b: torch.nn.functional.layer_norm(x, sizes, w, b),
        [x, w, b],
    )
    both("layer_norm", [x], sizes)
    both("rms_norm", [x], sizes, eps=0.1)
    compare(
        lambda x, w: pullback.nn.functional.rms_norm(x, sizes, w),
        lambda x, w: torch.nn.functional.rms_norm(x, sizes, w),
        [x, w],
    )


@pytest.mark.parametrize("shape", [(5, 4), (3, 4, 5), (3, 4, 2, 3)])
def test_batch_group_and_instance_norm_are_torchs(shape):
    x, w, b = randn(*shape), randn(4, seed=1), randn(4, seed=2)
    for training in (True, False):
        running = [(randn(4, seed=3), randn(4, seed=4) ** 2 + 0.5) for _ in range(2)]
        ours = [pullback.tensor(one) for one in running[0]]
        theirs = [torch.tensor(one) for one in running[1]]
        options = {"training": training, "momentum": 0.3}
        compare(
            lambda x, w, b, o=options, r=ours: pullback.nn.functional.batch_norm(x, *r, w, b, **o),
            lambda x, w, b, o=options, r=theirs: torch.nn.functional.batch_norm(x, *r, w, b, **o),
            [x, w, b],
        )
        for one, other in zip(ours, theirs, strict=True):
            assert_close(one, other, "running statistics")
    both("group_norm", [x], 2)
    if len(shape) > 2:
        both("instance_norm", [x])
        both("local_response_norm", [x], 3, 0.5, 0.7, 1.1)


# Sequences ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("reduction", REDUCTIONS)
@pytest.mark.parametrize(("frames", "batch", "labels"), [(5, 2, 2), (10, 3, 4), (7, 1, 3)])
def test_ctc_loss_is_torchs(frames, batch, labels, reduction):
    random = numpy.random.default_rng([frames, batch])
    scores = randn(frames, batch, 5)
    scores = scores - numpy.log(numpy.exp(scores).sum(-1, keepdims=True))
    targets = random.integers(1, 5, (batch, labels))
    counts = random.integers(0, labels + 1, batch)
    lengths = numpy.minimum(frames, 2 * counts + 1)
    arrays = [scores, targets, lengths, counts]
    both("ctc_loss", arrays, reduction=reduction, orders=1)
    both("ctc_loss", [scores, targets - 1, lengths, counts], 4, reduction, orders=1)
    in_one_row = numpy.concatenate([row[:n] for row, n in zip(targets, counts, strict=True)])
    both("ctc_loss", [scores, in_one_row, lengths, counts], reduction=reduction, orders=1)
    too_short = [scores, numpy.ones_like(targets), lengths * 0 + 2, counts * 0 + labels]
    both("ctc_loss", too_short, reduction=reduction, zero_infinity=True, orders=1)
    # A blank among the labels; not the last one, at whose frame torch leaves a path out of the sum.
    inside = targets.copy()
    inside[:, : labels - 1] = random.integers(0, 5, (batch, labels - 1))
    whole = [scores, inside, lengths * 0 + frames, counts * 0 + labels]
    both("ctc_loss", whole, reduction=reduction, orders=1)
    ends = [scores, targets * 0, lengths * 0 + frames, counts * 0 + labels]
    both("ctc_loss", ends, reduction=reduction, orders=0)


@pytest.mark.parametrize("need_weights", [True, False])
@pytest.mark.parametrize("extra", [(False, False), (True, False), (False, True)])
def test_attention_with_heads_is_torchs(extra, need_weights):
    with_bias, add_zero = extra
    length, keys, batch, width, heads = 3, 5, 2, 6, 2
    shapes = [(length, batch, width), (keys, batch, width), (keys, batch, width)]
    shapes += [(3 * width, width), (3 * width,), (width, width), (width,)]
    arrays = [randn(*shape, seed=n, scale=1) for n, shape in enumerate(shapes)]
    arrays += [randn(length, keys, seed=8), numpy.arange(batch * keys).reshape(batch, keys) > 7]
    arrays += [randn(1, 1, width, seed=9), randn(1, 1, width, seed=10)] if with_bias else []

    def attend(library):
        def call(q, k, v, w, b, out_w, out_b, mask, padding, *bias):
            return library.nn.functional.multi_head_attention_forward(
                *(q, k, v, width, heads, w, b, *(bias or (None, None)), add_zero, 0.0),
                *(out_w, out_b, True, padding, need_weights, mask),
            )[0]

        return call

    compare(attend(pullback), attend(torch), arrays)


# Rows, attention, distances -----------------------------------------------------------------------


@pytest.mark.parametrize("options", [{}, {"padding_idx": 1}, {"padding_idx": -1}])
@pytest.mark.parametrize("shape", [(3,), (2, 3), (), (50,)])
def test_embedding_is_torchs(shape, options):
    index = numpy.asarray(numpy.random.default_rng(0).integers(0, 5, shape))
    both("embedding", [index, randn(5, 3)], **options)


@pytest.mark.parametrize("mode", ["sum", "mean", "max"])
def test_embedding_bag_is_torchs(mode):
    rows = numpy.array([[0, 1, 5, 2], [3, 4, 0, 2]])
    both("embedding_bag", [rows, randn(6, 3)], mode=mode, orders=1)
    both("embedding_bag", [rows, randn(6, 3)], mode=mode, padding_idx=1, orders=1)
    offsets = numpy.array([0, 2, 2])
    both("embedding_bag", [rows[0], randn(6, 3), offsets], mode=mode, orders=1)


@pytest.mark.parametrize("shape", [(5, 4), (2, 5, 4), (2, 3, 5, 4)])
def test_attention_is_torchs(shape):
    q, k, v = randn(*shape), randn(*shape[:-2], 6, 4, seed=1), randn(*shape[:-2], 6, 3, seed=2)
    name = "scaled_dot_product_attention"
    seen = numpy.random.default_rng(3).random((5, 6)) > 0.3
    seen[1] = False
    both(name, [q, k, v])
    both(name, [q, k, v], is_causal=True, scale=0.3)
    both(name, [q, k, v, seen])
    both(name, [q, k, v, randn(5, 6, seed=4)])


@pytest.mark.parametrize("p", [1.0, 2.0, 3.0, numpy.inf])
def test_distances_are_torchs(p):
    a, b = randn(3, 4), randn(3, 4, seed=1)
    both("pairwise_distance", [a, b], p)
    both("normalize", [a], p)
    both("pdist", [a], p, orders=1)
    both("cosine_similarity", [a, b])
    compare(
        lambda x, y: pullback.cdist(x, y, p),
        lambda x, y: torch.cdist(x, y, p),
        [randn(5, 3, 4), randn(2, 4, seed=1)],
        orders=1,
    )


@pytest.mark.parametrize("dtype", ["float64", "complex128", "float32"])
@pytest.mark.parametrize("shape", [(2, 3), (3,), (5, 2, 3), (0, 3)])
def test_linear_is_torchs(shape, dtype):
    x, w, b = (randn(*s, seed=n, dtype=dtype) for n, s in enumerate((shape, (4, 3), (4,))))
    both("linear", [x, w, b])
    both("linear", [x, w])
    both("linear", [x, w[0]])


# Activations --------------------------------------------------------------------------------------

ACTIVATIONS = """
    celu elu gelu glu hardshrink hardswish hardtanh leaky_relu logsigmoid mish relu relu6 selu silu
    softplus softshrink softsign tanhshrink
"""


@pytest.mark.parametrize("name", ACTIVATIONS.split())
def test_activations_are_torchs_also_at_corners_and_ends(name):
    points = numpy.array([[0, -3, 3, 6, -0.0, 0.5, -0.5, 1, -1, 20, -20, 40]])
    for dtype in ("float64", "float32"):
        both(name, [randn(3, 6, dtype=dtype)])
        both(name, [points.astype(dtype)])
    both(name, [numpy.array([numpy.inf, -numpy.inf, numpy.nan, 1e30, -1e30, 1e-30])], orders=1)


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "softmin"])
def test_softmax_is_torchs(name):
    shapes = [(3, 5), (2, 3, 4), (5,), (0, 3)]
    for shape, dtype in itertools.product(shapes, ["float64", "float32"]):
        for dim in range(len(shape)):
            both(name, [randn(*shape, dtype=dtype)], dim)
    extremes = [[1.0, -numpy.inf, 2], [-numpy.inf] * 3, [numpy.nan, 1, 2], [1e30, 1, 2.0]]
    both(name, [numpy.array(extremes)], 1, orders=1)


EXPRESSIONS = """
F.softmax(torch.ones(2, 3).long(), 1)
F.softmax(torch.ones(2, 3), 2)
F.softmax(torch.ones(2, 3))
F.layer_norm(torch.ones(2, 3), 3)
F.layer_norm(torch.ones(2, 3), [2])
F.layer_norm(torch.ones(2, 3), [])
F.layer_norm(torch.ones(2, 3), [3], torch.ones(2))
F.layer_norm(torch.ones(2, 3).long(), [3])
F.layer_norm(torch.ones(2, 3), [3], torch.ones(3).double())
F.group_norm(torch.ones(2, 4, 5), 3)
F.group_norm(torch.ones(4), 2)
F.batch_norm(torch.ones(2, 4), None, None)
F.batch_norm(torch.ones(1, 4), None, None, training=True)
F.batch_norm(torch.ones(2, 4), torch.zeros(3), torch.ones(3))
F.instance_norm(torch.ones(2, 4, 1))
F.local_response_norm(torch.ones(2, 4), 2)
F.linear(torch.ones(2, 3), torch.ones(4, 2))
F.linear(torch.ones(2, 3), torch.ones(4, 3), torch.ones(3))
F.linear(torch.ones(2, 3), torch.ones(4, 3), torch.ones(1))
F.linear(torch.ones(2, 3), torch.ones(4, 3), torch.ones(2, 4))
F.linear(torch.ones(2, 3), torch.ones(4, 3).double())
F.linear(torch.ones(2, 3).long(), torch.ones(4, 3).long())
F.linear(torch.ones(2, 3), torch.ones(3), torch.ones(()))
F.cross_entropy(torch.ones(3, 4), torch.tensor([0, 1]))
F.cross_entropy(torch.ones(3, 4), torch.tensor([0, 1, 5]))
F.cross_entropy(torch.ones(3, 4), torch.tensor([0, 1, -1]))
F.cross_entropy(torch.ones(3, 4), torch.ones(3))
F.cross_entropy(torch.ones(3, 4), torch.ones(3).int())
F.cross_entropy(torch.ones(3, 4), torch.ones(3, dtype=torch.uint8))
F.cross_entropy(torch.ones(3, 4), torch.ones(3, 4).long())
F.cross_entropy(torch.ones(3, 4), torch.ones(3, 4), ignore_index=1)
F.cross_entropy(torch.ones(3, 4), torch.ones(3, 5))
F.cross_entropy(torch.ones(()), torch.tensor(1))
F.cross_entropy(torch.ones(3, 4, 5), torch.ones(3, 4).long())
F.cross_entropy(torch.ones(3, 4), torch.tensor([0, 1, 2]), torch.ones(3))
F.cross_entropy(torch.ones(3, 4), torch.tensor([0, 1, 2]), torch.ones(4).double())
F.cross_entropy(torch.ones(3, 4), torch.tensor([0, 1, 2]), reduction='foo')
F.cross_entropy(torch.ones(3, 4), torch.tensor([0, 1, 2]), label_smoothing=2.0)
F.cross_entropy(torch.ones(3, 4).long(), torch.tensor([0, 1, 2]))
F.nll_loss(torch.ones(3, 4), torch.tensor([0, 1]))
F.nll_loss(torch.ones(3, 4, 5), torch.ones(3, 4).long())
F.nll_loss(torch.ones(0, 4), torch.ones(0).long(), reduction='sum')
F.mse_loss(torch.ones(3, 4), torch.ones(5))
F.mse_loss(torch.ones(3, 4), torch.ones(3, 4).double())
F.mse_loss(torch.ones(3).long(), torch.ones(3).long())
F.smooth_l1_loss(torch.ones(3), torch.ones(3), beta=-1.0)
F.huber_loss(torch.ones(3), torch.ones(3), delta=0.0)
F.binary_cross_entropy(torch.ones(3) * 2, torch.ones(3))
F.binary_cross_entropy(torch.ones(3, 4), torch.ones(4))
F.binary_cross_entropy_with_logits(torch.ones(3, 4), torch.ones(4))
F.gaussian_nll_loss(torch.ones(3, 4), torch.ones(3, 4), -torch.ones(3, 4))
F.gaussian_nll_loss(torch.ones(3, 4), torch.ones(3, 4), torch.ones(2, 2))
F.margin_ranking_loss(torch.ones(3, 4), torch.ones(3), torch.ones(3, 4))
F.cosine_embedding_loss(torch.ones(3, 4), torch.ones(3, 4), torch.ones(3, 4))
F.multi_margin_loss(torch.ones(3, 4), torch.tensor([0, 1, 2]), p=3)
F.triplet_margin_loss(*[torch.ones(3, 4)] * 3, margin=-1)
F.one_hot(torch.tensor([0, 1, 2]))
F.one_hot(torch.tensor([0, 1, 2]), 2)
F.one_hot(torch.ones(3))
F.embedding(torch.tensor([0, 1, 4]), torch.ones(3, 4))
F.embedding(torch.tensor([0, 1, -1]), torch.ones(3, 4))
F.embedding(torch.ones(3), torch.ones(3, 4))
F.embedding(torch.tensor([0, 1]), torch.ones(3, 4), padding_idx=5)
F.embedding(torch.tensor([0, 1]), torch.ones(3))
F.embedding(torch.tensor([0, 1]).int(), torch.ones(3, 4))
F.embedding_bag(torch.tensor([0, 1, 2]), torch.ones(4, 3), torch.tensor([1, 2]))
F.embedding_bag(torch.tensor([0, 1, 2]), torch.ones(4, 3))
F.embedding_bag(torch.tensor([[0, 1]]), torch.ones(4, 3), torch.tensor([0]))
F.embedding_bag(torch.tensor([[0, 1]]), torch.ones(4, 3), mode='foo')
F.dropout(torch.ones(3), 1.5)
F.dropout(torch.ones(3), 1.0)
F.dropout(torch.ones(3), 0.5, False)
F.dropout(torch.ones(3).long(), 0.5)
F.dropout1d(torch.ones(2, 3, 4, 5))
F.gelu(torch.ones(3).long())
F.gelu(torch.ones(3), approximate='foo')
F.gelu(torch.ones(3), 'tanh')
F.relu(torch.ones(3).long())
F.hardtanh(torch.ones(3).long())
F.hardtanh(torch.ones(3), 1, -1)
F.threshold(torch.ones(3).long(), 0.1, 20)
F.softsign(torch.ones(3).long())
F.softshrink(torch.ones(3), -1)
F.prelu(torch.ones(2, 4), torch.ones(3))
F.prelu(torch.ones(2, 4), torch.ones(2, 4))
F.glu(torch.ones(2, 3))
F.glu(torch.ones(()))
F.celu(torch.ones(2), 0)
F.rrelu(torch.ones(2), 0.5, 0.1)
"""


@pytest.mark.parametrize("expression", EXPRESSIONS.strip().splitlines())
def test_expressions_come_out_as_torchs(expression):
    assert_same_outcome(expression)


def test_parameter_is_torchs():
    made = [library.nn.Parameter(library.tensor([1.0, 2.0])) for library in (pullback, torch)]
    assert repr(made[0]) == repr(made[1])
    for one in made:
        (one * one).sum().backward()
    assert_close(made[0].grad, made[1].grad, "gradient")
    assert values(made[0]).tolist() == values(made[1]).tolist()
