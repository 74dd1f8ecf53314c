"""Copies lie in memory as torch's do."""

import pytest

torch = pytest.importorskip("torch")

import pullback

VIEWS = [
    lambda t: t.zeros(3).expand(2, 3),
    lambda t: t.zeros(3, 1).expand(3, 4),
    lambda t: t.zeros(2, 1, 3).expand(2, 5, 3),
    lambda t: t.zeros(2, 3, 4).permute(2, 0, 1),
    lambda t: t.zeros(2, 3, 4, 5)[:, ::2, :, ::2],
    lambda t: t.zeros(4, 6).t()[::2],
    lambda t: t.zeros(()).expand(2, 2),
]


@pytest.mark.parametrize("view", VIEWS)
def test_a_clone_has_torchs_strides(view):
    assert view(pullback).clone().stride() == view(torch).clone().stride()


@pytest.mark.parametrize("view", VIEWS)
def test_a_move_has_torchs_strides(view):
    assert view(pullback).to("meta").stride() == view(torch).to("meta").stride()


# How many there are decides among kernels, and a layout must not change with it.
ORDERS = {
    "rows": lambda t, n: t.rand(4, n, n + 2),
    "columns": lambda t, n: t.rand(4, n + 2, n).transpose(1, 2),
    "turned": lambda t, n: t.rand(n + 2, 4, n).permute(1, 2, 0),
    "swapped": lambda t, n: t.rand(n, 4, n + 2).transpose(0, 1),
    "sliced": lambda t, n: t.rand(4, n, 2 * n + 4)[..., : n + 2],
    "expanded": lambda t, n: t.rand(1, n, n + 2).expand(4, n, n + 2),
    "images": lambda t, n: t.rand(4, 3, n, n).contiguous(memory_format=t.channels_last),
}
TORCHS = """
    abs neg exp sin sqrt tanh sigmoid erf erfc log1p relu square reciprocal isnan round
"""
FUNCTIONALS = """
    gelu silu mish elu selu leaky_relu softplus softsign hardswish hardtanh hardsigmoid relu6
    tanhshrink dropout
"""
ELEMENTWISE = {
    **{name: lambda t, x, name=name: getattr(t, name)(x) for name in TORCHS.split()},
    **{
        name: lambda t, x, name=name: getattr(t.nn.functional, name)(x)
        for name in FUNCTIONALS.split()
    },
}
CHOICES = {
    "where": lambda t, x: t.where(x > 0.5, x, 0.0),
    "where of two": lambda t, x: t.where(x > 0.5, x, x * 2),
    "masked_fill": lambda t, x: x.masked_fill(x > 0.5, 0.0),
    "clamp": lambda t, x: x.clamp(0.2, 0.5),
    "add": lambda t, x: x + x,
    "cube": lambda t, x: x**3,
    "losses": lambda t, x: t.nn.functional.binary_cross_entropy_with_logits(x, x, reduction="none"),
}


@pytest.mark.parametrize("name", [*ELEMENTWISE, *CHOICES])
@pytest.mark.parametrize("order", ORDERS)
def test_many_elements_lie_as_few_do_and_as_in_torch(name, order):
    call = (ELEMENTWISE | CHOICES)[name]
    for n in (3, 24, 130):
        for dtype in ("float32", "float64"):
            found = []
            for module in (torch, pullback):
                x = ORDERS[order](module, n)
                if order != "expanded":
                    x = x.to(getattr(module, dtype))
                found.append(call(module, x).stride())
            assert found[0] == found[1], (n, dtype)


@pytest.mark.parametrize("name", ["gelu", "silu", "elu", "softplus", "dropout", "leaky_relu"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_halves_of_expanded_tensors_are_contiguous_as_in_torch(name, dtype):
    for n in (3, 24):
        x = pullback.rand(1, n, n).to(getattr(pullback, dtype)).expand(4, n, n)
        assert getattr(pullback.nn.functional, name)(x).is_contiguous()


@pytest.mark.parametrize("view", VIEWS)
def test_dropout_draws_for_the_elements_that_torch_draws_for(view):
    """The numbers go along memory, so its order decides who gets which."""
    kept = []
    for module in (torch, pullback):
        module.manual_seed(3)
        kept.append(module.nn.functional.dropout(view(module) + 0 * view(module) + 1).bool())
    assert kept[0].tolist() == kept[1].tolist()
    kept = []
    for module in (torch, pullback):
        module.manual_seed(3)
        ones = module.ones(1, 3, 5).expand(4, 3, 5)
        kept.append(module.nn.functional.dropout(ones).bool())
    assert kept[0].tolist() == kept[1].tolist()
