"""Variances, covariances, quantiles and histograms: accuracy, corner cases, refusals."""

import math

import numpy
import pytest

import pullback as torch

nan = math.nan


def leaf(values):
    return torch.tensor(values, dtype=torch.float64, requires_grad=True)


def test_variance_of_data_far_from_zero_keeps_its_digits():
    data = numpy.random.default_rng(0).standard_normal((300, 400))
    x = torch.from_numpy((data + 1e3).astype("float32"))
    exact = (data + 1e3).astype("float32").astype("float64")
    for dim in (None, 0, 1):
        numpy.testing.assert_allclose(x.var(dim).numpy(), exact.var(dim, ddof=1), rtol=1e-3)


@pytest.mark.parametrize("value", [0.1, 1e8, -3.7])
@pytest.mark.parametrize("dim", [None, 0, 1])
def test_equal_elements_have_no_spread_though_their_mean_be_rounded(value, dim):
    x = torch.full((3, 7), value, requires_grad=True)
    y = x.std(dim)
    assert not y.detach().numpy().any()
    assert not torch.autograd.grad(y.sum(), x)[0].numpy().any()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("dim", [None, 0, 1, (0, 1)])
def test_small_variances_are_right_to_the_last_digits(dtype, dim):
    data = numpy.random.default_rng(0).standard_normal((9, 11)).astype(dtype) + 1000
    exact = data.astype(numpy.longdouble).var(dim, ddof=1)
    for keepdim in (False, True):
        got = torch.from_numpy(data).var(dim, keepdim=keepdim)
        numpy.testing.assert_allclose(
            got.numpy().reshape(exact.shape), exact, rtol=4 * numpy.finfo(dtype).eps
        )
        assert got.dtype is getattr(torch, dtype)


@pytest.mark.parametrize("size", [3, 1000, 40_000, 200_000])
@pytest.mark.parametrize("scale", [1e30, 1e-30])
@pytest.mark.parametrize("dim", [None, 0])
def test_deviations_whose_squares_leave_single_precision_have_a_spread(size, scale, dim):
    """Of many elements it was inf, or 0."""
    numbers = numpy.arange(size, dtype="f") / numpy.float32(size) * numpy.float32(scale)
    x = torch.tensor(numpy.stack([numbers, numbers * 2], -1))
    for got in (torch.std(x, dim), torch.std_mean(x, dim)[0]):
        exact = numpy.stack([numbers, numbers * 2], -1).astype("d").std(dim, ddof=1)
        numpy.testing.assert_allclose(got.numpy(), exact, rtol=1e-5)
    assert torch.var(torch.full((size, 2), scale), dim).max() == 0


def test_the_forms_of_var_agree():
    x = torch.tensor([[1.0, 2.0, 4.0], [0.0, 3.0, 1.0]])
    assert x.var(False).item() == x.var(unbiased=False).item() == x.var(correction=0).item()
    assert x.var(0, True, True).tolist() == x.var(0, keepdim=True).tolist()
    with pytest.raises(TypeError, match="not both"):
        x.var(0, unbiased=True, correction=1)


def test_var_mean_and_std_mean_pass_gradients_through_both_results():
    x = leaf([1.0, 2.0, 4.0])
    variance, average = torch.var_mean(x)
    (both,) = torch.autograd.grad(variance + average, x)
    x = x.detach().requires_grad_()
    (parts,) = torch.autograd.grad(x.var() + x.mean(), x)
    numpy.testing.assert_allclose(both.tolist(), parts.tolist())
    deviation, _ = torch.std_mean(x)
    numpy.testing.assert_allclose(deviation.item(), x.std().item())


def test_cov_weighs_observations():
    x = torch.tensor([[1.0, 2.0, 4.0], [3.0, 0.0, 1.0]], dtype=torch.float64)
    repeated = torch.cov(x[:, [0, 1, 1, 2, 2, 2]])
    weighted = torch.cov(x, fweights=torch.tensor([1, 2, 3]))
    numpy.testing.assert_allclose(weighted.numpy(), repeated.numpy())
    with pytest.raises(RuntimeError, match="fweights must have an integral dtype"):
        torch.cov(x, fweights=torch.ones(3))


def test_quantiles_interpolate_and_put_several_in_front():
    x = torch.tensor([[0.0, 1.0, 2.0], [3.0, 5.0, 7.0]])
    q = torch.tensor([0.25, 0.5])
    assert x.quantile(q, dim=1).tolist() == [[0.5, 4.0], [1.0, 5.0]]
    assert x.quantile(q, dim=1, keepdim=True).shape == (2, 2, 1)
    kinds = {"lower": 0.0, "higher": 1.0, "nearest": 0.0, "midpoint": 0.5, "linear": 0.25}
    for kind, expected in kinds.items():
        assert x[0].quantile(0.125, interpolation=kind).item() == expected


def test_quantile_has_a_gradient_for_the_fraction_too():
    x, q = leaf([1.0, 2.0, 4.0]), leaf(0.3)
    gx, gq = torch.autograd.grad(x.quantile(q), (x, q))
    numpy.testing.assert_allclose(gx.tolist(), [0.4, 0.6, 0])
    numpy.testing.assert_allclose(gq.item(), 2.0)


