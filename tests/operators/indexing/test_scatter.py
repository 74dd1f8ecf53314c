"""Gathering, scattering, masks and positions: what goes where, and what is refused beforehand."""

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pullback as torch
from pullback.autograd.gradcheck import gradcheck, gradgradcheck


def drawn(*shape, seed=0):
    values = numpy.random.default_rng(seed).standard_normal(shape)
    return torch.tensor(values, requires_grad=True)


def numbers(*values):
    return torch.tensor(values, dtype=torch.int64)


INDEX = numbers([0, 1, 2, 0], [1, 1, 0, 0])

# In-place form -> arguments that follow the target, of shape (3, 4).
WRITES = {
    "scatter_": (0, INDEX, drawn(2, 4)),
    "scatter_add_": (0, INDEX, drawn(2, 4)),
    "scatter_reduce_": (0, INDEX, drawn(2, 4), "prod"),
    "index_add_": (1, numbers(3, 0, 3), drawn(3, 3)),
    "index_copy_": (0, numbers(2, 0), drawn(2, 4)),
    "index_fill_": (1, numbers(0, 2), drawn()),
    "index_put_": ((numbers(0, 2),), drawn(4)),
    "index_reduce_": (0, numbers(1, 1), drawn(2, 4), "amax"),
    "masked_scatter_": (torch.tensor([True, False, False, True]), drawn(8)),
    "put_": (numbers(3, 0, -1), drawn(3)),
}


@pytest.mark.parametrize("name", WRITES)
def test_in_place_forms_do_what_the_others_return(name):
    x = drawn(3, 4, seed=1)
    expected = getattr(x, name[:-1])(*WRITES[name])
    for target in (x.detach().clone(), x.detach().T.contiguous().T, x * 1, (x * 1)[:]):
        result = getattr(target, name)(*WRITES[name])
        assert result is target
        assert target.tolist() == expected.tolist()
        assert target._version == 1
        assert target.requires_grad


@pytest.mark.parametrize("name", WRITES)
def test_in_place_forms_have_the_gradients_of_the_others(name):
    source = next(arg for arg in WRITES[name] if getattr(arg, "requires_grad", False))

    def gradients(form):
        x = drawn(3, 4, seed=1)
        y = x * 2
        y = getattr(y[...] if form == name else y, form)(*WRITES[name])
        return torch.autograd.grad((y * y).sum(), [x, source])

    for a, b in zip(gradients(name), gradients(name[:-1]), strict=True):
        assert torch.allclose(a, b)


@pytest.mark.parametrize("name", WRITES)
def test_in_place_forms_spare_leaves(name):
    leaf = drawn(3, 4)
    with pytest.raises(RuntimeError, match="leaf"):
        getattr(leaf, name)(*WRITES[name])
    assert leaf._version == 0


BAD = [
    ("gather", (0, numbers([0, 7, 0, 0])), RuntimeError, "index 7 is out of bounds"),
    ("gather", (0, numbers([0, -1, 0, 0])), RuntimeError, "index -1 is out of bounds"),
    ("gather", (0, INDEX.double()), RuntimeError, "int32 or int64"),
    ("gather", (0, numbers(0)), RuntimeError, "number of dimensions"),
    ("gather", (0, torch.zeros(1, 5, dtype=torch.int64)), RuntimeError, "no larger"),
    ("gather", (2, INDEX), IndexError, "dim 2"),
    ("scatter", (0, INDEX), TypeError, "src"),
    ("scatter_", (0, INDEX + 9, 1.0), RuntimeError, "out of bounds"),
    ("scatter_", (0, INDEX, drawn(1, 4)), RuntimeError, "no larger"),
    ("scatter_", (0, INDEX, torch.ones(2, 4)), RuntimeError, "must be equal"),
    ("scatter_", (0, INDEX, 1j), RuntimeError, "cannot be converted"),
    ("scatter_add_", (0, INDEX + 9, drawn(2, 4)), RuntimeError, "out of bounds"),
    ("scatter_reduce_", (0, INDEX, drawn(2, 4), "max"), RuntimeError, "amax or amin"),
    ("index_select", (0, numbers(3)), IndexError, "out of bounds"),
    ("index_select", (0, INDEX), IndexError, "one dimension"),
    ("index_add_", (0, numbers(0, 9), drawn(2, 4)), RuntimeError, "out of bounds"),
    ("index_add_", (0, numbers(0), drawn(2, 4)), RuntimeError, r"need a source of shape \(1, 4\)"),
    ("index_add_", (0, numbers(0), drawn(1, 1)), RuntimeError, "need a source"),
    ("index_copy_", (0, numbers(0, 9), drawn(2, 4)), IndexError, "out of bounds"),
    ("index_copy_", (0, numbers(0).int(), drawn(1, 4)), RuntimeError, "int64"),
    ("index_fill_", (0, numbers(9), 1.0), IndexError, "out of bounds"),
    ("index_fill_", (0, numbers(0), drawn(4)), RuntimeError, "0-d"),
    ("index_reduce_", (0, numbers(9), drawn(1, 4), "prod"), IndexError, "out of bounds"),
    ("index_reduce_", (0, numbers(0), drawn(1, 4), "sum"), RuntimeError, "prod, mean"),
    ("masked_select", (INDEX,), RuntimeError, "bool tensor"),
    ("masked_select", (torch.tensor([True, False]),), RuntimeError, "do not broadcast"),
    ("masked_scatter_", (torch.ones(3, 4, dtype=torch.bool), drawn(2)), RuntimeError, "12 places"),
    ("take", (numbers(12),), IndexError, "index 12 is out of range for a tensor of 12"),
    ("take", (numbers(0).int(),), RuntimeError, "int64"),
    ("put_", (numbers(0, -13), drawn(2)), IndexError, "index -13"),
    ("put_", (numbers(0), drawn(2)), IndexError, "1 positions but 2"),
    ("take_along_dim", (numbers(0), 0), RuntimeError, "number of dimensions"),
    ("select_scatter", (drawn(3), 0, 0), RuntimeError, r"shape \(4,\)"),
    ("select_scatter", (drawn(4), 0, 3), IndexError, "out of range"),
    ("slice_scatter", (drawn(3, 4), 0, 1), RuntimeError, r"shape \(2, 4\)"),
    ("diagonal_scatter", (drawn(4),), RuntimeError, r"shape \(3,\)"),
    ("as_strided_scatter", (drawn(2), (2,), (12,)), RuntimeError, "outside"),
    ("narrow_copy", (0, 2, 2), RuntimeError, "do not fit"),
]


