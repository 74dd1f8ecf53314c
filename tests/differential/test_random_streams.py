"""The same seed gives torch's numbers: every draw on both sides, and the words it used up."""

import numpy
import pytest

import pullback

torch = pytest.importorskip("torch")
pytest.importorskip("ml_dtypes")

FLOATS = ["float32", "float64", "float16", "bfloat16"]
DTYPES = [*FLOATS, "int8", "uint8", "int16", "int32", "int64", "bool"]
SIZES = [0, 1, 5, 15, 16, 17, 31, 100, 623, 1000]


def drawn(lib, program, seed=1):
    """What a program draws from a seed, and the numbers that come after it."""
    lib.manual_seed(seed)
    made = program(lib)
    made = made if isinstance(made, (list, tuple)) else [made]
    return [*made, lib.randint(0, 2**20, (4,)), lib.randn(3)]


def same(program, seed=1, ulps=0, rtol=None):
    """Both sides draw the same; `ulps` for sines and logarithms, which differ by library."""
    for ours, theirs in zip(
        drawn(pullback, program, seed), drawn(torch, program, seed), strict=True
    ):
        assert tuple(ours.shape) == tuple(theirs.shape)
        assert ours.stride() == theirs.stride()
        assert str(ours.dtype) == str(theirs.dtype)
        a, b = plain(ours), plain(theirs)
        if rtol is not None:
            numpy.testing.assert_allclose(a, b, rtol=rtol, atol=rtol)
        elif a.dtype.kind in "fc":
            near = (
                numpy.finfo(str(ours.dtype).removeprefix("torch.")).eps
                if narrow(ours)
                else (numpy.finfo(a.dtype).eps)
            )
            numpy.testing.assert_allclose(a, b, rtol=max(ulps, 2) * near, atol=4 * near)
        else:
            assert a.tolist() == b.tolist()


def narrow(tensor):
    return str(tensor.dtype) == "torch.float16"


def plain(tensor):
    tensor = tensor.detach()
    if str(tensor.dtype) in ("torch.float16", "torch.bfloat16"):
        tensor = tensor.float()
    return numpy.asarray(tensor.numpy())


def exactly(program, seed=1):
    """Both sides draw the same bits."""
    ours, theirs = drawn(pullback, program, seed), drawn(torch, program, seed)
    for one, other in zip(ours[:-1], theirs[:-1], strict=True):
        assert one.stride() == other.stride()
        assert str(one.dtype) == str(other.dtype)
        assert plain(one).tolist() == plain(other).tolist()


def empty(lib, shape, dtype):
    return lib.empty(shape, dtype=getattr(lib, dtype))


# Uniform numbers and integers: to the bit


@pytest.mark.parametrize("seed", [0, 7, 2**32 + 7, -3, 2**63])
def test_seeds(seed):
    exactly(lambda lib: lib.rand(700), seed)


@pytest.mark.parametrize("dtype", [*FLOATS, "complex64", "complex128"])
@pytest.mark.parametrize("size", SIZES)
def test_rand(dtype, size):
    exactly(lambda lib: lib.rand(size, dtype=getattr(lib, dtype)))


@pytest.mark.parametrize("dtype", [*FLOATS, "complex64"])
@pytest.mark.parametrize("bounds", [(), (-2.3, 4.7), (0.1, 0.7), (0.0, 3.0), (2.0, 2.0), (1, 1.01)])
def test_uniform(dtype, bounds):
    exactly(lambda lib: empty(lib, 500, dtype).uniform_(*bounds))


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.t(),
        lambda x: x[:, 1],
        lambda x: x[::2, 1:4],
        lambda x: x[::2, 1:4].t(),
        lambda x: x.reshape(4, 5, 6)[:, ::2].permute(2, 0, 1),
        lambda x: x.reshape(1, 20, 1, 6).transpose(0, 3),
    ],
)
@pytest.mark.parametrize(
    "fill",
    [
        lambda x: x.uniform_(),
        lambda x: x.normal_(),
        lambda x: x.random_(100),
        lambda x: x.exponential_(),
        lambda x: x.bernoulli_(0.4),
        lambda x: x.geometric_(0.4),
    ],
)
def test_views_are_filled_in_the_order_of_memory(view, fill):
    def program(lib):
        base = lib.zeros(20, 6)
        fill(view(base))
        return base

    same(program)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("bounds", [(), (1,), (2,), (100,), (3, 50), (-3, 50), (0, None)])
