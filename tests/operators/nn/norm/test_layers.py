"""Norm layers: mean 0 and variance 1 over the right dimensions, with derivatives of every order."""

import numpy
import pytest

import pullback as torch
from pullback.autograd.gradcheck import gradcheck, gradgradcheck
from pullback.operators.arrays.blocks import BLOCK

functional = torch.nn.functional


def randn(*shape, seed=0, dtype=torch.float64):
    values = numpy.random.default_rng(seed).standard_normal(shape) * 2 + 1
    return torch.tensor(values, dtype=dtype, requires_grad=True)


def standardised(x, dims, eps=1e-5):
    centred = x - x.mean(dims, keepdims=True)
    return centred / numpy.sqrt((centred**2).mean(dims, keepdims=True) + eps)


NORMS = {
    "layer": (lambda x, w, b: functional.layer_norm(x, (4,), w, b), (3, 2, 4), (4,), (2,)),
    "layer of two": (
        lambda x, w, b: functional.layer_norm(x, (2, 4), w, b),
        (3, 2, 4),
        (2, 4),
        (1, 2),
    ),
    "batch": (
        lambda x, w, b: functional.batch_norm(x, None, None, w, b, training=True),
        (5, 3, 2),
        (3,),
        (0, 2),
    ),
    "batch of one example": (
        lambda x, w, b: functional.batch_norm(x, None, None, w, b, training=True),
        (1, 3, 4),
        (3,),
        (0, 2),
    ),
    "batch of one channel": (
        lambda x, w, b: functional.batch_norm(x, None, None, w, b, training=True),
        (3, 1, 2),
        (1,),
        (0, 2),
    ),
    "layer of all": (
        lambda x, w, b: functional.layer_norm(x, (2, 4), w, b),
        (2, 4),
        (2, 4),
        (0, 1),
    ),
    "instance": (
        lambda x, w, b: functional.instance_norm(x, weight=w, bias=b),
        (2, 3, 5),
        (3,),
        (2,),
    ),
}


@pytest.mark.parametrize("name", NORMS)
def test_values_are_standardised_scaled_and_shifted(name):
    function, shape, weights, dims = NORMS[name]
    x, w, b = randn(*shape), randn(*weights, seed=1), randn(*weights, seed=2)
    by_channel = weights if name.startswith("layer") else (-1, 1)
    expected = standardised(x.detach().numpy(), dims) * w.detach().numpy().reshape(by_channel)
    expected = expected + b.detach().numpy().reshape(by_channel)
    numpy.testing.assert_allclose(function(x, w, b).detach().numpy(), expected, rtol=1e-10)


@pytest.mark.parametrize("name", NORMS)
def test_derivatives_of_both_orders_hold(name):
    function, shape, weights, _ = NORMS[name]
    inputs = randn(*shape), randn(*weights, seed=1), randn(*weights, seed=2)
    assert gradcheck(function, inputs)
    assert gradgradcheck(function, inputs)
    assert gradgradcheck(lambda x: function(x, None, None), inputs[:1])


def test_third_derivative_of_layer_norm_is_the_difference_quotient_of_the_second():
    x = randn(1, 4)
    v = torch.tensor([[0.3, -0.2, 0.5, 0.1]], dtype=torch.float64)

    def derivative(order, at):
        y = (functional.layer_norm(at, (4,)) * v).sum()
        for _ in range(order):
            (slope,) = torch.autograd.grad(y, at, create_graph=True)
            y = (slope * v).sum()
        return y

    step = 1e-5
    above = derivative(2, (x + step * v).detach().requires_grad_())
    below = derivative(2, (x - step * v).detach().requires_grad_())
    quotient = (above - below).item() / (2 * step)
    assert derivative(3, x).item() == pytest.approx(quotient, rel=1e-5)


def test_rms_norm_takes_no_mean_away():
    x, w = randn(3, 4), randn(4, seed=1)
    values = x.detach().numpy()
    expected = values / numpy.sqrt((values**2).mean(1, keepdims=True) + 0.1) * w.detach().numpy()
    result = functional.rms_norm(x, (4,), w, eps=0.1)
    numpy.testing.assert_allclose(result.detach().numpy(), expected, rtol=1e-12)
    assert gradgradcheck(lambda *given: functional.rms_norm(given[0], (4,), given[1], 0.1), (x, w))


