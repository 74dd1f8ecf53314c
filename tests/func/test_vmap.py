"""func.vmap: what goes in and out, randomness, writes, refusals."""

import warnings

import pytest

import pullback as torch
from pullback.func import debug_unwrap, grad, jacrev, vmap

tensor = torch.tensor
x, y = tensor([1.0, 2.0]), tensor([3.0, 4.0])
batch = torch.arange(6.0).reshape(2, 3)


def same(a, b):
    return a.shape == b.shape and bool(torch.isclose(a, b).all())


def test_vmap_is_found_in_both_places():
    """T-38"""
    assert torch.vmap is torch.func.vmap is vmap


def test_function_sees_one_example_and_runs_once():
    """T-67, T-88"""
    seen = []

    def f(v):
        seen.append((tuple(v.shape), v.dim(), v.numel(), v.stride(), len(v), v.requires_grad))
        return v.sum() + len(list(v))

    assert same(vmap(f)(batch), tensor([6.0, 15.0]))
    assert seen == [((3,), 1, 3, (1,), 3, False)]


def test_in_dims_may_be_nested_and_negative():
    """T-68"""

    def f(pair, d):
        return pair[0] + pair[1] * d["k"]

    result = vmap(f, in_dims=((1, None), {"k": -1}))((batch, y), {"k": batch})
    assert same(result, torch.stack([batch[:, i] + y * batch[:, i] for i in range(3)]))


@pytest.mark.parametrize(
    ("in_dims", "args"),
    [
        ([0], (x,)),
        ("a", (x,)),
        (None, (x,)),
        ((0, 0), (x,)),
        ((0, (0, 0)), (x, y)),
        (2, (x,)),
        ((0.5,), (x,)),
        ((None,), (x,)),
        (0, (x, 3)),
        (0, (x, tensor([1.0]))),
        (0, ()),
    ],
)
def test_bad_in_dims_are_refused(in_dims, args):
    """T-68"""
    with pytest.raises(ValueError, match="in_dims"):
        vmap(lambda *v: v[0], in_dims=in_dims)(*args)


def test_out_dims_place_the_batch():
    """T-69"""
    assert vmap(lambda v: v, out_dims=1)(batch).shape == (3, 2)
    assert vmap(lambda v: (v, v[0]), out_dims=(-1, 0))(batch)[0].shape == (3, 2)
    assert vmap(lambda v: v, out_dims=(0,))(batch).shape == (2, 3)
    assert vmap(lambda v: (v, 3), out_dims=(0, None))(batch)[1] == 3


@pytest.mark.parametrize(
    ("out_dims", "result", "error"),
    [
        (0, lambda v: 3, ValueError),
        (None, lambda v: v, ValueError),
        ("a", lambda v: v, ValueError),
        ((0,), lambda v: (v, v), ValueError),
        (5, lambda v: v, IndexError),
    ],
)
def test_bad_out_dims_are_refused(out_dims, result, error):
    """T-69"""
    with pytest.raises(error, match="out_dims"):
        vmap(result, out_dims=out_dims)(batch)


def test_result_that_all_share_is_expanded():
    """T-70"""
    assert same(vmap(lambda v: y)(x), torch.stack([y, y]))


def test_batch_of_nothing_gives_nothing():
    """T-70"""
    assert vmap(lambda v: v.sum())(torch.ones(0, 3)).shape == (0,)


def test_keyword_arguments_are_shared():
    """T-72"""
    assert same(vmap(lambda v, *, k: v * k.sum())(x, k=y), x * 7)


@pytest.mark.parametrize("size", [1, 2, 3, 10])
def test_chunks_are_joined(size):
    """T-71"""
    wide = torch.arange(15.0).reshape(5, 3)
    result = vmap(lambda v: (v.sum(), v), out_dims=(0, 1), chunk_size=size)(wide)
    assert same(result[0], wide.sum(1))
    assert same(result[1], wide.T)


