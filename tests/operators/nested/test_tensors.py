"""Nested tensors themselves: made, taken apart, shown, copied, written to, differentiated."""

import copy
import gc
import io
import pickle

import pytest

import pullback as torch
from pullback.testing.nested_samples import FORMS, batch


def lengths_of(x):
    return [tuple(c.shape) for c in x.unbind()]


# Made --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", [torch.jagged, torch.strided])
def test_nested_tensor_copies_and_makes_a_leaf(layout):
    """B-68"""
    a, b = torch.ones(2, 3, requires_grad=True), torch.ones(1, 3)
    x = torch.nested.nested_tensor([a, b], layout=layout, requires_grad=True)
    assert x.is_leaf
    assert x.requires_grad
    with torch.no_grad():
        a.mul_(5)
    assert x.unbind()[0].sum() == 6
    one = torch.nested.nested_tensor([b], layout=layout)
    b.mul_(5)
    assert one.unbind()[0].sum() == 3


@pytest.mark.parametrize("layout", [torch.jagged, torch.strided])
def test_as_nested_tensor_keeps_the_history_of_its_components(layout):
    """B-68"""
    a, b = torch.ones(2, 3, requires_grad=True), torch.ones(1, 3, requires_grad=True)
    x = torch.nested.as_nested_tensor([a, b], layout=layout)
    (x * 3).sum().backward()
    assert (a.grad == 3).all()
    assert (b.grad == 3).all()
    assert torch.nested.as_nested_tensor(x, layout=layout) is x


def test_a_jagged_tensor_stands_on_the_memory_of_its_values():
    """B-68"""
    values = torch.arange(10.0).reshape(5, 2)
    x = torch.nested.nested_tensor_from_jagged(values, torch.tensor([0, 2, 5]))
    values.zero_()
    assert x.sum() == 0
    x[1].fill_(2)
    assert values.sum() == 12


def test_narrow_and_masked_select_view_and_choose():
    """B-68"""
    padded = torch.arange(12.0).reshape(3, 4).requires_grad_()
    x = torch.nested.narrow(
        padded, 1, torch.tensor([0, 1, 2]), torch.tensor([2, 0, 2]), torch.jagged
    )
    assert [c.tolist() for c in x.unbind()] == [[0, 1], [], [10, 11]]
    assert x._is_view()
    assert x._base is padded._base
    turned = torch.zeros(4, 3).t()
    assert not torch.nested.narrow(turned, 1, 0, torch.tensor([1, 2, 1]), torch.jagged)._is_view()
    x.sum(1).sum().backward()
    assert padded.grad.tolist() == [[1, 1, 0, 0], [0, 0, 0, 0], [0, 0, 1, 1]]
    y = torch.nested.masked_select(padded.detach(), padded > 8)
    assert [c.tolist() for c in y.unbind()] == [[], [], [9, 10, 11]]


BAD = [
    (lambda: torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(3)]), "dimensions"),
    (lambda: _jagged([torch.ones(2, 3), torch.ones(3, 4)]), "differ in 2"),
    (lambda: _jagged([]), "empty list"),
    (lambda: torch.nested.nested_tensor_from_jagged(torch.ones(3)), "offsets, lengths"),
    (lambda: _from_offsets([0, 2, 9]), "within 3 rows"),
    (lambda: _from_offsets([2, 0, 3]), "end before"),
]


def _jagged(parts):
    return torch.nested.nested_tensor(parts, layout=torch.jagged)


def _from_offsets(offsets):
    return torch.nested.nested_tensor_from_jagged(torch.ones(3), torch.tensor(offsets))


@pytest.mark.parametrize(("make", "says"), BAD)
def test_what_does_not_fit_is_refused(make, says):
    """B-68"""
    with pytest.raises(RuntimeError, match=says):
        make()


# Shapes ------------------------------------------------------------------------------------------


def test_the_ragged_size_is_a_symbol_of_its_offsets():
    """B-69"""
    x, y = batch(torch, "jagged"), batch(torch, "jagged")
    assert x.shape == (3, x.shape[1], 4)
    assert (x * 2).shape == x.shape
    assert x.shape != y.shape
    again = torch.nested.nested_tensor_from_jagged(y.values(), x.offsets())
    assert again.shape == x.shape
    assert repr(x.shape[1] * 3) == f"3*{x.shape[1]!r}"
    assert x.shape[1] >= 2
    with pytest.raises(ValueError, match="different sizes"):
        x.shape[1] > 5
    with pytest.raises(TypeError, match="no number"):
        int(x.shape[1])


