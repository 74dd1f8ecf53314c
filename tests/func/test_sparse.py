"""func.sparse_jacobian and sparse_hessian: few passes, right or refused."""

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pullback as torch
from pullback.func import (
    SparsityPattern,
    grad,
    hessian,
    hessian_sparsity,
    jacfwd,
    jacobian_sparsity,
    sparse_hessian,
    sparse_jacobian,
    vmap,
)
from pullback.transforms.colouring import columns, star
from pullback.transforms.dependence.sets import Sets

F64 = torch.float64


def _random(*shape):
    return torch.tensor(numpy.random.default_rng(0).standard_normal(shape))


def _assert_close(a, b):
    numpy.testing.assert_allclose(a.detach().numpy(), b.detach().numpy(), rtol=1e-9, atol=1e-12)


def _written(x):
    y = x.clone()
    y[1:] += x[:-1] ** 2
    y[0] = 3.0
    return y.reshape(2, 3).T


BAND = torch.tril(torch.triu(_random(6, 6), -1), 1)
# Name, function of six numbers, and how many entries can be nonzero.
FUNCTIONS = {
    "differences": (lambda x: x[1:] - x[:-1], 10),
    "banded matrix": (lambda x: torch.sin(BAND @ x), 16),
    "banded linear": (lambda x: torch.nn.functional.linear(x, BAND), 16),
    "convolution": (
        lambda x: torch.nn.functional.conv1d(x[None, None], _random(1, 1, 3), padding=1)[0, 0],
        16,
    ),
    "rows of softmax": (lambda x: torch.softmax(x.reshape(2, 3), -1), 18),
    "writes in place": (_written, 10),
    "gradient": (grad(lambda x: ((x[1:] - x[:-1] ** 2) ** 2).sum()), 16),
    "tangent": (lambda x: torch.func.jvp(torch.sin, (x,), (x.roll(1),))[1], 12),
    "mapped": (lambda x: vmap(lambda row: (row * row.flip(0)).sum())(x.reshape(3, 2)), 6),
    "choice": (lambda x: torch.where(x > 0, x, x.flip(0)), 12),
    "repeated index": (lambda x: x[torch.tensor([0, 0, 3])] ** 2, 3),
    "joined": (lambda x: torch.stack([x, x * 2, torch.ones(6, dtype=F64)]), 12),
    "cumulative": (lambda x: x.cumsum(0), 21),
    "transposed copy": (lambda x: torch.nn.functional.linear(x.reshape(2, 3).T, BAND[:, :2]), 15),
    "pairs as complex numbers": (lambda x: torch.view_as_complex(x.reshape(3, 2)).abs(), 6),
    "constant": (lambda x: torch.ones(2, dtype=F64), 0),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_pattern_is_tight_and_the_jacobian_is_the_dense_one(name):
    function, count = FUNCTIONS[name]
    x = _random(6)
    pattern = jacobian_sparsity(function)(x)
    assert pattern.nnz == count
    made = sparse_jacobian(function)(x)
    assert made.is_sparse
    assert made.is_coalesced()
    _assert_close(made.to_dense(), jacfwd(function)(x))
    again = x.flip(0) + 1
    _assert_close(
        sparse_jacobian(function, pattern=pattern)(again).to_dense(), jacfwd(function)(again)
    )


def test_passes_are_colours_and_one(monkeypatch):
    """Counted as tangents that enter the function."""
    from pullback.func import sparse

    widths = []
    plain = sparse.mapped
    monkeypatch.setattr(
        sparse, "mapped", lambda size, *a, **k: widths.append(size) or plain(size, *a, **k)
    )
    x = _random(1000)
    sparse_jacobian(lambda x: x[1:] * x[:-1])(x)
    assert widths == [3]


def test_reverse_mode_where_rows_take_fewer():
    x = _random(40)
    pattern = jacobian_sparsity(lambda x: x.reshape(4, 10).sum(1) ** 2)(x)
    assert (pattern.mode, pattern.colours) == ("reverse", 1)
    made = sparse_jacobian(lambda x: x.reshape(4, 10).sum(1) ** 2)(x)
    _assert_close(made.to_dense(), jacfwd(lambda x: x.reshape(4, 10).sum(1) ** 2)(x))


HESSIANS = {
    "chain": lambda x: ((x[1:] - x[:-1] ** 2) ** 2).sum(),
    "arrow": lambda x: (x[0] * x.exp()).sum(),
    "chain and arrow": lambda x: (x[1:] * x[:-1]).sum() + x[0] * x.sum() ** 1,
    "linear": lambda x: x.sum(),
    "dense": lambda x: torch.logsumexp(x, 0),
    "net": lambda x: (torch.tanh(BAND @ x) * x).sum(),
    "blocks": lambda x: x.reshape(2, 3).sin().prod(1).sum(),
}


@pytest.mark.parametrize("name", HESSIANS)
def test_hessian_is_the_dense_one(name):
    x = _random(6)
    _assert_close(sparse_hessian(HESSIANS[name])(x).to_dense(), hessian(HESSIANS[name])(x))


def test_symmetry_saves_colours():
    x = _random(500)
    pattern = hessian_sparsity(HESSIANS["arrow"])(x)
    assert (pattern.mode, pattern.colours, pattern.nnz) == ("symmetric", 2, 3 * 500 - 2)
    made = sparse_hessian(HESSIANS["arrow"], pattern=pattern)(x)
    _assert_close(made.to_dense(), hessian(HESSIANS["arrow"])(x))


def test_shapes_are_the_output_and_then_the_input():
    u = _random(4, 5)
    made = sparse_jacobian(lambda u: u[:, 1:] * u[:, :-1])(u)
    assert tuple(made.shape) == (4, 4, 4, 5)
    _assert_close(made.to_dense(), jacfwd(lambda u: u[:, 1:] * u[:, :-1])(u))
    number = sparse_jacobian(lambda u: u.sum())(u)
    _assert_close(number.to_dense(), torch.ones(4, 5, dtype=F64))
    assert tuple(sparse_jacobian(lambda x: x * 2)(torch.tensor(1.0)).shape) == ()


def test_five_point_stencil_takes_few_colours():
    kernel = torch.tensor([[[[0.0, 1, 0], [1, -4, 1], [0, 1, 0]]]], dtype=F64)

    def residual(u):
        return torch.nn.functional.conv2d(u[None, None], kernel, padding=1)[0, 0] + u**3

    u = _random(40, 40)
    pattern = jacobian_sparsity(residual)(u)
    assert pattern.nnz == 5 * 1600 - 4 * 40
    assert pattern.colours <= 9
    small = _random(6, 7)
    _assert_close(sparse_jacobian(residual)(small).to_dense(), jacfwd(residual)(small))


def test_control_flow_by_values_is_redone_without_a_pattern_and_refused_with_one():
    def function(x):
        return x * x if float(x[0]) > 0 else x * x.flip(0)

    up, down = torch.ones(4, dtype=F64), -torch.ones(4, dtype=F64)
    for x in (up, down):
        _assert_close(sparse_jacobian(function)(x).to_dense(), jacfwd(function)(x))
    pattern = jacobian_sparsity(function)(up)
    with pytest.raises(RuntimeError, match=r"misses nonzeros.*branches on values"):
        sparse_jacobian(function, pattern=pattern)(down)


def test_constants_that_fill_up_are_noticed():
    matrix = torch.eye(4, dtype=F64)
    pattern = jacobian_sparsity(lambda x: matrix @ x)(torch.ones(4, dtype=F64))
    assert pattern.nnz == 4
    matrix = _random(4, 4)
    with pytest.raises(RuntimeError, match="other constants"):
        sparse_jacobian(lambda x: matrix @ x, pattern=pattern)(torch.ones(4, dtype=F64))


def test_other_shapes_are_refused():
    pattern = jacobian_sparsity(torch.sin)(torch.ones(4))
    with pytest.raises(RuntimeError, match=r"inputs of shape \(4,\)"):
        sparse_jacobian(torch.sin, pattern=pattern)(torch.ones(5))
    with pytest.raises(RuntimeError, match=r"returned shape \(3,\)"):
        sparse_jacobian(lambda x: x[1:], pattern=pattern)(torch.ones(4))
    with pytest.raises(ValueError, match="rows must be numbers below 2"):
        SparsityPattern([2], [0], (2,), (3,))


def test_pattern_of_ones_own():
    pattern = SparsityPattern([0, 1, 2], [0, 1, 2], (3,), (3,))
    x = _random(3)
    _assert_close(sparse_jacobian(torch.exp, pattern=pattern)(x).to_dense(), torch.diag(x.exp()))
    with pytest.raises(RuntimeError, match="misses"):
        sparse_jacobian(lambda x: x * x.sum(), pattern=pattern)(x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_dtypes(dtype):
    x = _random(30).to(dtype)
    made = sparse_jacobian(lambda x: (x[1:] * x[:-1]).sin())(x)
    assert made.dtype == dtype
    wanted = jacfwd(lambda x: (x[1:] * x[:-1]).sin())(x)
    assert torch.allclose(made.to_dense(), wanted, atol=1e-2 if dtype == torch.float16 else 1e-6)


def test_nan_and_infinity_are_no_reason_to_refuse():
    x = torch.tensor([0.0, 1.0, float("nan"), 2.0], dtype=F64)
    made = sparse_jacobian(lambda x: x.log())(x).to_dense()
    diagonal = torch.diagonal(made)
    assert torch.isinf(diagonal[0])
    assert torch.isnan(diagonal[2])
    assert diagonal[3].item() == 0.5


def test_gradients_through_the_entries():
    def energy(x):
        return (sparse_jacobian(lambda x: (x[1:] * x[:-1]).sin())(x).values() ** 2).sum()

    def dense(x):
        return (jacfwd(lambda x: (x[1:] * x[:-1]).sin())(x) ** 2).sum()

    x = _random(5)
    _assert_close(grad(energy)(x), grad(dense)(x))


def test_compiled_code_may_call_it():
    x = _random(6)
    pattern = jacobian_sparsity(torch.sin)(x)
    compiled = torch.compile(
        lambda x: sparse_jacobian(torch.sin, pattern=pattern)(x).to_dense() * 2
    )
    for point in (x, x + 1):
        _assert_close(compiled(point), torch.diag(point.cos()) * 2)


# Inside vmap --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.filterwarnings("ignore:vmap runs")
def test_inside_vmap_each_example_has_its_own_entries(name):
    function, count = FUNCTIONS[name]
    batch = _random(4, 6)
    made = vmap(sparse_jacobian(function))(batch)
    assert made.is_sparse
    assert made.is_coalesced()
    assert made.values().shape == (4 * count,)
    _assert_close(made.to_dense(), torch.stack([jacfwd(function)(x) for x in batch]))


def _scaled_sums(x, a):
    return (a * x).cumsum(0)


@pytest.mark.parametrize("in_dims", [(0, None), (None, 0), (1, None), (0, 0)])
def test_inside_vmap_any_argument_may_be_mapped(in_dims):
    batch, one = _random(5, 5), _random(5)
    args = [one if dim is None else batch for dim in in_dims]
    made = vmap(sparse_jacobian(_scaled_sums), in_dims)(*args)
    _assert_close(made.to_dense(), vmap(jacfwd(_scaled_sums), in_dims)(*args))


def test_hessians_inside_two_maps_and_a_gradient():
    def function(x):
        return (x[1:] * x[:-1] ** 3).sum()

    batch = _random(2, 3, 5)
    made = vmap(vmap(sparse_hessian(function)))(batch)
    dense = vmap(vmap(hessian(function)))
    _assert_close(made.to_dense(), dense(batch))
    squared = grad(lambda x: (vmap(vmap(sparse_hessian(function)))(x).to_dense() ** 2).sum())
    _assert_close(squared(batch), grad(lambda x: (dense(x) ** 2).sum())(batch))
    each = grad(lambda x: (sparse_hessian(function)(x).to_dense() ** 2).sum())
    _assert_close(vmap(vmap(each))(batch), squared(batch))


def test_a_given_pattern_that_one_example_does_not_fit_is_refused():
    pattern = jacobian_sparsity(lambda x: x * 2)(torch.ones(3))

    def function(x):
        return torch.where(x.sum() > 0, x, x.flip(0))

    fitting = torch.eye(3, dtype=F64)
    made = vmap(sparse_jacobian(function, pattern=pattern))(fitting)
    _assert_close(made.to_dense(), torch.eye(3, dtype=F64).expand(3, 3, 3))
    with pytest.raises(RuntimeError, match="misses nonzeros"):
        vmap(sparse_jacobian(function, pattern=pattern))(torch.cat([fitting, -fitting[:1]]))


def test_what_can_be_done_with_a_sparse_example():
    def function(x):
        return x[1:] * x[:-1]

    def rows(x):
        made = sparse_jacobian(function)(x)
        assert made.is_sparse
        assert made.layout is torch.sparse_coo
        assert made.shape == (4, 5)
        return (made * 2).to_dense() @ x

    batch = _random(3, 5)
    _assert_close(vmap(rows)(batch), vmap(lambda x: 2 * jacfwd(function)(x) @ x)(batch))
    with pytest.raises(RuntimeError, match="inside vmap"):
        vmap(lambda x: sparse_jacobian(function)(x).values())(batch)


# Complex numbers ----------------------------------------------------------------------------------

HOLOMORPHIC = {
    "product": lambda z: z * z.roll(1),
    "elementwise": torch.exp,
    "one row": lambda z: (z * z).sum()[None],
    "differences": lambda z: z[1:] - z[:-1],
    "sums": lambda z: 1j * z.cumsum(0),
}


@pytest.mark.parametrize("name", HOLOMORPHIC)
def test_of_holomorphic_functions(name):
    function = HOLOMORPHIC[name]
    batch = torch.complex(_random(3, 5), _random(3, 5).flip(0))
    dense = torch.stack([torch.func.jacobian(function, holomorphic=True)(z) for z in batch])
    made = sparse_jacobian(function, holomorphic=True)(batch[0])
    assert made.dtype is torch.complex128
    _assert_close(made.to_dense(), dense[0])
    _assert_close(vmap(sparse_jacobian(function, holomorphic=True))(batch).to_dense(), dense)


@pytest.mark.parametrize("function", [torch.conj, lambda z: z.conj().sum()[None], torch.abs])
def test_other_functions_of_complex_numbers_are_refused(function):
    with pytest.raises(RuntimeError, match="holomorphic"):
        sparse_jacobian(function, holomorphic=True)(torch.complex(_random(4), _random(4)))


@pytest.mark.parametrize(
    "function",
    [lambda x: x * (1 + 2j), lambda x: ((1 + 2j) * x * x).sum()[None], torch.fft.fft],
)
def test_of_real_numbers_with_complex_results(function):
    x = _random(6)
    _assert_close(sparse_jacobian(function)(x).to_dense(), torch.func.jacobian(function)(x))


def test_refusals():
    x = torch.ones(3)
    with pytest.raises(RuntimeError, match="one int"):
        sparse_jacobian(torch.sin, (0, 1))
    with pytest.raises(RuntimeError, match="must be a Tensor"):
        sparse_jacobian(lambda pair: pair[0])((x, x))
    with pytest.raises(RuntimeError, match="one Tensor"):
        sparse_jacobian(lambda x: (x, x))(x)
    with pytest.raises(RuntimeError, match="holomorphic=True"):
        sparse_jacobian(torch.sin)(torch.ones(3, dtype=torch.complex64))
    with pytest.raises(RuntimeError, match="for complex inputs"):
        sparse_jacobian(torch.sin, holomorphic=True)(x)
    with pytest.raises(RuntimeError, match="complex"):
        sparse_hessian(lambda x: x.sum())(torch.ones(3, dtype=torch.complex64))
    with pytest.raises(RuntimeError, match="sparse"):
        sparse_jacobian(lambda x: torch.sparse.mm(torch.eye(3).to_sparse(), x[:, None]))(x)


def test_a_failing_function_leaves_nothing_behind():
    with pytest.raises(ZeroDivisionError):
        sparse_jacobian(lambda x: x * (1 / 0))(torch.ones(3))
    assert torch.sin(torch.zeros(2)).tolist() == [0, 0]


# Colourings ---------------------------------------------------------------------------------------


@st.composite
def _patterns(draw, square=False):
    height = draw(st.integers(1, 12))
    width = height if square else draw(st.integers(1, 12))
    pairs = draw(st.lists(st.tuples(st.integers(0, height - 1), st.integers(0, width - 1))))
    rows, across = (numpy.array([p[n] for p in pairs], numpy.int64) for n in (0, 1))
    return height, width, rows, across


@given(_patterns())
def test_columns_of_a_colour_share_no_row(case):
    height, width, rows, across = case
    sets = Sets.of_pairs(height, rows, across)
    colours = columns(sets, width)
    for row in range(height):
        met = colours[sets.members[sets.starts[row] : sets.starts[row + 1]]]
        assert len(set(met)) == len(met)


@given(_patterns(square=True))
def test_of_a_star_colouring_every_entry_can_be_recovered(case):
    size, _, rows, across = case
    sets = Sets.of_pairs(size, numpy.r_[rows, across], numpy.r_[across, rows])
    colours = star(sets)
    full = numpy.zeros((size, size))
    full[sets.owners, sets.members] = numpy.random.default_rng(0).standard_normal(sets.members.size)
    full = full + full.T
    pattern = SparsityPattern(rows, across, (size,), (size,), symmetric=True)
    assert pattern.colouring.tolist() == colours.tolist()
    seeds = numpy.eye(pattern.colours)[colours]
    found = (full @ seeds).T.reshape(-1)[pattern.recovery]
    numpy.testing.assert_allclose(found, full[pattern.rows, pattern.columns], atol=1e-12)


@given(_patterns())
def test_sets_are_the_pairs(case):
    height, _, rows, across = case
    sets = Sets.of_pairs(height, rows, across)
    assert {*zip(sets.owners.tolist(), sets.members.tolist(), strict=True)} == {
        *zip(rows.tolist(), across.tolist(), strict=True)
    }