def test_chunk_size_must_be_positive():
    """T-71"""
    with pytest.raises(ValueError, match="chunk_size"):
        vmap(lambda v: v, chunk_size=0)


def test_nested_maps_hide_both_dimensions():
    """T-73"""
    inner = vmap(lambda a, b: a * b, in_dims=(0, None))
    assert same(vmap(inner, in_dims=(None, 0))(x, batch[0]), batch[0].outer(x))


def test_broadcasting_is_within_an_example():
    """T-75"""
    result = vmap(lambda v: v + torch.ones(5, 1))(batch)
    assert same(result, batch[:, None] + torch.ones(5, 1))


def test_mapped_0d_tensor_does_not_promote():
    """T-77"""
    wide = torch.ones(2, dtype=torch.float64)
    assert vmap(lambda a, b: a * b)(wide, batch).dtype is torch.float32


# Randomness ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "draw",
    [
        lambda v: torch.rand(4),
        lambda v: torch.randn_like(v),
        lambda v: torch.randint(0, 9, (4,)),
        lambda v: torch.randperm(9),
        lambda v: torch.nn.functional.dropout(torch.ones(40)),
        lambda v: v.new_zeros(4).normal_(),
        lambda v: torch.bernoulli(torch.full((40,), 0.5)),
    ],
)
def test_random_numbers_are_refused_differ_or_agree(draw):
    """T-78, T-79"""
    with pytest.raises(RuntimeError, match="randomness"):
        vmap(draw)(x)
    torch.manual_seed(0)
    a, b = vmap(draw, randomness="different")(x)
    assert not bool((a == b).all())
    a, b = vmap(draw, randomness="same")(x)
    assert bool((a == b).all())


def test_draw_with_mapped_parameters():
    """T-78"""
    odds = torch.stack([torch.zeros(5), torch.ones(5)])
    assert same(vmap(torch.bernoulli, randomness="different")(odds), odds)
    with pytest.raises(RuntimeError, match="same"):
        vmap(torch.bernoulli, randomness="same")(odds)


def test_what_a_gradient_gives_beside_has_no_history_of_its_own_in_a_batch():
    x = torch.ones(3, 2)
    both = grad(lambda y: ((y * y).sum(), y * 2), has_aux=True)
    assert vmap(lambda row: both(row)[1])(x).grad_fn is None
    x.requires_grad_()
    beside = vmap(lambda row: both(row)[1])(x)
    assert torch.equal(torch.autograd.grad(beside.sum(), x)[0], torch.full((3, 2), 2.0))


def test_what_is_drawn_like_a_batch_of_one_is_drawn_once():
    x = torch.zeros(1, 3)
    torch.manual_seed(0)
    drawn = vmap(torch.rand_like, randomness="same")(x)
    torch.manual_seed(0)
    assert torch.equal(drawn, torch.rand(1, 3))


def test_each_level_has_its_own_randomness():
    """T-79"""
    inner = vmap(lambda a: torch.rand(3) + a * 0, randomness="same")
    result = vmap(inner, randomness="different")(torch.zeros(2, 4))
    assert bool((result[0] == result[0, :1]).all())
    assert not bool((result[0] == result[1]).all())


def test_dropout_in_evaluation_is_not_random():
    """T-79"""
    assert same(vmap(lambda v: torch.nn.functional.dropout(v, training=False))(batch), batch)


def test_chunks_share_a_draw_if_told_so():
    """T-79"""
    result = vmap(lambda v: torch.rand(3) + v * 0, randomness="same", chunk_size=1)(x)
    assert same(result[0], result[1])


def test_unknown_randomness_is_refused():
    """T-78"""
    with pytest.raises(RuntimeError, match="randomness"):
        vmap(lambda v: v, randomness="maybe")


# Writes -------------------------------------------------------------------------------------------


def test_write_to_a_mapped_tensor_reaches_the_batch():
    """T-81"""
    memory = batch.clone()
    result = vmap(lambda v: v.add_(1).mul_(v), in_dims=1, out_dims=1)(memory)
    assert same(memory, (batch + 1) ** 2)
    assert same(result, memory)