def test_random_(dtype, bounds):
    if dtype in ("uint8", "bool") and bounds == (-3, 50):
        bounds = (0, 2)
    if dtype == "bool" and bounds in ((100,), (3, 50)):
        bounds = (0, 1)
    exactly(lambda lib: empty(lib, 500, dtype).random_(*bounds))


@pytest.mark.parametrize(
    "bounds",
    [(0, 10), (-5, 7), (0, 2**28 - 1), (0, 2**28), (0, 2**31), (-(2**40), 2**41), (0, 2**63 - 1),
     (-(2**63), 2**63 - 1), (0, 64)],
)  # fmt: skip
def test_randint(bounds):
    exactly(lambda lib: lib.randint(*bounds, (700,)))


@pytest.mark.parametrize("dtype", [*DTYPES, "uint16", "uint32"])
def test_randint_in_every_dtype(dtype):
    exactly(lambda lib: lib.randint(0, 2, (700,), dtype=getattr(lib, dtype)))
    if dtype != "bool":
        exactly(lambda lib: lib.randint(3, 120, (700,), dtype=getattr(lib, dtype)))


@pytest.mark.parametrize("count", [0, 1, 2, 10, 1000, 1024, 5000, 100_000])
def test_randperm(count):
    exactly(lambda lib: lib.randperm(count))


@pytest.mark.parametrize("dtype", ["int16", "int32", "float32", "float16", "float64", "uint8"])
def test_randperm_in_other_dtypes(dtype):
    exactly(lambda lib: lib.randperm(200, dtype=getattr(lib, dtype)))


def test_like_another_tensor():
    for like in ("rand_like", "randn_like"):
        same(lambda lib, like=like: getattr(lib, like)(lib.zeros(5, 8).t()))
        same(lambda lib, like=like: getattr(lib, like)(lib.zeros(5, 8)))
    exactly(lambda lib: lib.randint_like(lib.zeros(5, 8).t(), 3, 9))


def test_draws_larger_than_a_block_and_across_its_end():
    def program(lib):
        made = []
        for count in (3, 620, 5, 1, 1250, 624, 10_000, 7, 20_000):
            made += [lib.rand(count), lib.rand(count, dtype=lib.float64), lib.randint(9, (count,))]
        return made

    exactly(program)


# Normal numbers: to the last place


@pytest.mark.parametrize("dtype", [*FLOATS, "complex64", "complex128"])
@pytest.mark.parametrize("size", SIZES)
def test_randn(dtype, size):
    same(lambda lib: lib.randn(size, dtype=getattr(lib, dtype)), ulps=8)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("size", [5, 40])
def test_normal_(dtype, size):
    same(lambda lib: empty(lib, size, dtype).normal_(3.3, 1.7), ulps=8)
    same(lambda lib: empty(lib, size, dtype).normal_(0, 1.7), ulps=8)


def test_the_second_of_a_pair_is_kept_for_later_draws():
    def program(lib):
        first = [lib.randn(3), lib.rand(5), lib.randn(20), lib.randn(1), lib.randn(2)]
        return [*first, lib.randn(1, dtype=lib.float64), lib.randn(8), lib.randn(300, 2)[:, 0]]

    same(program, ulps=8)


