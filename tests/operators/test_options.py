"""Options that name dimensions: under NumPy's names too, and refused by type where they must be."""

import pytest

import pullback as torch

DECLARED = {
    "amax": (),
    "cumsum": (),
    "cumprod": (),
    "softmax": (),
    "logsumexp": (),
    "argmax": (),
    "unbind": (),
    "sort": (),
    "topk": (1,),
    "median": (),
    "diff": (),
    "squeeze": (),
    "chunk": (2,),
}


def first(result):
    return result[0] if isinstance(result, tuple) else result


@pytest.mark.parametrize("name", DECLARED)
def test_axis_is_another_name_of_dim(name):
    x = torch.arange(12.0).reshape(3, 4)
    function, args = getattr(torch, name), DECLARED[name]
    by_axis = function(x, *args, axis=0)
    by_dim = function(x, *args, dim=0)
    assert first(by_axis).equal(first(by_dim))
    assert first(getattr(x, name)(*args, axis=0)).equal(first(by_dim))


def test_axis_joins_and_stacks():
    x = torch.ones(2, 3)
    assert torch.cat([x, x], axis=1).shape == (2, 6)
    assert torch.stack([x, x], axis=2).shape == (2, 3, 2)


def test_keepdims_is_another_name_of_keepdim():
    x = torch.arange(12.0).reshape(3, 4)
    for name in ("amax", "sum", "logsumexp", "argmin"):
        assert getattr(torch, name)(x, axis=1, keepdims=True).shape == (3, 1)
    assert torch.median(x, axis=1, keepdims=True).values.shape == (3, 1)


def test_axis_goes_with_gradients_and_transforms():
    x = torch.arange(6.0).reshape(2, 3).requires_grad_()
    torch.cumsum(x, axis=1).sum().backward()
    assert x.grad.tolist() == [[3.0, 2.0, 1.0]] * 2
    rows = torch.vmap(lambda row: torch.softmax(row, axis=0))(x.detach())
    assert rows.equal(torch.softmax(x.detach(), 1))


def test_both_names_at_once_are_refused():
    x = torch.ones(2, 3)
    with pytest.raises(TypeError, match="dim"):
        torch.amax(x, dim=1, axis=0)
    with pytest.raises(TypeError, match="dim"):
        torch.sort(x, dim=1, axis=0)


@pytest.mark.parametrize(
    ("name", "args"),
    [
        *(("cumsum", (None,)), ("softmax", (None,)), ("unbind", (None,)), ("sort", (None,))),
        *(("index_select", (None, torch.tensor([0]))), ("transpose", (None, 0))),
        *(("logsumexp", (None,)), ("flip", (None,)), ("movedim", (None, 0))),
        ("topk", (1, None)),
    ],
)
def test_none_for_a_dim_that_must_be_given_is_a_type_error(name, args):
    with pytest.raises(TypeError, match="None"):
        getattr(torch, name)(torch.ones(2, 3), *args)


def test_a_missing_argument_is_named():
    with pytest.raises(TypeError, match=r"cumsum.*'dim'"):
        torch.cumsum(torch.ones(2))
    with pytest.raises(TypeError, match=r"gather.*'index'"):
        torch.gather(torch.ones(2), 0)


@pytest.mark.parametrize("factor", ["1", None, [1.0], {}])
def test_factors_are_numbers(factor):
    """NumPy makes a number of a text, and NaN of None."""
    x, m = torch.ones(2), torch.ones(2, 2)
    calls = [
        lambda: torch.add(x, x, alpha=factor),
        lambda: x.sub(x, alpha=factor),
        lambda: x.clone().add_(x, alpha=factor),
        lambda: torch.addmm(m, m, m, beta=factor),
        lambda: torch.addmv(x, m, x, alpha=factor),
        lambda: torch.addcmul(x, x, x, value=factor),
        lambda: torch.addcdiv(x, x, x, value=factor),
    ]
    for call in calls:
        with pytest.raises(TypeError):
            call()


def test_a_factor_may_be_a_tensor_that_needs_no_gradient():
    x, factor = torch.ones(2), torch.tensor(3.0)
    assert torch.add(x, x, alpha=factor).tolist() == [4, 4]
    with pytest.raises(TypeError, match="requires grad"):
        torch.add(x, x, alpha=factor.requires_grad_())
    with pytest.raises(TypeError, match="requires grad"):
        torch.addcmul(x, x, x, value=factor)


