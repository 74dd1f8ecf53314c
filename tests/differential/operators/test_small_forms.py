"""Numbers and 0-d tensors where others are usual, dtypes that kernels lack, and empty images."""

import itertools
import warnings

import numpy
import pytest

import pullback

torch = pytest.importorskip("torch")

ERRORS = (RuntimeError, TypeError, ValueError, IndexError)


def outcome(t, run, args):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            made = run(t, *args)
        except ERRORS as error:
            return type(error)
    results = made if isinstance(made, tuple | list) else [made]
    return [(str(one.dtype), tuple(one.shape), shown(one)) for one in results]


def shown(tensor):
    values = tensor.detach()
    values = values.to({"torch.complex32": "complex64"}.get(str(tensor.dtype), values.dtype))
    return numpy.round(values.double().numpy(), 3).tolist()


def same(run, *args):
    assert outcome(pullback, run, args) == outcome(torch, run, args)


@pytest.mark.parametrize("numbers", [(5.0, 2.0), (5, 2), (-5, 2), (5, 2.5), (True, 2)])
@pytest.mark.parametrize("name", ["add", "sub", "mul", "true_divide", "floor_divide", "div"])
def test_two_numbers_are_as_two_tensors(name, numbers):
    same(lambda t: getattr(t, name)(*numbers))
    if name == "div":
        for mode in ("trunc", "floor"):
            same(lambda t, mode: t.div(*numbers, rounding_mode=mode), mode)


@pytest.mark.parametrize("weight", ["float16", "float32", "float64", "int64"])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_a_single_weight_of_lerp_has_any_dtype(dtype, weight):
    def given(t):
        x = t.ones(2, dtype=getattr(t, dtype))
        return x, x * 3, t.tensor(1).to(getattr(t, weight))

    same(lambda t: t.lerp(*given(t)))
    same(lambda t: given(t)[0].lerp_(*given(t)[1:]))
    same(lambda t: t.lerp(given(t)[0][0], given(t)[1][0], given(t)[2]))
    same(lambda t: t.lerp(*given(t)[:2], given(t)[2][None]))


def test_one_number_takes_slices():
    for index, source in itertools.product(([0], 0, [0, 0], [1]), ([5.0], 5.0, [5.0, 6.0])):
        same(lambda t, i, s: t.tensor(1.0).index_copy(0, t.tensor(i), t.tensor(s)), index, source)
        same(lambda t, i, s: t.tensor(1.0).index_copy_(-1, t.tensor(i), t.tensor(s)), index, source)
    for t in (pullback, torch):
        x, s = t.tensor(1.0, requires_grad=True), t.tensor([5.0], requires_grad=True)
        t.index_copy(x, 0, t.tensor([0]), s).backward()
        assert (x.grad.tolist(), s.grad.tolist()) == (0.0, [1.0])


@pytest.mark.parametrize("dtype", ["int64", "uint8", "bool", "float32", "complex64"])
def test_factors_of_addr_have_the_kind_of_the_result(dtype):
    for beta, alpha in ((2.0, 1), (1, 2.0), (True, 1), (1, True), (2, 2)):

        def run(t, beta=beta, alpha=alpha):
            v = t.ones(2).to(getattr(t, dtype))
            made = t.addr(t.ones(2, 2).to(getattr(t, dtype)), v, v, beta=beta, alpha=alpha)
            return made.real if made.is_complex() else made

        same(run)