def test_nan_wins_in_quantile_and_median_but_does_not_count_in_their_nan_forms():
    x = torch.tensor([[1.0, nan, 4.0], [1.0, 2.0, 3.0]])
    assert numpy.isnan(x.quantile(0.5, dim=1).numpy()).tolist() == [True, False]
    assert x.nanquantile(0.5, dim=1).tolist() == [2.5, 2.0]
    assert x.median(1).indices.tolist() == [1, 1]
    assert x.nanmedian(1).values.tolist() == [1.0, 2.0]
    assert math.isnan(torch.tensor([nan, nan]).nanmedian().item())


def test_median_shares_the_gradient_among_equal_elements():
    x = leaf([1.0, 3.0, 3.0, 3.0])
    numpy.testing.assert_allclose(torch.autograd.grad(x.median(), x)[0].tolist(), [0, *[1 / 3] * 3])
    assert sorted(torch.autograd.grad(x.median(0).values, x)[0].tolist()) == [0, 0, 0, 1]


def test_mode_is_the_smallest_of_the_most_frequent_at_its_last_index():
    values, indices = torch.tensor([[3, 3, 2, 2, 1], [1, 1, 0, 5, 1]]).mode(1)
    assert values.tolist() == [2, 1]
    assert indices.tolist() == [3, 4]


def test_histogram_counts_both_edges_of_the_last_bin():
    x = torch.tensor([0.0, 1.0, 2.0, 3.0, nan])
    assert x.histc(3, 0, 3).tolist() == [1, 1, 2]
    counts, edges = torch.histogram(x[:4], 3)
    assert counts.tolist() == [1, 1, 2]
    assert edges.tolist() == [0, 1, 2, 3]


def test_histogram_densities_add_up_to_one():
    x = torch.from_numpy(numpy.random.default_rng(0).standard_normal((50, 2)))
    counts, edges = torch.histogramdd(x, [4, 5], density=True)
    areas = numpy.outer(*(numpy.diff(edge.numpy()) for edge in edges))
    numpy.testing.assert_allclose((counts.numpy() * areas).sum(), 1)


def test_bincount_adds_weights_in_their_precision():
    x = torch.tensor([1, 1, 3])
    assert x.bincount(torch.tensor([0.5, 0.25, 2.0])).tolist() == [0, 0.75, 0, 2]
    assert x.bincount(torch.tensor([1, 2, 3])).dtype is torch.float64
    assert x.bincount(minlength=6).shape == (6,)


def test_equal_tensors_have_equal_hashes_and_pairs_cancel():
    x = torch.tensor([1.5, 2.5])
    assert torch.hash_tensor(x).item() == torch.hash_tensor(x.clone()).item()
    assert torch.hash_tensor(torch.stack([x, x]), 0).tolist() == [0, 0]


@pytest.mark.parametrize(
    ("call", "error", "said"),
    [
        (lambda x: x.long().var(), RuntimeError, "var: .*torch.int64"),
        (lambda x: x.quantile(2.0), RuntimeError, "q must be between 0 and 1"),
        (lambda x: x.quantile(0.5, interpolation="cubic"), RuntimeError, "'cubic'"),
        (lambda x: x.half().quantile(0.5), RuntimeError, "float32 or float64"),
        (lambda x: x.bool().median(), NotImplementedError, "median"),
        (lambda x: x.median(keepdim=True), TypeError, "median"),
        (lambda x: x.histc(0), RuntimeError, "number of bins"),
        (lambda x: x.histc(3, 2, 1), RuntimeError, "max must be larger than min"),
        (lambda x: (x / 0).histc(3), RuntimeError, "not finite"),
        (lambda x: torch.tensor([-1]).bincount(), RuntimeError, "negative"),
        (lambda x: torch.cov(torch.ones(2, 2, 2)), RuntimeError, "at most 2 dimensions"),
    ],
)
def test_what_has_no_statistic_is_refused_with_the_reason(call, error, said):
    with pytest.raises(error, match=said):
        call(torch.ones(2, 3))


@pytest.mark.filterwarnings("ignore:.*degrees of freedom:UserWarning")
def test_more_correction_than_data_turns_the_gradient_round_as_in_torch():
    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    (g,) = torch.autograd.grad(x.var(0, correction=5), x)
    assert g.tolist() == [1.0, 0.0, -1.0]


@pytest.mark.parametrize("shape", [(2,), (10,), (1, 5), (2, 5), (32,), (33,), (3, 33), (40, 20)])
@pytest.mark.parametrize("dim", [None, -1])
@pytest.mark.parametrize("correction", [0, 1, 1.5])
def test_spread_of_few_float32_is_that_of_doubles_rounded_once(shape, dim, correction):
    data = (numpy.random.default_rng(0).standard_normal(shape) + 100).astype("float32")
    exact = data.astype("float64").var(dim, ddof=correction)
    for found, wanted in (
        (torch.var(torch.from_numpy(data), dim, correction=correction), exact),
        (torch.std(torch.from_numpy(data), dim, correction=correction), exact**0.5),
    ):
        assert found.dtype is torch.float32
        assert found.shape == numpy.shape(wanted)
        numpy.testing.assert_allclose(found.numpy(), wanted, rtol=1e-7)
