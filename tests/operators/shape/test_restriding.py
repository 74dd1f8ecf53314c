"""as_strided: any geometry that the memory holds, and empty ones anywhere."""

import pytest

import pullback as torch


def test_an_empty_shape_may_begin_beyond_the_memory():
    x = torch.tensor([1.0], requires_grad=True)
    y = x.as_strided((0,), (1,), 2)
    assert y.storage_offset() == 2
    assert y.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
    y.sum().backward()
    assert x.grad.tolist() == [0]
    assert x.detach().as_strided((0, 3), (1, 7), 5).shape == (0, 3)
    with pytest.raises(RuntimeError, match="memory holds 1"):
        x.as_strided((1,), (1,), 2)
    with pytest.raises(RuntimeError, match="offset -1"):
        x.as_strided((0,), (1,), -1)


def test_sizes_that_no_memory_has_room_for_are_a_runtime_error():
    x = torch.arange(3.0)
    for size in ((2**46,), (2**40, 2**6), (2**62, 2**6)):
        with pytest.raises(RuntimeError, match=r"resize_: there is no memory|too large"):
            x.resize_(*size)
    with pytest.raises(RuntimeError, match="resize_: there is no memory"):
        x.untyped_storage().resize_(2**48)
    assert x.tolist() == [0, 1, 2]


@pytest.mark.parametrize("function", [torch.as_strided, torch.as_strided_copy])
@pytest.mark.parametrize(
    ("overlapping", "geometry"),
    [
        (lambda x: x[:1].expand(5), ((5,), (0,))),
        (lambda x: x.expand(4, 8), ((3,), (1,))),
        (lambda x: x.unfold(0, 3, 1), ((4,), (2,))),
        (lambda x: x.unfold(0, 3, 2), ((2, 3), (1, 2))),
        (lambda x: x.as_strided((2, 3), (1, 1)), ((2,), (1,))),
        (lambda x: x.view(2, 4).expand(3, 2, 4), ((2, 2), (4, 1), 1)),
    ],
)
def test_gradient_of_a_place_is_divided_among_the_elements_that_lie_there(
    function, overlapping, geometry
):
    """The input of as_strided has one number in several places: it counts once."""
    x = torch.arange(1.0, 9.0, dtype=torch.float64, requires_grad=True)

    def program(x):
        return function(overlapping(x), *geometry) ** 3

    assert torch.autograd.gradcheck(program, x, check_batched_grad=True)
    assert torch.autograd.gradgradcheck(program, x)


@pytest.mark.parametrize(
    "view",
    [
        lambda b: b.split(2, 0)[1],
        lambda b: b.chunk(2, 1)[1],
        lambda b: b.unbind(2)[3],
        lambda b: b.tensor_split(2, 1)[1],
        lambda b: b.unbind(0)[1].unbind(0)[2],
        lambda b: b.view(12, 5).split(5, 0)[1][1:],
    ],
)
def test_view_out_of_several_is_replayed_as_that_one(view):
    base, other = torch.zeros(3, 4, 5), torch.arange(60.0).reshape(3, 4, 5).clone()
    with torch.autograd._force_original_view_tracking(True):
        made = view(base)
        assert torch.equal(made._view_func(other), view(other))
        replayed = made._view_func_unsafe(other, lambda size: size, lambda tensor: tensor)
        assert torch.equal(replayed, view(other))