def test_slices_of_mapped_tensors_are_written():
    """T-81, T-90"""

    def f(v):
        out = v.new_zeros(4)
        out[0] = v.sum()
        out[1:] = v
        return out

    assert same(vmap(f)(batch), torch.stack([f(row) for row in batch]))


def test_shared_tensor_cannot_take_what_differs():
    """T-81"""
    shared = torch.zeros(3)
    with pytest.raises(RuntimeError, match="share"):
        vmap(lambda v: shared.add_(v))(batch)
    assert same(shared, torch.zeros(3))
    vmap(lambda v: shared.add_(1) + v)(batch)
    assert same(shared, torch.ones(3))


def test_out_is_refused():
    """T-83"""
    with pytest.raises(RuntimeError, match="out="):
        vmap(lambda v: torch.add(v, 1, out=torch.empty(3)))(batch)


def test_factories_follow_the_tensor_they_are_methods_of():
    """T-82"""
    assert vmap(lambda v: v.new_zeros(2).fill_(v))(x).shape == (2, 2)
    with pytest.raises(RuntimeError, match="share"):
        vmap(lambda v: torch.zeros(2).fill_(v))(x)


# Refusals -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "read",
    [
        lambda v: v.sum().item(),
        lambda v: v if v.sum() > 0 else -v,
        lambda v: v.nonzero(),
        lambda v: v[v > 0],
        lambda v: torch.masked_select(v, v > 0),
        lambda v: v.tolist(),
        lambda v: v.numpy(),
        lambda v: float(v[0]),
        lambda v: torch.unique(v),
        lambda v: range(3)[v[0].long()],
    ],
)
def test_what_depends_on_values_is_refused(read):
    """T-84"""
    with pytest.raises(RuntimeError, match=r"where|value"):
        vmap(read)(batch)


def test_escaped_tensor_is_refused():
    """T-87"""
    kept = []
    vmap(lambda v: (kept.append(v), v)[1])(x)
    with pytest.raises(RuntimeError, match="escaped"):
        kept[0] + 1
    assert "ended" in repr(kept[0])


def test_level_is_closed_after_an_exception():
    """T-39"""
    with pytest.raises(ZeroDivisionError):
        vmap(lambda v: 1 / 0)(x)
    assert same(x + 1, tensor([2.0, 3.0]))


def test_wrapped_tensor_shows_and_gives_its_batch():
    """T-51"""
    shown = []
    inner = vmap(lambda v: (shown.append((repr(v), debug_unwrap(v))), v)[1])
    inner(x)
    assert "BatchedTensor" in shown[0][0]
    assert shown[0][1] is x
    assert debug_unwrap(x) is x


# Gradients ----------------------------------------------------------------------------------------


def test_gradients_flow_through_the_map():
    """T-85"""
    leaf, shared = batch.clone().requires_grad_(), tensor(2.0, requires_grad=True)
    vmap(lambda v: (v * v).sum() * shared)(leaf).sum().backward()
    assert same(leaf.grad, 4 * batch)
    assert same(shared.grad, (batch * batch).sum())


def test_gradients_of_each_example_with_shared_parameters():
    """T-86"""
    weight = torch.arange(6.0).reshape(3, 2) / 10

    def loss(w, v):
        return ((v @ w).tanh() ** 2).sum()

    result = vmap(grad(loss), in_dims=(None, 0))(weight, batch)
    assert same(result, torch.stack([grad(loss)(weight, row) for row in batch]))
    captured = vmap(lambda v: grad(lambda w: loss(w, v))(weight))(batch)
    assert same(captured, result)


def test_jacobian_of_each_example():
    """T-58"""
    result = vmap(jacrev(torch.sin))(batch)
    assert same(result, torch.stack([torch.diag(row.cos()) for row in batch]))


