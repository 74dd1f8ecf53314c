"""A tangent may lie in memory in another way than its point; views see the same elements."""

import pytest

import pullback as torch
from pullback.func import hessian, jacfwd, jet, jvp, vmap

POINT = torch.arange(24.0, dtype=torch.float64).reshape(2, 3, 4) / 7
VIEWS = {
    "view": lambda x: x.view(6, 4) ** 2,
    "reshape": lambda x: x.reshape(4, 6).sin(),
    "flatten": lambda x: x.flatten() ** 3,
    "unflatten": lambda x: x.unflatten(2, (2, 2)) ** 2,
    "as_strided": lambda x: x.as_strided((3, 2), (4, 1), 2) ** 2,
    "view_as_complex": lambda x: torch.view_as_complex(x.view(12, 2)) ** 2,
}
SPREAD = {
    "turned around": lambda x: x.permute(2, 1, 0).contiguous().permute(2, 1, 0),
    "every second": lambda x: x.repeat_interleave(2, dim=2)[..., ::2],
    "expanded": lambda x: x[:1, :1, :1].expand(2, 3, 4),
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS)
@pytest.mark.parametrize("spread", SPREAD.values(), ids=SPREAD)
def test_a_direction_in_another_layout_gives_what_its_copy_gives(view, spread):
    direction = spread(POINT.cos())
    wanted = jvp(view, (POINT,), (direction.contiguous(),))[1]
    assert torch.equal(jvp(view, (POINT,), (direction,))[1], wanted)
    several = torch.stack([direction, direction * 2], dim=-1)  # examples lie side by side
    mapped = vmap(lambda one: jvp(view, (POINT,), (one,))[1], in_dims=-1)(several)
    assert torch.allclose(mapped[1], 2 * wanted)


def test_derivatives_of_a_point_turned_around_are_those_of_its_copy():
    def flat(x):
        return x.t().view(-1) ** 2

    point = POINT[0].t()
    wanted = torch.func.jacrev(flat)(point)
    assert torch.equal(jacfwd(flat)(point), wanted)
    assert torch.equal(vmap(jacfwd(flat))(POINT.mT)[0], wanted)
    assert torch.equal(
        hessian(lambda x: flat(x).sum())(point), 2 * torch.eye(12).double().view(4, 3, 4, 3)
    )


def test_losses_whose_examples_are_merged_have_forward_derivatives_inside_vmap():
    """The rows of tangents were not viewable where their values were."""

    def loss(x):
        return torch.nn.functional.cross_entropy(x, torch.tensor([0, 1, 2]))

    for derivative in (jacfwd, hessian):
        mapped = vmap(derivative(loss))(POINT)
        assert torch.allclose(mapped, torch.stack([derivative(loss)(one) for one in POINT]))
    still = torch.zeros_like(POINT[0])

    def terms(x):
        return torch.stack(jet(loss, (x,), ((x, still, still),))[1])

    assert torch.allclose(vmap(terms)(POINT), torch.stack([terms(one) for one in POINT]))


def test_places_in_memory_are_refused_where_a_tangent_has_others_there():
    """A part of something larger has a layout that no tangent is brought into."""
    part = torch.arange(8.0)[::2]

    def every_second(x):
        return x.as_strided((2,), (4,))

    value, tangent = jvp(every_second, (part,), (torch.arange(10.0, 18.0)[::2],))
    assert (value.tolist(), tangent.tolist()) == ([0, 4], [10, 14])
    with pytest.raises(RuntimeError, match="in one layout"):
        jvp(every_second, (part,), (torch.ones(4),))