def test_group_norm_of_one_group_per_channel_is_instance_norm():
    x, w, b = randn(2, 4, 3), randn(4, seed=1), randn(4, seed=2)
    groups = functional.group_norm(x, 4, w, b)
    instances = functional.instance_norm(x, weight=w, bias=b)
    numpy.testing.assert_allclose(groups.detach().numpy(), instances.detach().numpy(), rtol=1e-10)
    assert gradcheck(lambda *given: functional.group_norm(given[0], 2, *given[1:]), (x, w, b))


def test_batch_norm_moves_its_running_statistics_in_training_only():
    x = randn(6, 2)
    mean, variance = torch.zeros(2).double(), torch.ones(2).double()
    functional.batch_norm(x, mean, variance, training=True, momentum=0.5)
    values = x.detach().numpy()
    numpy.testing.assert_allclose(mean.numpy(), values.mean(0) / 2, rtol=1e-10)
    numpy.testing.assert_allclose(variance.numpy(), (1 + values.var(0, ddof=1)) / 2, rtol=1e-6)
    assert mean._version == 1
    before = mean.clone()
    evaluated = functional.batch_norm(x, mean, variance)
    assert torch.equal(mean, before)
    expected = (values - mean.numpy()) / numpy.sqrt(variance.numpy() + 1e-5)
    numpy.testing.assert_allclose(evaluated.detach().numpy(), expected, rtol=1e-10)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_blocks_do_not_show(dtype):
    width = BLOCK // 60
    x = randn(70, width, dtype=dtype)
    w, b = randn(width, seed=1, dtype=dtype), randn(width, seed=2, dtype=dtype)
    weights = randn(70, width, seed=3, dtype=dtype).detach()
    whole = functional.layer_norm(x, (width,), w, b)
    gradients = torch.autograd.grad(whole, (x, w, b), weights)
    parts = [x.detach()[i : i + 7].requires_grad_() for i in range(0, 70, 7)]
    total_w, total_b = 0, 0
    for number, part in enumerate(parts):
        rows = slice(7 * number, 7 * number + 7)
        of_part = torch.autograd.grad(
            functional.layer_norm(part, (width,), w, b), (part, w, b), weights[rows]
        )
        numpy.testing.assert_allclose(
            gradients[0][rows].numpy(), of_part[0].numpy(), rtol=1e-3, atol=1e-4
        )
        total_w, total_b = total_w + of_part[1], total_b + of_part[2]
    numpy.testing.assert_allclose(gradients[1].numpy(), total_w.numpy(), rtol=1e-3, atol=1e-3)
    numpy.testing.assert_allclose(gradients[2].numpy(), total_b.numpy(), rtol=1e-3, atol=1e-3)


def test_rows_far_from_zero_keep_the_digits_of_results_and_gradients():
    random = numpy.random.default_rng(4)
    values = (random.standard_normal((60, 48)) + 300).astype(numpy.float32)
    weights = random.standard_normal((60, 48)).astype(numpy.float32)
    found = {}
    for dtype in (torch.float32, torch.float64):
        x = torch.tensor(values, dtype=dtype, requires_grad=True)
        w = torch.full((48,), 0.5, dtype=dtype, requires_grad=True)
        out = functional.layer_norm(x, (48,), w)
        found[dtype] = out, *torch.autograd.grad(out, (x, w), torch.tensor(weights, dtype=dtype))
    for single, double in zip(*found.values(), strict=True):
        numpy.testing.assert_allclose(single.detach(), double.detach(), atol=1e-3)


# Shapes for each of the ways to see an input: few elements, rows, long rows, runs of channels, a
# single element per run; and what is normalised over which dims of the grouped shape.
def _layer(x, w, b):
    return functional.layer_norm(x, tuple(w.shape), w, b)


def _batch(x, w, b):
    return functional.batch_norm(x, None, None, w, b, training=True)


def _groups(x, w, b):
    return functional.group_norm(x, 2, w, b)


def _instance(x, w, b):
    return functional.instance_norm(x, weight=w, bias=b)


