"""In-place changes of shape: what becomes of tangents, views and memory."""

import pytest

import pullback as torch
from pullback.autograd import forward_ad

CHANGES = {
    "t_": (lambda y: y.t_(), lambda y: y.t()),
    "transpose_": (lambda y: y.transpose_(0, 1), lambda y: y.transpose(0, 1)),
    "swapaxes_": (lambda y: y.swapaxes_(-1, 0), lambda y: y.swapaxes(-1, 0)),
    "swapdims_": (lambda y: y.swapdims_(0, 1), lambda y: y.swapdims(0, 1)),
    "unsqueeze_": (lambda y: y.unsqueeze_(1), lambda y: y.unsqueeze(1)),
    "squeeze_": (lambda y: y.unsqueeze_(0).squeeze_(), lambda y: y),
    "as_strided_": (
        lambda y: y.as_strided_((2, 2), (1, 3)),
        lambda y: y.as_strided((2, 2), (1, 3)),
    ),
}


def _dual():
    x = torch.arange(6.0).reshape(2, 3)
    return forward_ad.make_dual(x, 10 * x + 1)


@pytest.mark.parametrize("name", CHANGES)
def test_a_tangent_changes_its_shape_with_its_tensor(name):
    change, view = CHANGES[name]
    with forward_ad.dual_level():
        x = _dual()
        y = change(x * 1)
        expected = view(x * 1)
        assert torch.equal(y, expected)
        tangents = [forward_ad.unpack_dual(one).tangent for one in (y, expected)]
        assert torch.equal(*tangents)


@pytest.mark.parametrize("name", CHANGES)
def test_function_transforms_see_a_change_of_shape_as_its_view(name):
    change, view = CHANGES[name]
    x = torch.arange(1.0, 7.0).reshape(2, 3)
    for transform in (
        lambda f: torch.func.jvp(f, (x,), (x + 1,)),
        lambda f: torch.func.jacfwd(f)(x),
        lambda f: torch.func.jacfwd(torch.func.jacfwd(f))(x),
        lambda f: torch.func.jacfwd(torch.func.jacrev(f))(x),
        lambda f: torch.func.jvp(torch.func.vmap(f), (x[None],), (x[None] + 1,)),
        lambda f: torch.func.jet(f, (x,), ((x, x + 1),)),
    ):
        changed = transform(lambda x: change((x * x).clone()))
        viewed = transform(lambda x: view(x * x))
        for one, other in zip(_leaves(changed), _leaves(viewed), strict=True):
            assert torch.equal(one, other)


def _leaves(value):
    return [value] if isinstance(value, torch.Tensor) else [t for v in value for t in _leaves(v)]


def test_writes_through_a_view_reach_the_tangent_of_a_transposed_base():
    with forward_ad.dual_level():
        y = _dual() * 1
        before = y[0]
        y.t_()
        after = y[0]
        after.mul_(2)
        before.mul_(3)
        tangent = forward_ad.unpack_dual(y).tangent
    assert tangent.tolist() == [[6.0, 62.0], [33.0, 41.0], [63.0, 51.0]]


def test_the_tangent_that_was_given_keeps_its_shape():
    tangent = torch.ones(2, 3)
    with forward_ad.dual_level():
        forward_ad.make_dual(torch.zeros(2, 3), tangent).t_()
    assert tangent.shape == (2, 3)


def test_set_refuses_tensors_with_tangents():
    with forward_ad.dual_level():
        dual = _dual()
        with pytest.raises(NotImplementedError, match="forward mode"):
            torch.ones(2, 3).set_(dual)
        with pytest.raises(NotImplementedError, match="forward mode"):
            (dual * 1).set_(torch.ones(2, 3))