def test_components_come_out_as_views():
    """B-69"""
    for form in FORMS:
        x = batch(torch, form)
        before = x.sum().item()
        for component in x.unbind():
            component.mul_(2)
        assert x.sum().item() == pytest.approx(2 * before)


def test_equal_lengths_combine_and_others_say_both_shapes():
    """B-70"""
    x, y = batch(torch, "jagged"), batch(torch, "jagged")
    assert torch.equal(x + y, x * 2)
    assert torch.equal((batch(torch, "holes") + y).contiguous(), x * 2)
    other = torch.nested.nested_tensor([torch.ones(2, 4)] * 3, layout=torch.jagged)
    with pytest.raises(RuntimeError, match=r"\(3, j\d+, 4\).*\(3, j\d+, 4\)"):
        x * other.double()


# Gradients ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
def test_gradients_accumulate_by_values_and_hooks_see_them_nested(form):
    """B-71, B-76"""
    x = batch(torch, form, requires_grad=True)
    seen = []
    y = x * 2
    y.register_hook(seen.append)
    x.register_post_accumulate_grad_hook(seen.append)
    y.retain_grad()
    y.sum().backward()
    first = x.grad
    (x * 3).sum().backward()
    assert x.grad is first
    assert all((c == 5).all() for c in x.grad.unbind())
    assert seen[0].is_nested
    assert seen[1] is x
    assert y.grad.is_nested


def test_a_dense_gradient_does_not_fit_a_nested_tensor():
    """B-71"""
    x = batch(torch, "jagged", requires_grad=True)
    with pytest.raises(RuntimeError, match=r"shape"):
        (x * 2).backward(torch.ones(3, 2, 4, dtype=torch.float64))
    (x * 2).backward(torch.ones_like(x))
    assert all((c == 2).all() for c in x.grad.unbind())


@pytest.mark.parametrize("form", FORMS)
def test_create_graph_goes_through_nested_gradients(form):
    """B-76"""
    x = batch(torch, form, requires_grad=True)
    (g,) = torch.autograd.grad((x**3).sum() + (x * 2).sum(), x, create_graph=True)
    (gg,) = torch.autograd.grad((g * g).sum(), x)
    for ours, c in zip(gg.unbind(), x.detach().unbind(), strict=True):
        assert torch.allclose(ours, 2 * (3 * c * c + 2) * 6 * c)


def test_padding_and_holes_get_no_gradient():
    """B-72, B-74"""
    x = batch(torch, "holes", requires_grad=True)
    x.to_padded_tensor(7.0).sum().backward()
    assert x.grad.values().sum(1).tolist() == [4, 4, 0, 4, 4, 4, 4, 0]


def test_empty_components_sum_to_zero():
    """B-73"""
    values = torch.arange(3.0).requires_grad_()
    x = torch.nested.nested_tensor_from_jagged(values, torch.tensor([0, 0, 2, 2, 3, 3]))
    assert x.sum(1).tolist() == [0, 1, 0, 2, 0]
    assert x.softmax(1).values().sum() == 2
    (x.sum(1) * torch.arange(5.0)).sum().backward()
    assert values.grad.tolist() == [1, 1, 3]


def test_saved_tensor_hooks_and_checkpoint_take_nested_tensors():
    """B-76"""
    from pullback.utils.checkpoint import checkpoint

    x = batch(torch, "jagged", requires_grad=True)
    packed = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: packed.append(t) or t, lambda t: t):
        (x * x).sum().backward()
    assert packed
    first = x.grad.values().clone()
    x.grad = None
    checkpoint(lambda t: (t * t).sum(), x, use_reentrant=False).backward()
    assert torch.equal(x.grad.values(), first)


def test_a_custom_function_takes_and_returns_nested_tensors():
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    for form in ("jagged", "strided"):
        x = batch(torch, form, requires_grad=True)
        Double.apply(x).sum().backward()
        assert all((c == 2).all() for c in x.grad.unbind())


def test_a_model_trains_on_jagged_batches():
    torch.manual_seed(0)
    x = torch.nested.nested_tensor([torch.randn(n, 4) for n in (3, 5, 1)], layout=torch.jagged)
    model = torch.nn.Sequential(
        torch.nn.Linear(4, 8), torch.nn.LayerNorm(8), torch.nn.GELU(), torch.nn.Linear(8, 1)
    )
    step = torch.optim.SGD(model.parameters(), 0.1)
    losses = []
    for _ in range(5):
        step.zero_grad()
        loss = (model(x).mean(1) - 1).square().mean()
        loss.backward()
        step.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 2