@pytest.mark.parametrize(("name", "args", "kind", "words"), BAD, ids=[bad[0] for bad in BAD])
def test_what_does_not_fit_is_refused_and_nothing_is_written(name, args, kind, words):
    for target in (drawn(3, 4) * 1, drawn(3, 4).detach()):
        before = target.tolist()
        with pytest.raises(kind, match=words):
            getattr(target, name)(*args)
        assert (target.tolist(), target._version) == (before, 0)


# Along a dimension -------------------------------------------------------------------------------


@given(data=st.data())
def test_gather_and_scatter_add_are_loops_over_the_index(data):
    shape = tuple(data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=3)))
    dim = data.draw(st.integers(-len(shape), len(shape) - 1))
    small = [data.draw(st.integers(0, n)) for n in shape]
    small[dim] = data.draw(st.sampled_from([1, 4, 300]))
    seed = data.draw(st.integers(0, 99))
    index = numpy.random.default_rng(seed).integers(0, shape[dim], small)
    x = numpy.random.default_rng(1).standard_normal(shape)
    gathered, added = numpy.zeros(small), numpy.zeros(shape)
    for place in numpy.ndindex(*small):
        there = list(place)
        there[dim] = index[place]
        gathered[place] = x[tuple(there)]
        added[tuple(there)] += gathered[place]
    result = torch.from_numpy(x).gather(dim, torch.from_numpy(index))
    assert result.tolist() == gathered.tolist()
    zeros = torch.zeros(shape, dtype=torch.float64)
    summed = zeros.scatter_add(dim, torch.from_numpy(index), result)
    assert numpy.allclose(summed.numpy(), added)


def test_a_smaller_index_covers_the_leading_corner_in_both_directions():
    index = numbers([0], [2])
    x, src = drawn(3, 4), drawn(3, 4, seed=1)
    assert x.gather(0, index).tolist() == [[x[0, 0].item()], [x[2, 0].item()]]
    for name in ("scatter", "scatter_add"):
        y = getattr(x, name)(0, index, src)
        (g,) = torch.autograd.grad(y.sum(), src)
        assert g.tolist() == [[1, 0, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0]]


def test_0d_tensors_are_lines_of_one_element():
    x = torch.tensor(3.0)
    assert x.gather(0, torch.tensor(0)).item() == 3.0
    assert x.gather(0, numbers(0, 0)).tolist() == [3.0, 3.0]
    assert x.scatter(0, torch.tensor(0), 5.0).item() == 5.0
    assert x.index_add(0, torch.tensor(0), x).item() == 6.0
    assert x.index_select(0, numbers(0)).shape == ()


