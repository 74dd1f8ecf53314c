"""Views of nested tensors stand on the same memory, and gradients find their way back."""

import pytest

import pullback as torch


def strided():
    return torch.nested.nested_tensor(
        [torch.arange(6.0).reshape(2, 3), torch.arange(9.0).reshape(3, 3)]
    )


def jagged():
    return torch.nested.nested_tensor(
        [torch.arange(6.0).reshape(2, 3), torch.arange(9.0).reshape(3, 3)], layout=torch.jagged
    )


VIEWS = {
    "transpose": lambda x: x.transpose(1, 2),
    "chunk": lambda x: x.chunk(3, -1)[1],
    "narrow": lambda x: x.narrow(2, 1, 2),
    "narrow of the batch": lambda x: x.narrow(0, 1, 1),
    "view": lambda x: x.view(2, -1, 3),
    "reshape": lambda x: x.reshape(2, -1, 3, 1),
    "select": lambda x: x.select(2, 1),
    "unsqueeze": lambda x: x.unsqueeze(1),
    "squeeze": lambda x: x.unsqueeze(1).squeeze(1),
    "unflatten": lambda x: x.unflatten(-1, (3, 1)),
    "split": lambda x: x.split(2, -1)[0],
    "split_with_sizes": lambda x: x.split_with_sizes([1, 2], -1)[1],
    "slice": lambda x: x[:, :, 1:],
    "slice of the batch": lambda x: x[1:],
    "chunk of a transpose": lambda x: x.transpose(1, 2).chunk(3, 1)[2],
    "transpose of a chunk": lambda x: x.chunk(3, -1)[2].transpose(1, 2),
}


@pytest.mark.parametrize("name", VIEWS)
@pytest.mark.parametrize("make", [strided, jagged])
def test_a_view_stands_on_the_memory_of_its_tensor(name, make):
    if name == "chunk of a transpose" and make is jagged:
        pytest.skip("the ragged dimension is not cut")
    x = make()
    before = [one.clone() for one in x.unbind()]
    view = VIEWS[name](x)
    assert view._is_view()
    assert view._base is x
    expected = [one.clone() for one in view.unbind()]
    for one in view.unbind():
        one.add_(100)
    raised = sum(int((a - b == 100).sum()) for a, b in zip(x.unbind(), before, strict=True))
    assert raised == sum(one.numel() for one in expected)
    view.sub_(100)
    assert all(torch.equal(a, b) for a, b in zip(x.unbind(), before, strict=True))
    view.zero_()
    assert all(not one.any() for one in view.unbind())
    assert sum(int((a != b).sum()) for a, b in zip(x.unbind(), before, strict=True)) == sum(
        int((one != 0).sum()) for one in expected
    )


# What goes through values must see components where the view has them.
USES = {
    "product": lambda v: v * v,
    "sum": lambda v: v.sum(),
    "clone": lambda v: v.clone(),
    "exp": lambda v: (v / 9).exp(),
    "with another form": lambda v: v + v.contiguous(),
    "contiguous": lambda v: v.contiguous(),
    "padded": lambda v: torch.nested.to_padded_tensor(v, 0.0),
    "linear": lambda v: torch.nn.functional.linear(v, torch.ones(2, v.unbind()[0].shape[-1])),
}


@pytest.mark.parametrize("name", [one for one in VIEWS if one != "select"])
@pytest.mark.parametrize("use", USES)
def test_functions_and_gradients_of_views_are_those_of_copies(name, use):
    found = []
    for copied in (False, True):
        x = strided().requires_grad_()
        view = VIEWS[name](x)
        if copied:
            view = torch.nested.as_nested_tensor([one.clone() for one in view.unbind()])
        if use == "linear" and len({one.shape[-1] for one in view.unbind()}) > 1:
            pytest.skip("rows of different lengths")
        made = USES[use](view)
        parts = made.unbind() if made.is_nested else [made]
        sum((one * torch.arange(one.numel()).reshape(one.shape)).sum() for one in parts).backward()
        found.append((parts, x.grad.unbind()))
    (ours, our_gradient), (wanted, wanted_gradient) = found
    assert all(torch.equal(a, b) for a, b in zip(ours, wanted, strict=True))
    assert all(torch.equal(a, b) for a, b in zip(our_gradient, wanted_gradient, strict=True))


def test_second_derivatives_go_through_views():
    x = strided().requires_grad_()
    made = (x.transpose(1, 2) ** 3).sum() + (x.chunk(3, -1)[0] ** 2).sum()
    (g,) = torch.autograd.grad(made, x, create_graph=True)
    (second,) = torch.autograd.grad((g * g).sum(), x)
    for one, part in zip(second.unbind(), x.detach().unbind(), strict=True):
        first_column = torch.zeros_like(part)
        first_column[:, 0] = 2
        expected = 2 * (3 * part**2 + first_column * part) * (6 * part + first_column)
        assert torch.allclose(one, expected)


def test_only_packed_components_are_contiguous():
    x = strided()
    assert x.is_contiguous()
    assert x.view(2, -1, 3).is_contiguous()
    assert not x.transpose(1, 2).is_contiguous()
    assert not any(one.is_contiguous() for one in x.chunk(3, -1))
    assert not x.narrow(0, 1, 1).is_contiguous()
    assert x.transpose(1, 2).contiguous().is_contiguous()
    assert not x._is_view()
    assert x._base is None


def test_dropout_of_a_transpose_drops_the_same_elements():
    x = strided() + 1
    torch.manual_seed(3)
    straight = torch.nn.functional.dropout(x, 0.5)
    torch.manual_seed(3)
    turned = torch.nn.functional.dropout(x.transpose(1, 2), 0.5)
    assert all(
        torch.equal(a.t(), b) for a, b in zip(straight.unbind(), turned.unbind(), strict=True)
    )


@pytest.mark.parametrize("make", [strided, jagged])
def test_writes_to_a_view_that_would_lose_history_are_refused(make):
    x = make().requires_grad_() * 1
    view = x.transpose(1, 2)
    with pytest.raises(NotImplementedError, match="views, with history"):
        view.mul_(2)
    with torch.no_grad():
        view.mul_(2)
    assert x.unbind()[0].detach()[1, 2] == 10


def test_views_are_pickled_and_saved_as_what_they_show(tmp_path):
    import copy
    import pickle

    view = strided().transpose(1, 2)
    torch.save(view, tmp_path / "view.pt")
    for made in (
        pickle.loads(pickle.dumps(view)),
        copy.deepcopy(view),
        torch.load(tmp_path / "view.pt"),
    ):
        assert torch.equal(made, view)
        assert not made._is_view()
