"""Mutation and aliasing (C-57 to C-60)."""

import numpy as np
import pytest

import pullback as torch
from pullback import Tensor
from pullback.library import custom_op

SHARING = {
    "itself": lambda x: x,
    "slice": lambda x: x[:1],
    "transposed": lambda x: x.T,
    "numpy": lambda x: torch.from_numpy(x.numpy()),
    "numpy view": lambda x: torch.from_numpy(x.numpy()[::2]),
    "detached": lambda x: x.detach(),
    "buffer": lambda x: torch.from_numpy(np.frombuffer(x.numpy().data, "float32")),
}


@pytest.mark.parametrize("how", SHARING)
@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.filterwarnings("ignore:The given NumPy array")
def test_result_that_shares_memory_with_an_argument_is_refused(name, how, requires_grad):
    """C-57 and pitfall 5."""

    @custom_op(name, mutates_args=())
    def op(x: Tensor) -> Tensor:
        return SHARING[how](x)

    with pytest.raises(RuntimeError, match=f"{name} .*{__name__.split('.')[-1]}.*clone"):
        op(torch.ones(2, 2, requires_grad=requires_grad))


def test_results_that_share_memory_are_refused(name):
    """C-57."""

    @custom_op(name, mutates_args=())
    def op(x: Tensor) -> list[Tensor]:
        y = x.clone()
        return [y, y[1:]]

    with pytest.raises(RuntimeError, match="result 1 shares memory with another result"):
        op(torch.ones(2))


def test_base_of_a_view_is_found_too(name):
    """C-57: the argument is a view of what is returned."""
    base = torch.ones(4)

    @custom_op(name, mutates_args=())
    def op(x: Tensor) -> Tensor:
        return base

    with pytest.raises(RuntimeError, match="shares memory with an argument"):
        op(base[1:])


def test_mutated_argument_returned_is_refused(name):
    """C-57."""

    @custom_op(name, mutates_args=("x",))
    def op(x: Tensor) -> Tensor:
        return x.add_(1)

    with pytest.raises(RuntimeError, match="shares memory"):
        op(torch.ones(1))


def test_empty_and_fresh_tensors_are_not_reported(name):
    """C-57 and pitfall 5."""

    @custom_op(name, mutates_args=())
    def op(x: Tensor) -> list[Tensor]:
        return [x[:0], x[:0], x.clone().reshape(-1), torch.from_numpy(x.numpy().copy().T)]

    assert len(op(torch.ones(2, 2))) == 4


def test_declared_writes_are_counted(name):
    """C-58."""

    @custom_op(name, mutates_args=("x", "ys"))
    def op(x: Tensor, ys: list[Tensor], z: Tensor) -> None:
        x.numpy()[...] = 5
        for y in ys:
            y.numpy()[...] = 6

    x, y1, y2, z = (torch.ones(1) for _ in range(4))
    assert op(x, [y1, y2], z) is None
    assert [t.item() for t in (x, y1, y2, z)] == [5, 6, 6, 1]
    assert [t._version for t in (x, y1, y2, z)] == [1, 1, 1, 0]


def test_node_that_saved_a_written_tensor_detects_it(name):
    """C-58."""

    @custom_op(name, mutates_args=("x",))
    def op(x: Tensor) -> None:
        x.numpy()[...] = 0

    a, x = torch.ones(2, requires_grad=True), torch.ones(2)
    out = (a * x).sum()
    op(x)
    with pytest.raises(RuntimeError, match=f"modified by an inplace.*{name}"):
        out.backward()


def test_write_is_invisible_to_autograd_and_warns_once(name):
    """C-59."""

    @custom_op(name, mutates_args=("x",))
    def op(x: Tensor) -> None:
        x.numpy()[...] = 7

    leaf = torch.ones(2, requires_grad=True)
    with pytest.warns(UserWarning, match=f"{name} writes to its argument 'x'"):
        op(leaf)
    y = leaf * 1
    node = y.grad_fn
    op(y)  # no second warning
    assert y.grad_fn is node
    assert y.tolist() == [7, 7]
    y.sum().backward()
    assert leaf.grad.tolist() == [1, 1]
    with torch.no_grad():
        op(leaf)


def test_mutating_operator_with_a_result_keeps_the_result_in_the_graph(name):
    """C-42, C-59."""

    @custom_op(name, mutates_args=("x",))
    def op(x: Tensor, y: Tensor) -> Tensor:
        x.numpy()[...] = 7
        return y * 2

    out = op(torch.ones(1), torch.ones(1, requires_grad=True))
    with pytest.raises(RuntimeError, match="no backward formula"):
        out.backward()


def test_undeclared_write_is_the_users_affair(name):
    """C-60."""

    @custom_op(name, mutates_args=())
    def op(x: Tensor) -> Tensor:
        x.numpy()[...] = 9
        return x.clone()

    x = torch.ones(1)
    assert op(x).item() == 9
    assert x._version == 0