X = torch.ones(2, 3, 6, 6)
F = torch.nn.functional
INTS = {
    "a declared option": lambda value: torch.diagonal(X, value),
    "one of a method": lambda value: torch.ones(3).diag(value),
    "one of a composition": lambda value: F.conv2d(X, torch.ones(3, 3, 3, 3), groups=value),
    "sizes of windows": lambda value: F.max_pool2d(X, value),
    "a number of parts": lambda value: torch.chunk(X, value),
    "an optional one": lambda value: torch.fft.rfft(X, value),
    "decimals, through a ufunc": lambda value: torch.round(X, decimals=value),
}
FLOATS = {
    "a declared option": lambda value: F.hardshrink(X, value),
    "a composition's": lambda value: F.dropout(X, value),
    "a factor": lambda value: torch.addmm(*[torch.ones(2, 2)] * 3, beta=value),
    "one that is 1 by default": lambda value: torch.add(X, X, alpha=value),
    "in place": lambda value: torch.ones(2).sub_(torch.ones(2), alpha=value),
}


@pytest.mark.parametrize("call", INTS.values(), ids=INTS)
def test_int_options_take_ints_and_tensors_of_one(call):
    first(call(1))
    first(call(torch.tensor(1)))
    for wrong in (True, 1.0, "1", [[1]], torch.tensor(1.0), 1j):
        with pytest.raises(TypeError):
            call(wrong)


@pytest.mark.parametrize("call", FLOATS.values(), ids=FLOATS)
def test_numbers_have_no_gradient_that_could_be_lost(call):
    call(1)
    call(torch.tensor(1.0))
    for wrong in ("1", None, [1.0], torch.tensor(1.0, requires_grad=True), torch.ones(2)):
        with pytest.raises(TypeError):
            call(wrong)


def test_flags_without_a_default_are_bools_too():
    a = torch.eye(2)
    for wrong in (1, "yes", None):
        with pytest.raises(TypeError, match="`upper`"):
            torch.linalg.solve_triangular(a, a, upper=wrong)


@pytest.mark.parametrize("wrong", [{0}, {0: 1}, frozenset({0})])
def test_what_has_no_order_names_no_dimensions_or_sizes(wrong):
    for call in (torch.amax, torch.mean, torch.reshape, torch.flip, torch.permute):
        with pytest.raises(TypeError):
            call(torch.ones(1), wrong)


def test_losses_take_no_arrays_for_tensors():
    x = torch.ones(2, 3)
    for loss in (F.l1_loss, F.smooth_l1_loss, F.huber_loss, F.kl_div, F.poisson_nll_loss):
        with pytest.raises(TypeError, match="`target`"):
            loss(x, x.numpy())
        with pytest.raises(TypeError, match="`input`"):
            loss(x.numpy(), x)
    for wrong in (x.numpy(), 1.5):
        with pytest.raises(TypeError, match="`x2`"):
            F.pairwise_distance(x, wrong)


@pytest.mark.parametrize("wrong", ["text", None, [1.0]])
def test_what_is_real_already_is_a_tensor_all_the_same(wrong):
    for call in (torch.real, torch.conj_physical):
        with pytest.raises(TypeError, match="`input`"):
            call(wrong)


def test_flags_that_would_be_ignored_are_refused():
    x = torch.ones(2, 2)
    with pytest.raises(TypeError):
        torch.max(x, x, keepdim=True)
    with pytest.raises(TypeError, match="`full`"):
        F.poisson_nll_loss(x, x, full="no")
    with pytest.raises(TypeError, match="`swap`"):
        F.triplet_margin_loss(x, x, x, swap=1)
    with pytest.raises(TypeError, match="`keepdim`"):
        torch.linalg.matrix_norm(x, keepdim="no")


def test_ints_of_functions_with_numpys_spellings_too():
    x = torch.ones(4)
    for call in (
        lambda: torch.narrow(x, 0, 0, True),
        lambda: torch.unsafe_split(x, True),
        lambda: torch.unsafe_chunk(x, True),
        lambda: torch.slice_scatter(x, x, step=True),
        lambda: torch.gradient(x, edge_order=1.0),
    ):
        with pytest.raises(TypeError, match="must be int"):
            call()
    for call in (x.permute, x.reshape, x.flip, x.tile, x.broadcast_to):
        with pytest.raises(TypeError):
            call({0})
    with pytest.raises(TypeError):
        torch.as_strided(x, {2}, (1,))