POOLS = {
    "max_pool1d": lambda f, x: f.max_pool1d(x[0], 2),
    "max_pool1d with places": lambda f, x: f.max_pool1d(x[0], 2, return_indices=True),
    "max_pool2d": lambda f, x: f.max_pool2d(x, 2),
    "max_pool3d": lambda f, x: f.max_pool3d(x[None], 1),
    "avg_pool1d": lambda f, x: f.avg_pool1d(x[0], 2),
    "avg_pool2d": lambda f, x: f.avg_pool2d(x, 2),
    "avg_pool3d": lambda f, x: f.avg_pool3d(x[None], 1),
    "lp_pool2d": lambda f, x: f.lp_pool2d(x, 2, 2),
    "adaptive_max_pool1d": lambda f, x: f.adaptive_max_pool1d(x[0], 2),
    "adaptive_max_pool2d": lambda f, x: f.adaptive_max_pool2d(x, 2),
    "adaptive_max_pool3d": lambda f, x: f.adaptive_max_pool3d(x[None], 1),
    "adaptive_avg_pool2d": lambda f, x: f.adaptive_avg_pool2d(x, 2),
    "max_unpool2d": lambda f, x: f.max_unpool2d(x, x.long() * 0, 1),
    "fractional_max_pool2d": lambda f, x: f.fractional_max_pool2d(x, 2, output_size=2),
}


@pytest.mark.parametrize(
    "dtype", ["int8", "uint8", "int16", "int32", "int64", "bool", "float32", "float64"]
)
@pytest.mark.parametrize("name", POOLS)
def test_pools_take_torchs_dtypes(name, dtype):
    same(lambda t: POOLS[name](t.nn.functional, t.ones(1, 1, 4, 4).to(getattr(t, dtype))))


EMPTY = {
    **{f"adaptive_{kind}_pool{d}d": (kind, d) for kind in ("avg", "max") for d in (1, 2, 3)},
}


@pytest.mark.parametrize("name", EMPTY)
def test_adaptive_pools_of_nothing_are_empty_where_torchs_are(name):
    _, dims = EMPTY[name]
    sides = (4,) * dims
    for lead in ((0,), (0, 1), (1, 0), (0, 0)):

        def run(t, shape=(*lead, *sides)):
            x = t.zeros(shape, requires_grad=True)
            made = getattr(t.nn.functional, name)(x, 2)
            if len(shape) == dims + 1 or shape[1]:  # torch has no backward without channels
                made.sum().backward()
            return made

        same(run)


def test_fractional_pools_may_have_no_windows():
    for size in ((0, 1), (1, 0), (0, 0), (-1, 1)):
        same(lambda t, n: t.nn.functional.fractional_max_pool2d(t.ones(1, 2, 4, 4), 2, n), size)
    same(lambda t: t.nn.functional.fractional_max_pool3d(t.ones(1, 2, 4, 4, 4), 2, (0, 1, 1)))


def test_a_last_offset_may_leave_numbers_out():
    def run(t):
        table = t.arange(12.0).view(4, 3)
        return t.nn.functional.embedding_bag(
            t.tensor([0, 1, 2, 3]), table, t.tensor([0, 3, 3]), mode="sum", include_last_offset=True
        )

    same(run)


@pytest.mark.parametrize("shape", [(3,), (4, 1), (2, 2)])
def test_bags_want_a_weight_for_each_number(shape):
    same(
        lambda t: t.nn.functional.embedding_bag(
            t.tensor([0, 1, 2, 3]),
            t.ones(4, 3),
            t.tensor([0, 2]),
            mode="sum",
            per_sample_weights=t.ones(shape),
        )
    )


@pytest.mark.parametrize(
    "dtype", ["complex64", "complex128", "float32", "float64", "int64", "bool"]
)
def test_absolute_values_go_into_what_torch_lets_them(dtype):
    def run(t):
        made = t.abs(t.tensor([3 + 4j]), out=t.zeros(1, dtype=getattr(t, dtype)))
        return t.view_as_real(made) if made.is_complex() else made

    same(run)


def test_integers_beside_floats_have_an_angle():
    kinds = ("int8", "int64", "bool", "float32", "float64")
    for a, b in itertools.product(kinds, repeat=2):
        same(
            lambda t, a, b: t.nn.functional.cosine_similarity(
                t.ones(2, 3).to(getattr(t, a)), t.ones(2, 3).to(getattr(t, b))
            ),
            *(a, b),
        )