def test_scatter_with_reduce_combines_and_is_differentiable():
    x, src = drawn(3, 4), drawn(2, 4, seed=1)
    assert torch.equal(x.scatter(0, INDEX, src, reduce="add"), x.scatter_add(0, INDEX, src))
    doubled = x.scatter(0, INDEX, 2.0, reduce="multiply")
    assert gradcheck(lambda x: x.scatter(0, INDEX, 2.0, reduce="multiply"), (x,))
    assert torch.equal((x * 1).scatter_(0, INDEX, 2.0, reduce="multiply"), doubled)
    with pytest.raises(RuntimeError, match="'add' or 'multiply'"):
        x.scatter(0, INDEX, 2.0, reduce="mean")


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("reduce", ["sum", "prod", "mean", "amax", "amin"])
def test_scatter_reduce_has_derivatives_of_every_order(reduce, include_self):
    def program(x, src):
        return (x * x).scatter_reduce(0, INDEX, src, reduce, include_self=include_self)

    assert gradcheck(program, (drawn(3, 4), drawn(2, 4, seed=1)), check_forward_ad=True)
    assert gradgradcheck(program, (drawn(3, 4), drawn(2, 4, seed=1)))


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("reduce", ["prod", "mean", "amax", "amin"])
def test_index_reduce_has_derivatives_of_every_order(reduce, include_self):
    index = numbers(1, 1, 3)

    def program(x, source):
        return x.index_reduce(1, index, source, reduce, include_self=include_self)

    assert gradcheck(program, (drawn(3, 4), drawn(3, 3, seed=1)), check_forward_ad=True)
    assert gradgradcheck(program, (drawn(3, 4), drawn(3, 3, seed=1)))


def test_products_with_zeros_have_finite_gradients():
    x = torch.tensor([2.0, 3.0, 0.0], requires_grad=True)
    src = torch.tensor([0.0, 5.0, 0.0, 0.0], requires_grad=True)
    y = x.scatter_reduce(0, numbers(0, 0, 1, 1), src, "prod")
    assert y.tolist() == [0.0, 0.0, 0.0]
    gradients = torch.autograd.grad(y.sum(), [x, src])
    assert gradients[0].tolist() == [0.0, 0.0, 1.0]
    assert gradients[1].tolist() == [10.0, 0.0, 0.0, 0.0]


def test_ties_share_the_gradient_but_not_with_what_is_left_out():
    x = torch.tensor([3.0, 1.0], requires_grad=True)
    src = torch.tensor([3.0, 3.0, 1.0], requires_grad=True)
    index = numbers(0, 0, 1)
    y = x.scatter_reduce(0, index, src, "amax")
    gradients = torch.autograd.grad(y.sum(), [x, src])
    assert torch.allclose(gradients[1], torch.tensor([1 / 3, 1 / 3, 1 / 2]))
    y = x.scatter_reduce(0, index, src, "amax", include_self=False)
    gradients = torch.autograd.grad(y.sum(), [x, src])
    assert gradients[0].tolist() == [0.0, 0.0]
    assert gradients[1].tolist() == [0.5, 0.5, 1.0]


def test_take_along_dim_wraps_around_and_broadcasts():
    x = torch.arange(6.0).reshape(2, 3)
    assert x.take_along_dim(numbers([4], [-1]), 1).tolist() == [[1.0], [5.0]]
    assert x.take_along_dim(numbers([1]), 1).tolist() == [[1.0], [4.0]]
    assert x.take_along_dim(numbers(5, 0)).tolist() == [5.0, 0.0]


# Masks and positions -----------------------------------------------------------------------------


def test_masks_and_tensors_broadcast():
    x = torch.arange(4.0)
    mask = torch.tensor([[True], [False], [True]])
    assert x.masked_select(mask).tolist() == [0.0, 1.0, 2.0, 3.0] * 2
    filled = x.masked_scatter(mask, torch.arange(10.0, 20.0))
    assert filled.shape == (3, 4)
    assert filled[2].tolist() == [14.0, 15.0, 16.0, 17.0]
    x = drawn(4)
    (g,) = torch.autograd.grad(x.masked_select(mask).sum(), x)
    assert g.tolist() == [2.0] * 4


def test_positions_count_in_row_major_order_whatever_the_strides():
    x = torch.arange(6.0).reshape(2, 3).T
    assert x.take(numbers(1, -1)).tolist() == [3.0, 5.0]
    y = x.clone().T.contiguous().T
    y.put_(numbers(1, 1), torch.tensor([10.0, 20.0]), accumulate=True)
    assert y[0].tolist() == [0.0, 33.0]


def test_nonzero_finds_places_in_three_forms():
    x = torch.tensor([[0, 5], [7, 0]])
    assert x.nonzero().tolist() == x.argwhere().tolist() == [[0, 1], [1, 0]]
    rows, columns = x.nonzero(as_tuple=True)
    assert (rows.tolist(), columns.tolist()) == ([0, 1], [1, 0])
    assert x[x.nonzero(as_tuple=True)].tolist() == [5, 7]
    assert x.nonzero_static(size=1).tolist() == [[0, 1]]
    assert x.nonzero_static(size=3, fill_value=9).tolist() == [[0, 1], [1, 0], [9, 9]]
    assert torch.tensor(1).nonzero().shape == (1, 0)
    assert torch.tensor(0).nonzero().shape == (0, 0)
    assert torch.tensor(1).nonzero(as_tuple=True)[0].tolist() == [0]


