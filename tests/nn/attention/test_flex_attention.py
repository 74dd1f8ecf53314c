"""Attention by functions of scores."""

import numpy
import pytest

import pullback as torch
from pullback.autograd.gradcheck import gradcheck
from pullback.nn import functional as F
from pullback.nn.attention.flex_attention import (
    AuxRequest,
    BlockMask,
    create_block_mask,
    flex_attention,
)


def randn(*shape, seed=0):
    values = numpy.random.default_rng(seed).standard_normal(shape)
    return torch.tensor(values, requires_grad=True)


def test_derivatives_go_to_inputs_and_to_tables_that_the_function_uses():
    table = randn(2, 7, seed=3)

    def attended(q, k, v, table):
        mask = create_block_mask(lambda b, h, q, k: q >= k, 1, 1, 3, 4, BLOCK_SIZE=2)
        return flex_attention(
            q,
            k,
            v,
            score_mod=lambda score, b, h, q, k: score + table[h, q - k + 3],
            block_mask=mask,
        )

    inputs = randn(1, 2, 3, 2), randn(1, 2, 4, 2, seed=1), randn(1, 2, 4, 2, seed=2), table
    assert gradcheck(attended, inputs)


def test_without_functions_it_is_the_usual_attention():
    q, k = randn(2, 3, 4, 5), randn(2, 3, 6, 5, seed=1)
    expected = F.scaled_dot_product_attention(q, k, k)
    assert torch.allclose(flex_attention(q, k, k), expected)


def test_a_query_that_sees_nothing_gives_zeros():
    x = randn(1, 1, 4, 2)
    mask = create_block_mask(lambda b, h, q, k: (q > 1) & (k >= 0), 1, 1, 4, 4)
    out, aux = flex_attention(
        x, x, x, block_mask=mask, return_aux=AuxRequest(lse=True, max_scores=True)
    )
    assert not out[0, 0, :2].any()
    assert bool(aux.lse[0, 0, 0] == -torch.inf)
    assert aux.max_scores.shape == (1, 1, 4)
    (g,) = torch.autograd.grad(out.sum(), x)
    assert bool(g.isfinite().all())


def test_blocks_alone_are_a_mask():
    counts = torch.tensor([[[1, 2]]], dtype=torch.int32)
    order = torch.tensor([[[[0, 1], [0, 1]]]], dtype=torch.int32)
    mask = BlockMask.from_kv_blocks(counts, order, BLOCK_SIZE=2)
    x = randn(1, 1, 4, 2)
    seen = torch.tensor([[1, 1, 0, 0]] * 2 + [[1, 1, 1, 1]] * 2, dtype=torch.bool)
    expected = F.scaled_dot_product_attention(x, x, x, attn_mask=seen)
    assert torch.allclose(flex_attention(x, x, x, block_mask=mask), expected)


def test_half_precision_comes_back_as_it_was():
    x = randn(1, 1, 3, 2).detach().half()
    assert flex_attention(x, x, x).dtype == torch.float16


def test_kernels_that_are_a_gpus_say_so():
    with pytest.raises(AttributeError, match="GPU"):
        torch.nn.attention.varlen
    with pytest.raises(RuntimeError, match="CPU"):
        torch.nn.attention.activate_flash_attention_impl("FA4")