def test_loop_warns_once_and_is_right(monkeypatch):
    """T-74: of an operator without a rule, which none is left to be."""
    monkeypatch.setattr(torch.histc.op, "batch", None)
    monkeypatch.setattr(torch.histc.op, "shifts", False)
    values = torch.arange(12.0).reshape(2, 6)
    with pytest.warns(UserWarning, match="histc"):
        result = vmap(lambda v: torch.histc(v, 3, 0, 12))(values)
    assert same(result, torch.stack([torch.histc(row, 3, 0, 12) for row in values]))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        vmap(lambda v: torch.histc(v, 3, 0, 12))(values)


def test_index_that_differs_between_examples():
    """T-67, T-76: a mapped 0-d index chooses an element of each example, to read or to write."""
    rows = torch.arange(6.0).reshape(2, 3)
    places = tensor([2, 0])
    assert same(vmap(lambda v, i: v[i])(rows, places), tensor([2.0, 3.0]))
    assert same(vmap(lambda i: rows[0][i])(places), tensor([2.0, 0.0]))

    def written(v, i):
        copied = v.clone()
        copied[i] = -1.0
        return copied

    expected = tensor([[0.0, 1, -1], [-1, 4, 5]])
    assert same(vmap(written)(rows, places), expected)


def test_maps_of_maps_count_rows():
    """T-73, T-74"""
    grid = torch.arange(24.0).reshape(2, 3, 4) % 5
    for f in (
        lambda v: torch.histc(v, 3),
        lambda v: torch.histogram(v, 3)[0],
        lambda v: torch.nonzero_static(v, size=2),
    ):
        expected = torch.stack([torch.stack([f(row) for row in one]) for one in grid])
        assert bool((vmap(vmap(f))(grid) == expected).all())


def test_examples_tell_of_derivatives_inside_the_map_alone():
    """T-48"""
    seen = []

    def f(v):
        w = v * 2
        node = type(w.grad_fn).__name__
        seen.append((v.requires_grad, v.is_leaf, w.requires_grad, w.is_leaf, node))
        return w.sum()

    vmap(grad(f))(batch)
    assert seen.pop() == (True, True, True, False, "MulBackward0")
    grad(lambda v: vmap(f)(v).sum())(batch)
    vmap(f)(batch.clone().requires_grad_())
    assert seen == [(False, True, False, True, "NoneType")] * 2


def test_given_generator_is_used_and_advances():
    """T-80"""
    mine, other = torch.Generator().manual_seed(3), torch.Generator().manual_seed(3)
    made = vmap(lambda v: torch.rand(2, generator=mine) + v * 0, randomness="same")(torch.zeros(4))
    expected = torch.rand(2, generator=other)
    assert same(made, torch.stack([expected] * 4))
    assert bool((mine.get_state() == other.get_state()).all())
    different = vmap(lambda v: torch.rand(2, generator=mine) + v * 0, randomness="different")(
        torch.zeros(2)
    )
    assert not same(different[0], different[1])


def test_memory_of_an_example_is_not_shown():
    """T-52"""
    for read in (lambda v: v.numpy(), lambda v: v.data_ptr()):
        with pytest.raises(RuntimeError, match="inside vmap"):
            vmap(read)(x)


@pytest.mark.parametrize(
    "draw",
    [
        torch.rand_like,
        torch.bernoulli,
        lambda p: torch.multinomial(p, 3),
        lambda p: p.clone().exponential_(),
        lambda p: p.clone().random_(1000),
    ],
)
@pytest.mark.parametrize("in_dims", [0, -1])
def test_draws_of_examples_are_those_of_the_whole_batch(draw, in_dims):
    """In the order of memory, as one call with the examples in front would draw."""
    x = torch.rand(6, 5, generator=torch.Generator().manual_seed(0))
    torch.manual_seed(1)
    mapped = torch.vmap(draw, in_dims=in_dims, randomness="different")(x)
    torch.manual_seed(1)
    assert torch.equal(mapped, draw(x.movedim(in_dims, 0)))