LAYOUTS = {
    "few rows": (_layer, (3, 2, 5), (5,), (2,)),
    "rows": (_layer, (4, 300), (300,), (1,)),
    "rows of two dims": (_layer, (2, 40, 40), (40, 40), (1, 2)),
    "long rows": (_layer, (2, 5001), (5001,), (1,)),
    "few channels": (_batch, (3, 4, 2, 2), (4,), (0, 2, 3)),
    "channels": (_batch, (3, 4, 20, 20), (4,), (0, 2, 3)),
    "channels of many examples": (_batch, (9, 4, 10, 10), (4,), (0, 2, 3)),
    "long channels": (_batch, (2, 3, 5001), (3,), (0, 2)),
    "channels of one element": (_batch, (700, 4), (4,), (0,)),
    "few groups": (_groups, (2, 4, 3), (4,), (2, 3)),
    "groups": (_groups, (2, 4, 20, 20), (4,), (2, 3, 4)),
    "groups of one element each": (_groups, (300, 8), (8,), (2,)),
    "instances": (_instance, (3, 4, 20, 20), (4,), (2, 3)),
}


def composed(name, x, w, b):
    """The same by definition, step by step."""
    function, shape, _, dims = LAYOUTS[name]
    groups = (2, -1) if function is _groups else (shape[1],)
    if function is not _layer:
        x = x.reshape((shape[0], *groups, *shape[2:]))
        w, b = (one.reshape((*groups, *(1,) * (len(shape) - 2))) for one in (w, b))
    rest = x - x.mean(dims, keepdim=True)
    made = rest / ((rest * rest).mean(dims, keepdim=True) + 1e-5).sqrt() * w + b
    return made.reshape(shape)


def layout_inputs(name):
    _, shape, weights, _ = LAYOUTS[name]
    return randn(*shape), randn(*weights, seed=1), randn(*weights, seed=2)


@pytest.mark.parametrize("name", LAYOUTS)
def test_every_layout_gives_what_the_definition_gives_with_both_derivatives(name):
    inputs = layout_inputs(name)
    found = []
    for function in (LAYOUTS[name][0], lambda *given: composed(name, *given)):
        y = function(*inputs)
        seed = randn(*y.shape, seed=3)
        first = torch.autograd.grad(y, inputs, seed, create_graph=True)
        mixed = sum((one * randn(*one.shape, seed=4).detach()).sum() for one in first)
        found.append([y, *first, *torch.autograd.grad(mixed, (*inputs, seed), allow_unused=True)])
    for ours, expected in zip(*found, strict=True):
        if expected is None:
            assert ours is None or not ours.any()
        else:
            ours, expected = ours.detach().numpy(), expected.detach().numpy()
            numpy.testing.assert_allclose(ours, expected, rtol=1e-7, atol=1e-8)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float16])
@pytest.mark.parametrize("name", LAYOUTS)
def test_gradients_are_the_same_whether_asked_for_together_or_one_by_one(name, dtype):
    inputs = [one.detach().to(dtype).requires_grad_() for one in layout_inputs(name)]
    y = LAYOUTS[name][0](*inputs)
    seed = randn(*y.shape, seed=3, dtype=dtype).detach()
    together = torch.autograd.grad(y, inputs, seed, retain_graph=True)
    exact = dtype is torch.float64
    tolerances = {"rtol": 1e-9, "atol": 1e-9} if exact else {"rtol": 5e-2, "atol": 2e-2}
    for one, expected in zip(inputs, together, strict=True):
        (alone,) = torch.autograd.grad(y, one, seed, retain_graph=True)
        assert alone.dtype is dtype
        numpy.testing.assert_allclose(alone.numpy(), expected.numpy(), **tolerances)


@pytest.mark.parametrize("name", LAYOUTS)
def test_results_are_contiguous_whatever_the_strides_of_the_input(name):
    x, w, b = layout_inputs(name)
    turned = x.detach().transpose(0, -1).contiguous().transpose(0, -1)
    y = LAYOUTS[name][0](turned, w, b)
    assert y.is_contiguous()
    straight = LAYOUTS[name][0](x, w, b)
    numpy.testing.assert_allclose(y.detach().numpy(), straight.detach().numpy(), rtol=1e-9)


def test_examples_of_vmap_may_have_weights_of_their_own():
    x, w, b = randn(5, 2, 4, 3), randn(5, 4, seed=1), randn(5, 4, seed=2)
    average, variance = randn(5, 4, seed=3).detach(), randn(5, 4, seed=4).detach() ** 2
    for function in (_batch, _groups, _instance):
        mapped = torch.func.vmap(function)(x, w, b)
        for i in range(5):
            numpy.testing.assert_allclose(
                mapped[i].detach().numpy(), function(x[i], w[i], b[i]).detach().numpy(), rtol=1e-9
            )

    def evaluated(x, w, b, average, variance):
        return functional.batch_norm(x, average, variance, w, b)

    mapped = torch.func.vmap(evaluated)(x, w, b, average, variance)
    for i in range(5):
        alone = evaluated(x[i], w[i], b[i], average[i], variance[i])
        numpy.testing.assert_allclose(mapped[i].detach().numpy(), alone.detach().numpy(), rtol=1e-9)