@pytest.mark.parametrize("size", [5, 40])
def test_normal_of_tensors(size):
    def program(lib):
        mean, std = lib.arange(size) * 1.0, lib.arange(size) + 0.5
        return [
            lib.normal(mean, std),
            lib.normal(mean, 2.0),
            lib.normal(2.0, std),
            lib.normal(mean[:, None], std),
            lib.normal(1.5, 2.5, (size, 2)),
        ]

    same(program, rtol=1e-5)


@pytest.mark.parametrize("dtype", FLOATS)
def test_distributions_in_place(dtype):
    def program(lib):
        return [
            empty(lib, 300, dtype).exponential_(2.5),
            empty(lib, 5, dtype).exponential_(),
            empty(lib, 300, dtype).cauchy_(1.5, 2.5),
            empty(lib, 300, dtype).log_normal_(0.5, 0.7),
            empty(lib, 300, dtype).geometric_(0.3),
        ]

    same(program, ulps=64)


@pytest.mark.parametrize("dtype", ["int64", "uint8", "int32"])
def test_geometric_integers(dtype):
    exactly(lambda lib: empty(lib, 300, dtype).geometric_(0.3))


# Choices


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("p", [0.0, 0.3, 0.5, 1.0])
def test_bernoulli_of_a_number(dtype, p):
    exactly(lambda lib: empty(lib, 700, dtype).bernoulli_(p))


@pytest.mark.parametrize("dtype", FLOATS)
def test_bernoulli_of_a_tensor(dtype):
    def program(lib):
        p = lib.linspace(0, 1, 300).to(getattr(lib, dtype))
        matrix = p.reshape(10, 30)
        return [
            lib.bernoulli(p),
            lib.bernoulli(matrix.t()),
            lib.bernoulli(p, 0.3),
            lib.empty(300).bernoulli_(p),
            lib.empty(300, dtype=lib.int64).bernoulli_(p),
            lib.empty(30, 10).t().bernoulli_(matrix),
            lib.empty(10, 30).bernoulli_(p[100]),
        ]

    exactly(program)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("replacement", [True, False])
@pytest.mark.parametrize("count", [1, 3, 6])
def test_multinomial(dtype, replacement, count):
    def program(lib):
        lib.rand(5)
        weights = lib.tensor([[0.1, 0.2, 0.3, 0.4, 1.0, 0.7], [0.5, 0.1, 0.2, 0.2, 3.0, 0.9]])
        weights = weights.to(getattr(lib, dtype))
        return [
            lib.multinomial(weights, count, replacement),
            lib.multinomial(weights[0], count, replacement),
            lib.multinomial(weights.t().contiguous().t(), count, replacement),
        ]

    exactly(program)


@pytest.mark.parametrize("dtype", FLOATS)
def test_poisson(dtype):
    def program(lib):
        rates = lib.tensor([0, 0.3, 1, 4, 9.9, 10, 12, 37.5, 400] * 40).to(getattr(lib, dtype))
        return [lib.poisson(rates), lib.poisson(rates.reshape(9, 40).t())]

    exactly(program)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_binomial(dtype):
    def program(lib):
        n = lib.tensor([0, 1, 5, 40, 200, 1000.0] * 35).to(getattr(lib, dtype))
        p = lib.tensor([0, 0.01, 0.3, 0.5, 0.7, 0.99, 1] * 30).to(getattr(lib, dtype))
        return lib.binomial(n, p)

    exactly(program)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_gamma(dtype):
    def program(lib):
        a = lib.tensor([0.01, 0.3, 1, 1.5, 4, 40, 1000.0] * 40).to(getattr(lib, dtype))
        drawn = [lib._standard_gamma(a), lib._standard_gamma(a.reshape(7, 40).t())]
        return [*drawn, lib._standard_gamma(a[:3]), lib._sample_dirichlet(a.reshape(40, 7))]

    same(program, ulps=8)


def test_the_normal_number_that_a_gamma_draw_leaves_is_taken_next():
    same(lambda lib: [lib._standard_gamma(lib.tensor([2.5])), lib.randn(1)])