# vmap --------------------------------------------------------------------------------------------


def test_vmap_maps_over_components():
    x = batch(torch, "jagged", requires_grad=True)
    scale = torch.arange(1.0, 4.0, dtype=torch.float64)
    made = torch.vmap(lambda c, s: (c * s).sum(0))(x, scale)
    assert made.is_nested
    assert torch.allclose(torch.stack(made.unbind()), x.sum(1) * scale[:, None])
    made.sum().backward()
    assert [c[0, 0].item() for c in x.grad.unbind()] == [1, 2, 3]
    with pytest.raises(RuntimeError, match="dim 0, the batch"):
        torch.vmap(lambda c: c, in_dims=1)(x)


# In place, copies, text --------------------------------------------------------------------------


def test_writes_in_place_count_and_keep_history():
    x = batch(torch, "jagged")
    version = x._version
    values = x.values()
    x.mul_(2).add_(1).relu_()
    assert x._version == version + 3
    assert values.min() >= 0
    leaf = batch(torch, "jagged", requires_grad=True)
    y = leaf * 1
    y.mul_(3)
    y.sum().backward()
    assert all((c == 3).all() for c in leaf.grad.unbind())
    with pytest.raises(RuntimeError, match="leaf"):
        leaf.mul_(2)
    z = leaf * 2
    w = z * z
    z.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace"):
        w.sum().backward()


@pytest.mark.parametrize("form", FORMS)
def test_copies_pickles_and_files_keep_form_and_flag(form):
    """B-76"""
    x = batch(torch, form, requires_grad=True)
    x.note = "kept"
    buffer = io.BytesIO()
    torch.save(x.detach(), buffer)
    buffer.seek(0)
    loaded = torch.load(buffer)
    for y in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x)), loaded):
        assert lengths_of(y) == lengths_of(x)
        assert torch.equal(y.detach(), x.detach())
        assert y.layout is x.layout
    assert pickle.loads(pickle.dumps(x)).requires_grad
    assert copy.deepcopy(x).note == "kept"


def test_a_nested_tensor_shows_sizes_offsets_and_history():
    x = batch(torch, "jagged", requires_grad=True)
    text = f"NestedTensor(size=(3, {x.shape[1]}, 4), offsets=tensor([0, 2, 3, 6])"
    assert repr(x) == f"{text}, requires_grad=True, contiguous=True)"
    assert repr(x * 2).startswith(f"{text}, grad_fn=<MulBackward0 object at 0x")
    y = torch.nested.nested_tensor([torch.ones(2), torch.ones(1)])
    assert repr(y) == "nested_tensor([\n  tensor([1., 1.]),\n  tensor([1.])\n])"


def test_plain_tensors_are_not_nested():
    assert not torch.ones(1).is_nested
    with pytest.raises(RuntimeError, match="nested"):
        torch.nested.to_padded_tensor(torch.ones(1), 0.0)


def test_no_cycles_hold_nested_graphs():
    batch(torch, "jagged").sum(1)
    gc.collect()
    gc.disable()
    try:
        before = len(gc.get_objects())
        for _ in range(50):
            x = batch(torch, "jagged", requires_grad=True)
            (x.softmax(1) * x).sum().backward()
            del x
        assert len(gc.get_objects()) - before < 60
    finally:
        gc.enable()


def test_functions_take_nested_tensors_as_methods_do():
    """Without a word to the quickest functions, whose code stays as it is."""
    before = torch.sum.__code__, torch.clamp.__code__
    x = batch(torch, "jagged")
    pairs = [
        (torch.sum(x, 1), x.sum(1)),
        (torch.mean(x), x.mean()),
        (torch.clamp(x, 0, 1), x.clamp(0, 1)),
        (torch.max(x, 1).values, x.max(1).values),
        (torch.pow(x, 2), x.pow(2)),
        (torch.pow(2, x), 2**x),
        (torch.where(x > 0, 1.0, x), x.masked_fill(x > 0, 1.0)),
        (torch.reshape(x, (3, -1, 2, 2)), x.reshape(3, -1, 2, 2)),
        (torch.prod(x, 1), x.prod(1)),
        (torch.softmax(x, 1), x.softmax(1)),
        (torch.unsqueeze(x, 1), x.unsqueeze(1)),
        (torch.transpose(x, 1, 2), x.transpose(1, 2)),
    ]
    for one, other in pairs:
        assert one.is_nested is other.is_nested
        assert torch.equal(one, other)
    assert (torch.sum.__code__, torch.clamp.__code__) == before