@pytest.mark.parametrize("shape", [(6, 3), (4, 3, 2), (3, 3, 20, 20)])
def test_given_statistics_are_constants_of_a_linear_function(shape):
    x, w, b = randn(*shape), randn(3, seed=1), randn(3, seed=2)
    average, variance = randn(3, seed=3).detach(), randn(3, seed=4).detach() ** 2
    each = (1, 3, *(1,) * (len(shape) - 2))
    y = functional.batch_norm(x, average, variance, w, b)
    assert type(y.grad_fn).__name__ == "NativeBatchNormBackward0"
    unit = (x - average.reshape(each)) / (variance.reshape(each) + 1e-5).sqrt()
    expected = unit * w.reshape(each) + b.reshape(each)
    numpy.testing.assert_allclose(y.detach().numpy(), expected.detach().numpy(), rtol=1e-9)
    seed = randn(*shape, seed=5).detach()
    ours = torch.autograd.grad(y, (x, w, b), seed)
    theirs = torch.autograd.grad(expected, (x, w, b), seed)
    for one, other in zip(ours, theirs, strict=True):
        numpy.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-9, atol=1e-12)
    if x.numel() < 100:
        assert gradgradcheck(
            lambda *given: functional.batch_norm(given[0], average, variance, *given[1:]),
            (x, w, b),
        )


def test_native_forms_give_the_statistics_too():
    x = randn(3, 4)
    out, mean, rstd = torch.native_layer_norm(x, (4,), None, None, 1e-5)
    assert mean.shape == rstd.shape == (3, 1)
    numpy.testing.assert_allclose(((x - mean) * rstd).detach().numpy(), out.detach().numpy())
    out, mean, rstd = torch.native_batch_norm(x, None, None, None, None, True, 0.1, 1e-5)
    assert mean.shape == rstd.shape == (4,)
    out, mean, rstd = torch.native_group_norm(x, None, None, 3, 4, 1, 2, 1e-5)
    assert mean.shape == rstd.shape == (3, 2)


def test_local_response_norm_looks_at_neighbouring_channels():
    x = randn(1, 3, 1)
    values = x.detach().numpy()[0, :, 0]
    near = numpy.array([values[:1] @ values[:1], values[:2] @ values[:2], values[1:] @ values[1:]])
    expected = values / (1 + 0.5 * near / 2) ** 0.75
    result = functional.local_response_norm(x, 2, alpha=0.5)
    numpy.testing.assert_allclose(result.detach().numpy()[0, :, 0], expected, rtol=1e-12)


def test_nothing_to_normalise_gives_nothing():
    x, w = randn(0, 4), randn(4)
    y = functional.layer_norm(x, (4,), w)
    assert y.shape == (0, 4)
    assert torch.autograd.grad(y.sum(), w)[0].tolist() == [0, 0, 0, 0]


MIXED = {
    "batch": lambda x, w: functional.batch_norm(x, None, None, w, training=True),
    "evaluated": lambda x, w: functional.batch_norm(x, w, w),
    "group": lambda x, w: functional.group_norm(x, 2, w),
    "instance": lambda x, w: functional.instance_norm(x[:, :, None].expand(2, 4, 3), weight=w),
    "layer": lambda x, w: functional.layer_norm(x, (4,), w),
}


@pytest.mark.parametrize("name", MIXED)
def test_weights_have_the_dtype_of_the_input_or_are_single_beside_half(name):
    x = randn(2, 4).detach()
    for half in (torch.float16, torch.bfloat16):
        assert MIXED[name](x.to(half), torch.ones(4)).dtype is half
    with pytest.raises(RuntimeError, match="dtype"):
        MIXED[name](x.float(), torch.ones(4, dtype=torch.float64))


def test_weights_of_rms_norm_are_brought_to_the_dtype_of_the_input():
    x = randn(2, 4).detach()
    for dtype in (torch.float32, torch.float16, torch.complex64):
        weight = torch.ones(4, dtype=torch.float64, requires_grad=True)
        made = functional.rms_norm(x.to(dtype), (4,), weight)
        assert made.dtype is dtype
        (gradient,) = torch.autograd.grad(made.abs().sum(), weight)
        assert gradient.dtype is torch.float64