FAMILIES = {
    "Gamma": lambda d, t: d.Gamma(t([0.5, 3.0]), t(2.0)),
    "Beta": lambda d, t: d.Beta(t([0.5, 3.0]), t(2.0)),
    "Dirichlet": lambda d, t: d.Dirichlet(t([0.5, 3.0, 2.0])),
    "Chi2": lambda d, t: d.Chi2(t([3.0, 5.0])),
    "StudentT": lambda d, t: d.StudentT(t([3.0, 5.0])),
    "FisherSnedecor": lambda d, t: d.FisherSnedecor(t([3.0, 5.0]), t(4.0)),
    "NegativeBinomial": lambda d, t: d.NegativeBinomial(t([3.0, 5.0]), t(0.4)),
    "InverseGamma": lambda d, t: d.InverseGamma(t([3.0]), t(1.0)),
    "LKJCholesky": lambda d, t: d.LKJCholesky(3),
    "VonMises": lambda d, t: d.VonMises(t([1.0]), t([3.0])),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_distributions_made_of_gamma_draws(name):
    same(lambda lib: FAMILIES[name](lib.distributions, lib.tensor).sample((20,)), rtol=1e-5)


# Layers


DROPS = {
    "dropout": lambda f, x: f.dropout(x, 0.3),
    "transposed": lambda f, x: f.dropout(x.transpose(0, 1), 0.3),
    "none": lambda f, x: f.dropout(x, 0.0),
    "all": lambda f, x: f.dropout(x, 1.0),
    "dropout1d": lambda f, x: f.dropout1d(x[:, :, :, 0], 0.3),
    "dropout1d of one": lambda f, x: f.dropout1d(x[0, :, :, 0], 0.3),
    "dropout2d": lambda f, x: f.dropout2d(x, 0.3),
    "dropout3d": lambda f, x: f.dropout3d(x[..., None], 0.3),
    "alpha": lambda f, x: f.alpha_dropout(x, 0.3, training=True),
    "feature alpha": lambda f, x: f.feature_alpha_dropout(x, 0.3, training=True),
    "rrelu": lambda f, x: f.rrelu(x - 60, 0.1, 0.3, training=True),
    "gumbel": lambda f, x: f.gumbel_softmax(x / 100),
    "hard gumbel": lambda f, x: f.gumbel_softmax(x / 100, hard=True, dim=1),
}


@pytest.mark.parametrize("name", DROPS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_random_layers(name, dtype):
    def program(lib):
        x = lib.arange(120.0, dtype=getattr(lib, dtype)).reshape(2, 5, 4, 3)
        return DROPS[name](lib.nn.functional, x)

    same(program, rtol=2e-6)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_dropout(dtype):
    exactly(lambda lib: lib.nn.functional.dropout(lib.ones(200, dtype=getattr(lib, dtype)), 0.3))


@pytest.mark.parametrize(("p", "train"), [(0.0, True), (0.3, True), (0.3, False), (1.0, True)])
def test_native_dropout(p, train):
    exactly(lambda lib: lib.native_dropout(lib.ones(40), p, train))


INITIALISERS = [
    lambda i, x: i.uniform_(x, -0.3, 0.7),
    lambda i, x: i.normal_(x, 0.5, 0.2),
    lambda i, x: i.trunc_normal_(x, 0.1, 0.5, -0.6, 0.7),
    lambda i, x: i.trunc_normal_(x, 0.1, 0.5, 0.4, 0.7),
    lambda i, x: i.trunc_normal_(x, 0.1, 0.5, 0.9, 2.7),
    lambda i, x: i.xavier_uniform_(x, 1.5),
    lambda i, x: i.xavier_normal_(x),
    lambda i, x: i.kaiming_uniform_(x, a=2**0.5),
    lambda i, x: i.kaiming_normal_(x, mode="fan_out", nonlinearity="relu"),
    lambda i, x: i.orthogonal_(x, 1.2),
    lambda i, x: i.orthogonal_(x.t()),
    lambda i, x: i.sparse_(x, 0.3),
    lambda i, x: i.kaiming_uniform_(x, generator=None),
]


@pytest.mark.parametrize("number", range(len(INITIALISERS)))
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_initialisers(number, dtype):
    def program(lib):
        x = lib.zeros(12, 7, dtype=getattr(lib, dtype))
        INITIALISERS[number](lib.nn.init, x)
        return x

    same(program, rtol=1e-5)


MODULES = [
    lambda nn: nn.Linear(7, 5),
    lambda nn: nn.Bilinear(3, 4, 5),
    lambda nn: nn.Conv1d(3, 5, 2),
    lambda nn: nn.Conv2d(4, 6, 3, groups=2),
    lambda nn: nn.ConvTranspose2d(4, 6, 3),
    lambda nn: nn.Embedding(10, 6, padding_idx=2),
    lambda nn: nn.EmbeddingBag(10, 6),
    lambda nn: nn.RNN(4, 5, 2),
    lambda nn: nn.LSTM(4, 6, 2, bidirectional=True, proj_size=3),
    lambda nn: nn.GRUCell(4, 5),
    lambda nn: nn.MultiheadAttention(8, 2),
    lambda nn: nn.MultiheadAttention(8, 2, kdim=4, vdim=6),
    lambda nn: nn.TransformerEncoderLayer(8, 2, 16),
    lambda nn: nn.PReLU(),
    lambda nn: nn.Sequential(nn.Linear(3, 9), nn.BatchNorm1d(9), nn.Linear(9, 2)),
]


@pytest.mark.parametrize("number", range(len(MODULES)))
def test_modules_start_with_the_same_parameters(number):
    def program(lib):
        return [p.detach() for p in MODULES[number](lib.nn).state_dict().values()]

    same(program, rtol=1e-6)


PROGRAMS = {
    "attention": lambda lib: lib.nn.functional.scaled_dot_product_attention(
        lib.randn(2, 4, 8), lib.randn(2, 4, 8), lib.randn(2, 4, 8), dropout_p=0.3
    ),
    "heads": lambda lib: lib.nn.MultiheadAttention(8, 2, dropout=0.3)(*[lib.randn(3, 2, 8)] * 3)[0],
    "lstm": lambda lib: lib.nn.LSTM(4, 5, 2, dropout=0.4)(lib.randn(3, 2, 4))[0],
    "gru": lambda lib: lib.nn.GRU(4, 5, 2, dropout=0.4)(lib.randn(3, 2, 4))[0],
    "pooling": lambda lib: lib.nn.functional.fractional_max_pool2d(
        lib.randn(1, 2, 8, 8), 2, output_size=4
    ),
    "low rank": lambda lib: lib.svd_lowrank(lib.randn(10, 6), 3)[1],
    "transformer": lambda lib: lib.nn.TransformerEncoderLayer(8, 2, 16)(lib.randn(3, 2, 8)),
    "channels last": lambda lib: lib.nn.functional.dropout(
        lib.ones(2, 3, 4, 4).to(memory_format=lib.channels_last), 0.4
    ),
    "many weights": lambda lib: lib.multinomial(lib.rand(50, 1000), 20, True),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name):
    same(PROGRAMS[name], rtol=1e-4)


MAPPED = {
    "rand": lambda lib, x: lib.rand(3) + x[0],
    "randn": lambda lib, x: lib.randn(8) + x[0],
    "randint": lambda lib, x: lib.randint(0, 9, (3,)) + x[0],
    "randperm": lambda lib, x: lib.randperm(5) + x[0],
    "randn_like": lambda lib, x: lib.randn_like(x),
    "dropout": lambda lib, x: lib.nn.functional.dropout(x, 0.5),
    "bernoulli": lambda lib, x: lib.bernoulli(x / 2),
    "multinomial": lambda lib, x: lib.multinomial(x, 2),
    "nested": lambda lib, x: lib.vmap(lambda y: lib.randn(3) + y, randomness="different")(x),
    "rand_like": lambda lib, x: lib.rand_like(x),
    "randint_like": lambda lib, x: lib.randint_like(x, 100),
    "uniform_": lambda lib, x: x.clone().uniform_(),
    "normal_": lambda lib, x: x.clone().normal_(),
    "bernoulli_": lambda lib, x: x.clone().bernoulli_(0.5),
    "random_": lambda lib, x: x.clone().random_(100),
    "exponential_": lambda lib, x: lib.empty_like(x).exponential_(),
    "geometric_": lambda lib, x: x.clone().geometric_(0.5),
    "poisson": lambda lib, x: lib.poisson(x),
    "normal": lambda lib, x: lib.normal(x, 1.0),
    "multinomial, several": lambda lib, x: lib.multinomial(x, 3, replacement=True),
}


@pytest.mark.parametrize("name", MAPPED)
@pytest.mark.parametrize("randomness", ["different", "same"])
@pytest.mark.parametrize("in_dims", [0, -1])
def test_examples_of_vmap(name, randomness, in_dims):
    """Numbers are drawn in the order of memory, wherever the examples are."""
    if (name, randomness) == ("nested", "same"):
        pytest.skip("torch wants one kind of randomness for all levels")
    if (name, in_dims) == ("dropout", -1):
        pytest.skip("the same numbers, laid out by rows")

    def program(lib):
        mapped = lib.vmap(lambda x: MAPPED[name](lib, x), randomness=randomness, in_dims=in_dims)
        return mapped(lib.ones(4, 6))

    try:
        program(torch)
    except RuntimeError:  # the examples differ, so their draws cannot be the same
        with pytest.raises(RuntimeError):
            program(pullback)
    else:
        same(program, rtol=1e-5)


# States


def test_states_go_both_ways():
    for draws in (0, 1, 5, 623, 624, 625, 2000):
        for normal in (0, 1, 2):
            ours, theirs = pullback.Generator().manual_seed(5), torch.Generator().manual_seed(5)
            for lib, generator in ((pullback, ours), (torch, theirs)):
                if draws:
                    lib.rand(draws, generator=generator)
                if normal:
                    lib.randn(normal, generator=generator)
            state = theirs.get_state()
            exported = ours.get_state()
            if normal != 1:
                assert exported.tolist() == state.tolist()
            restored = pullback.Generator().set_state(pullback.tensor(state.numpy()))
            taken = torch.Generator()
            taken.set_state(torch.tensor(exported.numpy()))
            assert restored.initial_seed() == taken.initial_seed() == 5
            for size in (3, 700):
                expected = torch.rand(size, generator=theirs).tolist()
                assert pullback.rand(size, generator=restored).tolist() == expected
                assert torch.rand(size, generator=taken).tolist() == expected
                assert pullback.rand(size, generator=ours).tolist() == expected
            numpy.testing.assert_allclose(
                pullback.randn(3, generator=restored).numpy(),
                torch.randn(3, generator=taken).numpy(),
                rtol=1e-6,
            )


def test_a_state_of_torch_continues_after_its_normal_number():
    torch.manual_seed(3)
    torch.randn(3)
    pullback.set_rng_state(pullback.tensor(torch.get_rng_state().numpy()))
    for lib in (torch, pullback):
        with lib.random.fork_rng():
            lib.rand(10)
    numpy.testing.assert_allclose(pullback.randn(1).numpy(), torch.randn(1).numpy(), rtol=1e-6)


def test_fresh_generators_have_torchs_default_seed():
    assert pullback.Generator().initial_seed() == torch.Generator().initial_seed()
    ours = pullback.rand(3, generator=pullback.Generator())
    assert ours.tolist() == torch.rand(3, generator=torch.Generator()).tolist()