def test_unravel_index_gives_an_index_per_dimension():
    rows, columns = torch.unravel_index(numbers(0, 4, 5), (2, 3))
    assert (rows.tolist(), columns.tolist()) == ([0, 1, 1], [0, 1, 2])
    with pytest.raises(TypeError, match="integers"):
        torch.unravel_index(torch.tensor([1.0]), (2, 3))


# Views replaced ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "shape", "place"),
    [
        ("select_scatter", (4,), (0, -1)),
        ("slice_scatter", (3, 2), (1, 0, None, 2)),
        ("diagonal_scatter", (3,), (1,)),
        ("as_strided_scatter", (2, 2), ((2, 2), (4, 1), 3)),
    ],
)
def test_a_replaced_view_takes_the_gradient_of_its_place(name, shape, place):
    view = name.removesuffix("_scatter")
    x, src = drawn(3, 4), drawn(*shape, seed=1)
    y = getattr(x, name)(src, *place)
    assert not numpy.may_share_memory(y.detach().numpy(), x.detach().numpy())
    if view != "slice":
        assert getattr(y, view)(*place).tolist() == src.tolist()
    arguments = (x, src)
    assert gradcheck(lambda x, s: getattr(x, name)(s, *place), arguments, check_forward_ad=True)
    assert gradgradcheck(lambda x, s: getattr(x * x, name)(s * s, *place), arguments)


def test_a_replacement_is_cast_to_the_dtype_of_the_tensor():
    y = torch.zeros(2, 2).select_scatter(torch.ones(2, dtype=torch.float64), 0, 1)
    assert y.dtype is torch.float32
    assert y.tolist() == [[0.0, 0.0], [1.0, 1.0]]


@pytest.mark.parametrize("dim", [0, 1])
@pytest.mark.parametrize("most", [3, 40])
def test_wide_slices_that_share_a_place_add_up(dim, most):
    random = numpy.random.default_rng(most)
    index = random.integers(0, 200 // most, 200)
    values = random.standard_normal((200, 300) if dim == 0 else (300, 200))
    shape = list(values.shape)
    found = torch.zeros(shape, dtype=torch.float64).index_add(
        dim, torch.tensor(index), torch.tensor(values)
    )
    expected = numpy.zeros(shape)
    numpy.add.at(expected, (slice(None),) * dim + (index,), values)
    numpy.testing.assert_allclose(found.numpy(), expected, rtol=1e-12, atol=1e-12)


def test_a_row_that_index_fill_names_twice_counts_once():
    """The gradient by the value was 4."""
    value = torch.tensor(3.0, requires_grad=True)
    filled = torch.index_fill(torch.zeros(3, 2), 0, numbers(0, 0), value)
    assert torch.autograd.grad(filled, value, torch.ones(3, 2))[0] == 2
    target = torch.zeros(3, 2).index_fill_(0, numbers(0, -3), value)
    assert torch.autograd.grad(target, value, torch.full((3, 2), torch.inf))[0] == torch.inf


@pytest.mark.parametrize("include_self", [True, False])
@pytest.mark.parametrize("function", [torch.index_reduce, torch.scatter_reduce])
def test_products_with_zeros_have_all_their_second_derivatives(function, include_self):
    """They were 0 where the source has a zero."""
    input = torch.tensor([2.0, 0.0, 3.0], dtype=torch.double, requires_grad=True)
    source = torch.tensor([0.0, 3.0, 2.0, 0.0, 5.0, 0.0], dtype=torch.double, requires_grad=True)
    index = numbers(0, 0, 1, 1, 0, 1)

    def product(input, source):
        return function(input, 0, index, source, "prod", include_self=include_self)

    assert gradcheck(product, (input, source))
    assert gradgradcheck(product, (input, source))


def test_products_that_meet_along_either_dimension_are_differentiated_twice():
    """In two dimensions and under vmap."""
    source = torch.tensor([[0.0, 3.0], [2.0, 0.0]], dtype=torch.double, requires_grad=True)
    start = torch.tensor([[2.0, 5.0]], dtype=torch.double)
    index = torch.zeros(2, 2, dtype=torch.int64)
    assert gradgradcheck(lambda s: torch.scatter_reduce(start, 0, index, s, "prod"), (source,))
    one = torch.func.hessian(lambda s: start[0].scatter_reduce(0, index[0], s, "prod").sum())
    assert torch.func.vmap(one)(source).tolist() == [
        [[0.0, 2.0], [2.0, 0.0]],
        [[0.0, 2.0], [2.0, 0.0]],
    ]