REFUSED = [
    (TypeError, "num_groups", lambda x: functional.group_norm(x, 2.0)),
    (TypeError, "sequence", lambda x: functional.layer_norm(x, torch.tensor([4]))),
    (ValueError, "together", lambda x: functional.batch_norm(x, x[0], None, training=True)),
    (RuntimeError, "2 dimensions", lambda x: functional.batch_norm(x[0], x[0], x[1])),
    (NotImplementedError, "int64", lambda x: functional.rms_norm(x.long(), (4,), x[0])),
    (TypeError, "sequence", lambda x: functional.layer_norm(x, 4)),
    (RuntimeError, "empty", lambda x: functional.layer_norm(x, ())),
    (RuntimeError, "last sizes", lambda x: functional.layer_norm(x, (3,))),
    (RuntimeError, "weight must have", lambda x: functional.layer_norm(x, (4,), torch.ones(4))),
    (NotImplementedError, "int64", lambda x: functional.layer_norm(x.long(), (4,))),
    (RuntimeError, "groups", lambda x: functional.group_norm(x, 3)),
    (RuntimeError, "running_mean", lambda x: functional.batch_norm(x, None, None)),
    (
        ValueError,
        "more than one",
        lambda x: functional.batch_norm(x[:1], None, None, training=True),
    ),
    (
        RuntimeError,
        "no gradient",
        lambda x: functional.batch_norm(x, x[0].clone().requires_grad_(), x[1]),
    ),
    (RuntimeError, "one element for each", lambda x: functional.batch_norm(x, x[0][:2], x[0])),
    (ValueError, "more than one", lambda x: functional.instance_norm(x[:, :, None])),
    (ValueError, "3 dimensions", lambda x: functional.local_response_norm(x, 2)),
]


@pytest.mark.parametrize(("kind", "words", "call"), REFUSED)
def test_misfits_are_refused(kind, words, call):
    with pytest.raises(kind, match=words):
        call(randn(2, 4).detach())


EQUAL = {
    "layer": lambda x, w, b: functional.layer_norm(x, x.shape[-1:], w, b),
    "rms": lambda x, w, b: functional.rms_norm(x, x.shape[-1:], w) + 0 * b,
    "group": lambda x, w, b: functional.group_norm(x, 1, w, b),
    "group of each": lambda x, w, b: functional.group_norm(x, x.shape[1], w, b),
    "batch": lambda x, w, b: functional.batch_norm(x, None, None, w, b, training=True),
    "instance": lambda x, w, b: functional.instance_norm(x, weight=w, bias=b),
}


@pytest.mark.parametrize("name", EQUAL)
@pytest.mark.parametrize("shape", [(3, 3, 3), (2, 3, 3), (2, 2, 2, 2)])
def test_equal_sizes_do_not_mix_channels_and_places(name, shape):
    size = shape[-1]
    inputs = randn(*shape), randn(size, seed=1), randn(size, seed=2)
    assert gradcheck(EQUAL[name], inputs)
    assert gradgradcheck(EQUAL[name], inputs)


@pytest.mark.parametrize("size", [12, 40])
def test_instance_norm_of_many_elements_with_as_many_channels_as_places(size):
    x, w, b = randn(2, size, size), randn(size, seed=1), randn(size, seed=2)
    g = randn(2, size, size, seed=3).detach()
    out = functional.instance_norm(x, weight=w, bias=b)
    unit = standardised(x.detach().numpy(), (2,))
    expected = unit * w.detach().numpy()[:, None] + b.detach().numpy()[:, None]
    numpy.testing.assert_allclose(out.detach().numpy(), expected, rtol=1e-9)
    out.backward(g)
    numpy.testing.assert_allclose(w.grad.numpy(), (g.numpy() * unit).sum((0, 2)), rtol=1e-9)
    numpy.testing.assert_allclose(b.grad.numpy(), g.numpy().sum((0, 2)), rtol=1e-9)


def test_group_norm_of_nothing_is_nothing_with_gradients():
    x = torch.ones(2, 4, 0, requires_grad=True)
    weight = torch.ones(4, requires_grad=True)
    bias = torch.ones(4, requires_grad=True)
    made = torch.nn.functional.group_norm(x, 2, weight, bias)
    made.sum().backward()
    assert made.shape == x.grad.shape == (2, 4, 0)
    assert weight.grad.tolist() == bias.grad.tolist() == [0] * 4
