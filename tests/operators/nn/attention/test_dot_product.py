"""Attention: weights by definition, masks, queries that see nothing."""

import math

import numpy
import pytest

import pullback as torch
from pullback.autograd.gradcheck import gradgradcheck

attention = torch.nn.functional.scaled_dot_product_attention


def randn(*shape, seed=0):
    values = numpy.random.default_rng(seed).standard_normal(shape)
    return torch.tensor(values, requires_grad=True)


def inputs():
    return randn(2, 3, 4), randn(2, 5, 4, seed=1), randn(2, 5, 2, seed=2)


def test_rows_of_value_are_mixed_by_softmax():
    q, k, v = inputs()
    weights = torch.softmax(q @ k.mT / math.sqrt(4), -1)
    numpy.testing.assert_allclose(
        attention(q, k, v).detach().numpy(), (weights @ v).detach().numpy(), rtol=1e-12
    )


@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"scale": 0.3}])
def test_derivatives_of_both_orders_hold(options):
    assert gradgradcheck(lambda *given: attention(*given, **options), inputs())


def test_a_bool_mask_hides_keys_as_minus_infinity_does():
    q, k, v = inputs()
    seen = torch.tensor(numpy.random.default_rng(3).random((3, 5)) > 0.3)
    added = torch.where(seen, 0.0, -math.inf).double()
    assert torch.equal(attention(q, k, v, seen), attention(q, k, v, added))


def test_causal_queries_see_no_later_keys():
    q, k, v = inputs()
    full = torch.ones(3, 5, dtype=torch.bool).tril()
    assert torch.equal(attention(q, k, v, is_causal=True), attention(q, k, v, full))


@pytest.mark.parametrize("causal", [False, True])
def test_gradients_are_the_same_whether_asked_for_together_or_one_by_one(causal):
    q, k, v = inputs()
    y = attention(q, k, v, is_causal=causal)
    seed = randn(*y.shape, seed=3).detach()
    together = torch.autograd.grad(y, (q, k, v), seed, retain_graph=True)
    stepwise = attention(q, k, v, torch.ones(3, 5, dtype=torch.bool).tril(0 if causal else 5))
    expected = torch.autograd.grad(stepwise, (q, k, v), seed)
    for one, found, other in zip((q, k, v), together, expected, strict=True):
        (alone,) = torch.autograd.grad(y, one, seed, retain_graph=True)
        numpy.testing.assert_allclose(alone.numpy(), found.numpy(), rtol=1e-12)
        numpy.testing.assert_allclose(other.numpy(), found.numpy(), rtol=1e-10, atol=1e-14)


def test_examples_of_vmap_attend_each_on_its_own():
    q, k, v = inputs()
    mapped = torch.func.vmap(attention, (0, None, 0))(q, k[0], v)
    for i in range(2):
        alone = attention(q[i], k[0], v[i])
        numpy.testing.assert_allclose(mapped[i].detach().numpy(), alone.detach().numpy())


def test_tangents_of_query_and_key_go_through_the_weights():
    q, k, v = inputs()
    tangents = tuple(randn(*one.shape, seed=4).detach() for one in (q, k, v))
    _, along = torch.func.jvp(attention, (q, k, v), tangents)
    step = 1e-6
    ends = [
        attention(
            *(one.detach() + sign * step * t for one, t in zip((q, k, v), tangents, strict=True))
        )
        for sign in (1, -1)
    ]
    quotient = (ends[0] - ends[1]) / (2 * step)
    numpy.testing.assert_allclose(along.detach().numpy(), quotient.numpy(), rtol=1e-6, atol=1e-9)


def test_a_query_that_sees_nothing_gets_zeros_and_gives_no_gradient():
    q, k, v = inputs()
    seen = torch.ones(3, 5, dtype=torch.bool)
    seen[1] = False
    mixed = attention(q, k, v, seen)
    assert mixed[:, 1].tolist() == [[0, 0], [0, 0]]
    (gradient,) = torch.autograd.grad(mixed.sum(), q)
    assert gradient[:, 1].abs().max().item() == 0
    assert gradient.isfinite().all()


