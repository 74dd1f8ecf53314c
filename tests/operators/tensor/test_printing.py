"""What tensors look like."""

import numpy
import pytest

import pullback as torch


@pytest.fixture(autouse=True)
def _default_options():
    yield
    torch.set_printoptions(profile="default")


@pytest.mark.parametrize(
    ("tensor", "text"),
    [
        (torch.tensor(1.5), "tensor(1.5000)"),
        (torch.tensor([1.0, 2.0]), "tensor([1., 2.])"),
        (torch.tensor([1.0, 2.5]), "tensor([1.0000, 2.5000])"),
        (torch.tensor([1, -22]), "tensor([  1, -22])"),
        (torch.tensor([True, False]), "tensor([ True, False])"),
        (torch.tensor([0.0, float("inf"), float("nan")]), "tensor([0., inf, nan])"),
        (torch.tensor([1e-5, 1.0]), "tensor([1.0000e-05, 1.0000e+00])"),
        (torch.tensor([1e9]), "tensor([1.0000e+09])"),
        (torch.tensor([1 + 2j, 0 - 0.5j]), "tensor([1.+2.0000j, 0.-0.5000j])"),
        (torch.tensor([]), "tensor([])"),
        (torch.zeros(0, 3), "tensor([], size=(0, 3))"),
        (torch.zeros(0, dtype=torch.int64), "tensor([], dtype=torch.int64)"),
        (torch.ones(1, dtype=torch.float64), "tensor([1.], dtype=torch.float64)"),
        (torch.ones(1, dtype=torch.int32), "tensor([1], dtype=torch.int32)"),
    ],
)
def test_values(tensor, text):
    assert repr(tensor) == str(tensor) == text


def test_matrices_and_more():
    assert repr(torch.tensor([[1, 2], [3, 4]])) == "tensor([[1, 2],\n        [3, 4]])"
    cube = repr(torch.arange(4).reshape(2, 1, 2))
    assert cube == "tensor([[[0, 1]],\n\n        [[2, 3]]])"


def test_long_rows_are_broken():
    lines = repr(torch.arange(40)).splitlines()
    assert max(map(len, lines)) <= 80
    assert (
        lines[0]
        == "tensor([ 0,  1,  2,  3,  4,  5,  6,  7,  8,  9, 10, 11, 12, 13, 14, 15, 16, 17,"
    )
    assert lines[1].startswith("        18, 19")


def test_large_tensors_show_their_edges():
    assert repr(torch.arange(1001)) == "tensor([   0,    1,    2,  ...,  998,  999, 1000])"
    rows = repr(torch.zeros(40, 40)).splitlines()
    assert rows[0] == "tensor([[0., 0., 0.,  ..., 0., 0., 0.],"
    assert rows[3] == "        ...,"
    assert len(rows) == 7


def test_history_follows():
    x = torch.tensor([1.0, 2.0], dtype=torch.float64, requires_grad=True)
    assert repr(x) == "tensor([1., 2.], dtype=torch.float64, requires_grad=True)"
    assert repr(x * 2) == "tensor([2., 4.], dtype=torch.float64, grad_fn=<MulBackward0>)"
    assert repr(x.detach()) == "tensor([1., 2.], dtype=torch.float64)"


def test_suffixes_go_to_a_new_line_when_the_row_is_long():
    x = torch.arange(12.0, requires_grad=True)
    assert repr(x).splitlines()[1] == "       requires_grad=True)"


def test_printing_changes_nothing():
    x = torch.ones(3, requires_grad=True) * 2
    node, version = x.grad_fn, x._version
    repr(x)
    assert x.grad_fn is node
    assert x._version == version
    with torch.inference_mode():
        inference = torch.ones(2)
    assert repr(inference) == "tensor([1., 1.])"


def test_a_view_that_was_invalidated_still_prints():
    x = torch.ones(2, requires_grad=True) * 1
    with torch.no_grad():
        view = x[:1]
        x.add_(1)
    x.mul_(2)
    assert repr(view) == "tensor([4.], grad_fn=<Invalid>)"


def test_subclasses_show_their_name():
    class Mine(torch.Tensor):
        pass

    x = object.__new__(Mine)
    x._array, x._node, x._cell = numpy.ones(1, numpy.float32), None, (0,)
    assert repr(x) == "Mine([1.])"


def test_format_of_one_number():
    assert f"{torch.tensor(2.5):.3f}" == "2.500"
    assert f"{torch.tensor(2.5, requires_grad=True):.1f}" == "2.5"
    assert f"{torch.tensor(3):04d}" == "0003"
    assert f"{torch.tensor(3.0)}" == "3.0"
    assert f"{torch.ones(2)}" == "tensor([1., 1.])"
    with pytest.raises(TypeError, match="format"):
        f"{torch.ones(2):.2f}"


def test_options():
    torch.set_printoptions(precision=2)
    assert repr(torch.tensor([0.12345])) == "tensor([0.12])"
    torch.set_printoptions(profile="short")
    assert repr(torch.tensor([0.12345])) == "tensor([0.12])"
    torch.set_printoptions(profile="default", sci_mode=True)
    assert repr(torch.tensor([2.0])) == "tensor([2.0000e+00])"
    torch.set_printoptions(profile="full")
    assert "..." not in repr(torch.zeros(1001))
    with pytest.raises(ValueError, match="none of default, short, full"):
        torch.set_printoptions(profile="long")


def test_options_within_a_block():
    before = torch.get_printoptions()
    with torch.printoptions(edgeitems=1, threshold=3):
        assert repr(torch.arange(5)) == "tensor([0,  ..., 4])"
    assert torch.get_printoptions() == before
