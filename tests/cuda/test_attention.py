"""Attention in one kernel, against the host's in float64: lengths, widths, layouts, gradients."""

import numpy
import pytest

import pullback as torch
from tests.cuda.test_kernels import (  # noqa: F401 (fixtures)
    DTYPES,
    HALVES,
    both,
    library,
    numbers,
    ran,
)

F = torch.nn.functional


def attended(q, k, v, **options):
    return F.scaled_dot_product_attention(q, k, v, **options)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("queries", "keys", "width", "depth"),
    [(1, 1, 1, 1), (17, 70, 5, 3), (70, 33, 40, 24), (66, 129, 64, 33)],
)
def test_lengths_and_widths(ran, dtype, causal, queries, keys, width, depth):  # noqa: F811
    q, k = numbers(1, 2, queries, width), numbers(1, 2, keys, width, seed=1)
    v = numbers(1, 2, keys, depth, seed=2)
    both(lambda *given: attended(*given, is_causal=causal), q, k, v, dtype=dtype)
    assert ran is None or ran == ["pb_attend", "pb_attend_queries", "pb_attend_keys"]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_rows_of_128_numbers(ran, dtype):  # noqa: F811
    given = [numbers(1, 1, 34, 128, seed=i) for i in range(3)]
    both(lambda *given: attended(*given, is_causal=True), *given, dtype=dtype)
    assert ran is None or len(ran) == 3


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("batch", [(), (3,), (2, 1), (2, 1, 3)])
def test_batches_of_any_number_of_dimensions(ran, dtype, batch):  # noqa: F811
    given = [numbers(*batch, 9, 8, seed=i) for i in range(3)]
    both(lambda *given: attended(*given, scale=-0.3), *given, dtype=dtype)
    assert ran is None or len(ran) == 3


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("width", [8, 7])
def test_heads_of_one_projection_are_not_copied(library, ran, dtype, width):  # noqa: F811
    """Nor are their gradients, which lie as the heads do."""

    def program(x):
        parts = x.view(2, 33, 3, 3, width).permute(2, 0, 3, 1, 4)
        mixed = attended(*parts.unbind(0), is_causal=True)
        made = mixed.transpose(1, 2)
        assert not made.is_cuda or made.is_contiguous()
        return made.reshape(2, 33, 3 * width)

    both(program, numbers(2, 33, 9 * width), dtype=dtype)
    assert ran is None or ran == ["pb_attend", "pb_attend_queries", "pb_attend_keys"]
    made = library.cupy.asarray(numbers(2, 33, 3, 3, width)).transpose(2, 0, 3, 1, 4)
    rooms = library.attention._rooms(made[0], made[1], made[2])
    assert rooms[1].strides == made.strides[1:]
    from pullback.operators.cuda.overrides.attention import _whole

    whole = _whole(rooms, 0)
    assert whole.shape == made.shape
    assert whole.strides == made.strides
    assert _whole([rooms[0], rooms[2], rooms[1]], 0) is None
    assert _whole([one.copy() for one in rooms], 0) is None


@pytest.mark.parametrize("dtype", DTYPES)
def test_operands_that_lie_anyhow(dtype):
    def program(q, k, v):
        return attended(q.mT, k[..., ::2, :], v.transpose(0, 1)[..., 1:])

    q, k, v = numbers(2, 3, 6, 11), numbers(2, 3, 26, 6, seed=1), numbers(3, 2, 13, 5, seed=2)
    both(program, q, k, v, dtype=dtype)


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("wanted", [(0,), (1,), (2,), (0, 2), (1, 2)])
def test_gradients_of_some_operands(dtype, wanted):
    given = [numbers(2, 2, 5, 8, seed=i) for i in range(3)]

    def program(*made):
        parts = [one if i in wanted else one.detach() for i, one in enumerate(made)]
        return attended(*parts, is_causal=True)

    both(program, *given, dtype=dtype)


def test_second_derivatives_go_through_its_steps():
    results = []
    for device in ("cpu", "cuda"):
        given = [torch.tensor(numbers(2, 5, 4, seed=i)).to(device) for i in range(3)]
        for one in given:
            one.requires_grad_()
        out = attended(*given, is_causal=True)
        first = torch.autograd.grad(out.square().sum(), given, create_graph=True)
        second = torch.autograd.grad(sum(one.square().sum() for one in first), given)
        results.append([one.detach().cpu().numpy() for one in (out, *first, *second)])
    for expected, found in zip(*results, strict=True):
        assert numpy.allclose(expected, found)


def test_forward_mode_and_vmap_see_the_steps():
    q = torch.tensor(numbers(3, 2, 5, 4)).cuda()
    made, tangent = torch.func.jvp(lambda x: attended(x, x, x), (q,), (q,))
    host, expected = torch.func.jvp(lambda x: attended(x, x, x), (q.cpu(),), (q.cpu(),))
    assert torch.allclose(made.cpu(), host)
    assert torch.allclose(tangent.cpu(), expected)
    many = torch.vmap(lambda x: attended(x, x, x, is_causal=True))(q)
    assert torch.allclose(many.cpu(), attended(*[q.cpu()] * 3, is_causal=True))


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_scores_without_bound(dtype):
    """A score of infinity makes its row NaN, a hidden one changes nothing."""
    q = torch.ones(1, 1, 3, 8, dtype=getattr(torch, dtype))
    k, v = q.clone(), q.clone()
    k[0, 0, 2] = float("inf")
    made = attended(q.cuda(), k.cuda(), v.cuda(), is_causal=True).cpu()
    assert torch.equal(made[0, 0, :2], v[0, 0, :2])
    assert bool(made[0, 0, 2].isnan().all())


@pytest.mark.parametrize("dtype", HALVES)
def test_no_scores_are_held(library, dtype):  # noqa: F811
    """What a step holds grows with the rows, not with their square."""
    if not hasattr(library.cupy.get_default_memory_pool(), "used_bytes"):
        pytest.skip("needs the pool's count")
    x = torch.zeros(1, 1, 256, 8, dtype=getattr(torch, dtype)).cuda().requires_grad_()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    attended(x, x, x).sum().backward()
    assert torch.cuda.max_memory_allocated() - before < 256 * 256