def test_heads_of_keys_are_shared_by_groups_of_queries():
    q, k, v = randn(1, 4, 3, 2), randn(1, 2, 5, 2, seed=1), randn(1, 2, 5, 2, seed=2)
    shared = attention(q, k, v, enable_gqa=True)
    spread = attention(q, k.repeat_interleave(2, 1), v.repeat_interleave(2, 1))
    assert torch.equal(shared, spread)


def test_misfits_are_refused():
    q, k, v = inputs()
    with pytest.raises(RuntimeError, match="is_causal"):
        attention(q, k, v, torch.ones(3, 5, dtype=torch.bool), is_causal=True)
    with pytest.raises(RuntimeError, match="dtype"):
        attention(q.float(), k, v)
    with pytest.raises(RuntimeError, match="attn_mask"):
        attention(q, k, v, torch.ones(3, 5, dtype=torch.int64))


def attend(q, k, v, heads=2, **options):
    width = q.shape[-1]
    eye = torch.eye(width, dtype=torch.float64)
    return torch.nn.functional.multi_head_attention_forward(
        *(q, k, v, width, heads, eye.repeat(3, 1), None, None, None, False, 0.0, eye, None),
        **options,
    )


def test_heads_attend_each_to_its_part_of_the_width():
    q, k, v = randn(3, 1, 4), randn(5, 1, 4, seed=1), randn(5, 1, 4, seed=2)
    joined, weights = attend(q, k, v, average_attn_weights=False)
    assert weights.shape == (1, 2, 3, 5)
    for head in range(2):
        part = (slice(None), 0, slice(2 * head, 2 * head + 2))
        alone = attention(q[part], k[part], v[part])
        numpy.testing.assert_allclose(
            joined[part].detach().numpy(), alone.detach().numpy(), rtol=1e-12
        )


def test_weights_are_averaged_over_heads_or_left_away():
    q, k, v = randn(3, 1, 4), randn(5, 1, 4, seed=1), randn(5, 1, 4, seed=2)
    joined, weights = attend(q, k, v)
    assert weights.shape == (1, 3, 5)
    numpy.testing.assert_allclose(weights.sum(-1).detach().numpy(), 1)
    plain, nothing = attend(q, k, v, need_weights=False)
    assert nothing is None
    numpy.testing.assert_allclose(plain.detach().numpy(), joined.detach().numpy(), rtol=1e-12)


def test_padded_keys_are_not_seen():
    q, k, v = randn(3, 1, 4), randn(5, 1, 4, seed=1), randn(5, 1, 4, seed=2)
    padding = torch.tensor([[False, False, False, True, True]])
    masked, _ = attend(q, k, v, key_padding_mask=padding)
    shorter, _ = attend(q, k[:3], v[:3])
    numpy.testing.assert_allclose(masked.detach().numpy(), shorter.detach().numpy(), rtol=1e-12)


def test_heads_must_divide_the_width_and_causal_needs_its_mask():
    q = randn(3, 1, 4)
    with pytest.raises(AssertionError, match="divide"):
        attend(q, q, q, heads=3)
    with pytest.raises(RuntimeError, match="mask"):
        attend(q, q, q, is_causal=True)
    with pytest.raises(RuntimeError, match="attn_mask must be"):
        attend(q, q, q, attn_mask=torch.ones(2, 2))


def test_queries_of_no_width_look_at_all_keys_alike():
    q, k, v = torch.zeros(2, 0), torch.zeros(3, 0), randn(3, 2).detach()
    expected = v.mean(0).expand(2, 2)
    numpy.testing.assert_allclose(attention(q, k, v.float()).numpy(), expected.numpy(), rtol=1e-6)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("masked", [False, True])
