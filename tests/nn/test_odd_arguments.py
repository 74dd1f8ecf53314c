"""Arguments of functional layers that hardly fit: results and errors as torch has them."""

import sys

import pytest

import pullback as torch
from pullback.nn import functional

X = torch.zeros(3, 2, 4)
IMAGE = torch.zeros(1, 4, 2, 2)


def attention(query=X, **options):
    arguments = [query] * 3 + [4, 2, torch.zeros(12, 4), torch.zeros(12)]
    biases = [options.pop("bias_k", None), options.pop("bias_v", None)]
    out = [torch.zeros(4, 4), torch.zeros(4)]
    return functional.multi_head_attention_forward(*arguments, *biases, False, 0.0, *out, **options)


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"attn_mask": torch.zeros(3)}, AssertionError),
        ({"attn_mask": torch.zeros(1, 1, 3, 3)}, AssertionError),
        ({"attn_mask": torch.zeros(3, 4)}, RuntimeError),
        ({"attn_mask": torch.zeros(1, 3, 3)}, RuntimeError),
        ({"query": X[:, 0], "attn_mask": torch.zeros(3)}, AssertionError),
        ({"query": X[:, 0], "attn_mask": torch.zeros(3, 3, 3)}, AssertionError),
        ({"bias_k": torch.zeros(1, 1, 4)}, AssertionError),
        ({"bias_v": torch.zeros(1, 1, 4)}, AssertionError),
        ({"static_k": torch.zeros(3, 3, 2)}, AssertionError),
        ({"static_k": torch.zeros(4, 3, 3)}, AssertionError),
        ({"static_v": torch.zeros(3, 3, 2)}, AssertionError),
        (
            {
                "static_k": torch.zeros(4, 3, 2),
                "bias_k": torch.zeros(1, 1, 4),
                "bias_v": torch.zeros(1, 1, 4),
            },
            AssertionError,
        ),
    ],
)
def test_what_attention_cannot_use(options, error):
    with pytest.raises(error):
        attention(**options)


def test_keys_and_values_that_are_given_are_used():
    static = torch.zeros(4, 5, 2)
    assert attention(static_k=static, static_v=static)[1].shape == (2, 3, 5)


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (lambda: functional.nll_loss(torch.tensor(1.0), torch.tensor(0)), ValueError),
        (lambda: functional.pixel_shuffle(IMAGE, 3), RuntimeError),
        (lambda: torch.broadcast_shapes(1.0), RuntimeError),
        (lambda: torch.broadcast_shapes({2}), RuntimeError),
        (lambda: functional.interpolate(IMAGE, size=(2**62, 2**62)), RuntimeError),
    ],
)
def test_what_other_functions_cannot_use(call, error):
    with pytest.raises(error):
        call()


@pytest.mark.parametrize("mode", ["nearest", "bilinear", "area"])
@pytest.mark.parametrize("scale", [1e30, float("inf"), float("nan")])
def test_no_scale_is_too_large_to_be_refused(mode, scale):
    with pytest.raises(RuntimeError):
        functional.interpolate(IMAGE, scale_factor=scale, mode=mode)
    with pytest.raises(RuntimeError):
        functional.interpolate(IMAGE, scale_factor=(1.0, scale), mode=mode)


@pytest.mark.filterwarnings("ignore:TypedStorage")
def test_the_size_of_a_storage_counts_its_bytes():
    for make in (torch.Tensor.untyped_storage, torch.Tensor.storage):
        small, large = make(torch.zeros(10)), make(torch.zeros(1010))
        assert sys.getsizeof(large) - sys.getsizeof(small) == 4000


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("name", ["float64", "float16"])
def test_a_batch_without_elements_is_normed_in_any_dtype(name, training):
    layer = torch.nn.BatchNorm1d(3).train(training)
    out = layer(torch.zeros(0, 3, dtype=getattr(torch, name)))
    assert out.shape == (0, 3)
    assert out.dtype is getattr(torch, name)
    out.sum().backward()
    assert layer.weight.grad.tolist() == [0, 0, 0]
    with pytest.raises(RuntimeError, match="dtype"):
        layer(torch.zeros(2, 3, dtype=torch.float64))
