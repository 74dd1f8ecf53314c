"""Attention over sequences of which each rank has a part: numbers and gradients of the whole."""

import pytest

import pullback as torch
import pullback.distributed as dist
from pullback.distributed.tensor.experimental import context_parallel
from pullback.distributed.tensor.experimental._attention import (
    _cp_options,
    context_parallel_unshard,
    set_rotate_method,
)

attention = torch.nn.functional.scaled_dot_product_attention


def operands(dtype=torch.float64, heads=2):
    generator = torch.Generator().manual_seed(1)
    shapes = [(2, 2, 16, 3), (2, heads, 16, 3), (2, heads, 16, 5)]
    return [torch.randn(*shape, generator=generator, dtype=dtype) for shape in shapes]


def in_parts(options, dtype=torch.float64, heads=2):
    """The whole result, and the whole gradients, of attention in parts."""
    mesh = dist.init_device_mesh("cpu", (dist.get_world_size(),))
    q, k, v = operands(dtype, heads)
    with context_parallel(mesh, buffers=[q, k, v], buffer_seq_dims=[2, 2, 2]):
        leaves = [one.clone().requires_grad_() for one in (q, k, v)]
        out = attention(*leaves, **options)
        out.square().sum().backward()
    assert q.shape[2] == 16
    grads = [one.grad for one in leaves]
    return context_parallel_unshard(mesh, [out, *grads], [2] * 4)


@pytest.mark.parametrize("ranks", [1, 2, 4])
@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"scale": 0.3}])
def test_attention_in_parts_is_that_of_the_whole(ranks, options):
    leaves = [one.requires_grad_() for one in operands()]
    out = attention(*leaves, **options)
    out.square().sum().backward()
    wanted = [out.detach(), *(one.grad for one in leaves)]
    for found in dist.threads.run(in_parts, ranks, options):
        for got, one in zip(found, wanted, strict=True):
            torch.testing.assert_close(got, one, rtol=1e-10, atol=1e-10)


def test_without_balance_each_rank_has_its_neighbours(monkeypatch):
    monkeypatch.setattr(_cp_options, "enable_load_balance", False)
    wanted = attention(*operands(), is_causal=True)
    for found in dist.threads.run(in_parts, 4, {"is_causal": True}):
        torch.testing.assert_close(found[0], wanted)


def test_groups_of_queries_and_half_precision():
    options = {"enable_gqa": True, "is_causal": True}
    wanted = attention(*operands(heads=1), **options)
    torch.testing.assert_close(
        dist.threads.run(in_parts, 2, options, torch.float64, 1)[0][0], wanted
    )
    wanted = attention(*operands(torch.bfloat16))
    found = dist.threads.run(in_parts, 2, {}, torch.bfloat16)[0][0]
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found, wanted)


def test_modules_attend_over_all_ranks_too():
    torch.manual_seed(0)
    layer = torch.nn.MultiheadAttention(4, 2, batch_first=True)
    x = torch.randn(1, 8, 4)
    wanted = layer(x, x, x, need_weights=False)[0].detach()

    def one():
        mesh = dist.init_device_mesh("cpu", (2,))
        part = x.clone()
        with context_parallel(mesh, buffers=[part], buffer_seq_dims=[1]):
            out = layer(part, part, part, need_weights=False)[0]
            with pytest.raises(NotImplementedError, match="need_weights=False"):
                layer(part, part, part)
        return context_parallel_unshard(mesh, [out], [1])[0]

    torch.testing.assert_close(dist.threads.run(one, 2)[1], wanted)


def test_compiled_functions_attend_over_all_ranks_too():
    compiled = torch.compile(lambda q, k, v: attention(q, k, v, is_causal=True) * 2)
    q, k, v = operands(torch.float32)
    short = [one[:, :, :8].contiguous() for one in (q, k, v)]
    for _ in range(3):
        compiled(*short)  # captured before, of the size that parts have
    wanted = attention(q, k, v, is_causal=True) * 2

    def one():
        mesh = dist.init_device_mesh("cpu", (2,))
        parts = operands(torch.float32)
        with context_parallel(mesh, buffers=parts, buffer_seq_dims=[2, 2, 2]):
            out = compiled(*parts)
        return context_parallel_unshard(mesh, [out], [2])[0]

    for found in dist.threads.run(one, 2):
        torch.testing.assert_close(found, wanted)


def test_buffers_come_back_unless_told():
    def one():
        mesh = dist.init_device_mesh("cpu", (2,))
        x, positions = torch.arange(8.0).reshape(1, 8), torch.arange(8)
        with context_parallel(
            mesh, buffers=[x, positions], buffer_seq_dims=[1, 0], no_restore_buffers={positions}
        ):
            assert list(x.shape) == [1, 4]
        assert x.tolist() == [list(range(8))]
        return positions.tolist()

    assert dist.threads.run(one, 2) == [[0, 1, 6, 7], [2, 3, 4, 5]]


def test_what_is_not_possible_is_refused():
    def one():
        mesh = dist.init_device_mesh("cpu", (2,))
        x = torch.ones(1, 1, 6, 2)
        with (
            pytest.raises(ValueError, match="pad it"),
            context_parallel(mesh, buffers=[x], buffer_seq_dims=[2]),
        ):
            pass
        with (
            pytest.raises(ValueError, match="requires a gradient"),
            context_parallel(mesh, buffers=[x.requires_grad_()], buffer_seq_dims=[2]),
        ):
            pass
        x = torch.ones(1, 1, 2, 2)
        with context_parallel(mesh):
            for options in ({"attn_mask": torch.ones(2, 2)}, {"dropout_p": 0.5}):
                with pytest.raises(NotImplementedError, match="context_parallel"):
                    attention(x, x, x, **options)
        assert attention(x, x, x).shape == x.shape

    dist.threads.run(one, 2)
    with pytest.raises(NotImplementedError, match="no method"):
        set_rotate_method("ring")