def test_attention_of_half_precision_is_rounded_once(dtype, masked):
    torch.manual_seed(0)
    halves = [torch.randn(2, 6, 8).to(dtype).requires_grad_() for _ in range(3)]
    singles = [one.detach().float().requires_grad_() for one in halves]
    mask = torch.randn(6, 6).to(dtype) if masked else None
    found = torch.nn.functional.scaled_dot_product_attention(*halves, attn_mask=mask)
    mask = mask.float() if masked else None
    expected = torch.nn.functional.scaled_dot_product_attention(*singles, attn_mask=mask)
    assert torch.equal(found, expected.to(dtype))
    g = torch.randn(found.shape).to(dtype)
    for one, other in zip(
        torch.autograd.grad(found, halves, g),
        torch.autograd.grad(expected, singles, g.float()),
        strict=True,
    ):
        assert torch.equal(one, other.to(dtype))


@pytest.mark.parametrize("causal", [False, True])
def test_heads_of_one_matrix_go_back_to_one_without_a_copy(causal):
    whole = randn(2, 6, 3 * 4 * 5)
    heads = [one.reshape(2, 6, 4, 5).transpose(1, 2) for one in whole.chunk(3, -1)]
    mixed = attention(*heads, is_causal=causal)
    assert mixed.transpose(1, 2).is_contiguous()
    seed = randn(2, 6, 4, 5, seed=1).detach().transpose(1, 2)  # as it comes from one matrix
    gradients = torch.autograd.grad(mixed, heads, seed)
    apart = [one.detach().contiguous().requires_grad_() for one in heads]
    alone = attention(*apart, is_causal=causal)
    assert alone.is_contiguous()
    expected = torch.autograd.grad(alone, apart, seed)
    numpy.testing.assert_allclose(mixed.detach(), alone.detach(), rtol=1e-12)
    for found, wanted in zip(gradients, expected, strict=True):
        assert found.transpose(1, 2).is_contiguous()
        numpy.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-13)


@pytest.mark.parametrize(
    "mask", [torch.ones(6, 6, dtype=torch.bool).tril(), torch.zeros(4, 6, 6, dtype=torch.float64)]
)
def test_heads_of_one_matrix_go_back_to_one_with_a_mask_too(mask):
    """`mixed.transpose(1, 2).view(batch, length, width)` is a line that programs have."""
    whole = randn(2, 6, 3 * 4 * 5)
    heads = [one.reshape(2, 6, 4, 5).transpose(1, 2) for one in whole.chunk(3, -1)]
    mixed = attention(*heads, mask)
    assert mixed.transpose(1, 2).view(2, 6, 20).shape == (2, 6, 20)
    apart = [one.detach().contiguous().requires_grad_() for one in heads]
    alone = attention(*apart, mask)
    assert alone.is_contiguous()
    seed = randn(2, 4, 6, 5, seed=1).detach()
    numpy.testing.assert_allclose(mixed.detach(), alone.detach(), rtol=1e-12)
    expected = torch.autograd.grad(alone, apart, seed)
    for found, wanted in zip(torch.autograd.grad(mixed, heads, seed), expected, strict=True):
        numpy.testing.assert_allclose(found, wanted, rtol=1e-10, atol=1e-13)
    learned = torch.zeros(6, 6, dtype=torch.float64, requires_grad=True)
    assert attention(*heads, learned).is_contiguous()


@pytest.mark.parametrize("scale", [0.1, 100.0])
def test_many_causal_scores_large_or_small_are_those_of_a_mask(scale):
    q, k, v = (randn(3, 40, 8, seed=seed) for seed in range(3))
    mask = torch.ones(40, 40, dtype=torch.bool).tril()
    numpy.testing.assert_allclose(
        attention(q, k, v, is_causal=True, scale=scale).detach(),
        attention(q, k, v, mask, scale=scale).detach(),
        rtol=1e-10,
        atol=1e-13,
    )