@pytest.mark.parametrize("p", [None, 2, -2, "fro", "nuc", 1, -1, float("inf")])
def test_the_condition_of_a_singular_matrix_is_infinite(p):
    singular = [[1.0, 0.0], [0.0, 0.0]]
    for given in (singular, [singular, [[1.0, 0.0], [0.0, 2.0]]]):
        same(lambda t, a: t.nan_to_num(t.linalg.cond(t.tensor(a), p), posinf=1e3), given)


@pytest.mark.parametrize("shape", [(1, 4), (5, 1), (), (5, 4), (4,)])
def test_the_matrix_taken_away_from_a_low_rank_one_broadcasts(shape):
    a = numpy.random.default_rng(0).random((5, 4))
    m = numpy.random.default_rng(1).random(shape)
    for turned in (False, True):
        made = []
        for t in (pullback, torch):
            matrix, less = t.tensor(a), t.tensor(m)
            if turned:
                matrix, less = matrix.mT, less.expand(5, 4).mT
            made.append(t.svd_lowrank(matrix, q=4, M=less)[1].numpy())
        numpy.testing.assert_allclose(*made, rtol=1e-8)


def test_tensordot_gives_its_target_a_history():
    for t in (pullback, torch):
        a, out = t.ones(5, 4, requires_grad=True), t.empty(1)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = t.tensordot(a, t.ones(4, 2), dims=([1], [0]), out=out)
        assert made is out
        out.sum().backward()
        assert a.grad.tolist() == [[2.0] * 4] * 5


@pytest.mark.parametrize("ord", [2, 1, 3, 0, float("inf")])
def test_norms_of_complex_halves_are_halves(ord):
    def run(t):
        return t.linalg.vector_norm(t.tensor([3.0, 4.0]).to(t.complex32), ord)

    same(run)


def test_earlier_norms_answer():
    m = [[3.0, 0.0], [0.0, 4.0]]
    for run in (
        lambda t: t.nuclear_norm(t.tensor(m)),
        lambda t: t.nuclear_norm(t.tensor(m), True),
        lambda t: t.nuclear_norm(t.tensor([m]), (1, 2), keepdim=True),
        lambda t: t.frobenius_norm(t.tensor(m), (0, 1)),
        lambda t: t.frobenius_norm(t.tensor(m), 1),
        lambda t: t.frobenius_norm(t.tensor(m), [], True),
        lambda t: t.frobenius_norm(t.tensor([m]), (0, 1, 2)),
    ):
        same(run)


@pytest.mark.parametrize("name", ["eig", "symeig", "lstsq", "solve", "matrix_rank"])
def test_what_torch_has_dropped_refuses(name):
    same(lambda t: getattr(t, name)(t.eye(2), t.eye(2)))


@pytest.mark.parametrize("order", ["inf", "2", float("inf"), 1])
def test_the_order_of_a_norm_may_be_a_word(order):
    def run(t):
        p = t.ones(2, requires_grad=True)
        p.grad = t.tensor([3.0, 5.0])
        return t.nn.utils.clip_grad_norm_([p], 1.0, norm_type=order), p.grad

    same(run)


def test_a_generator_that_is_used_up_is_noticed():
    for t in (pullback, torch):
        with pytest.warns(UserWarning, match="empty generator"):
            t.nn.utils.clip_grad_norm_((p for p in ()), 1.0)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            t.nn.utils.clip_grad_norm_([], 1.0)


def test_ranking_broadcasts_in_the_form_of_numbers():
    for shape in ((6,), (6, 6), (1, 6), (5,)):
        for other, *reduction in (((6, 6),), ((6,), 2)):

            def run(t, shape=shape, other=other, reduction=reduction):
                given = t.ones(6, 6), t.zeros(other), t.ones(shape)
                return t.margin_ranking_loss(*given, 1.5, *reduction)

            same(run)


def test_a_complex_number_is_no_narrower_than_complex64():
    for dtype in ("float16", "float32", "float64"):
        kinds = []
        for t in (pullback, torch):
            t.set_default_dtype(getattr(t, dtype))
            try:
                kinds.append(str(t.full((2,), 1j).dtype))
            finally:
                t.set_default_dtype(t.float32)
        assert kinds[0] == kinds[1]
