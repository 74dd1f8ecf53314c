"""Writes refuse memory that they would reach twice, and change nothing then."""

import pytest

import pullback as torch

WRITES = {
    "add_": lambda t, s: t.add_(s),
    "mul_ of mixed dtypes": lambda t, s: t.mul_(s.view(torch.int32)[: len(t)]),
    "addcmul_": lambda t, s: t.addcmul_(torch.ones(4), s),
    "lerp_": lambda t, s: t.lerp_(s, 0.5),
    "pow_": lambda t, s: t.pow_(s),
    "gt_": lambda t, s: t.gt_(s),
    "clamp_": lambda t, s: t.clamp_(s),
    "copy_": lambda t, s: t.copy_(s),
    "setitem": lambda t, s: t.__setitem__(..., s),
    "iadd": lambda t, s: t.__iadd__(s),
    "out=": lambda t, s: torch.exp(s, out=t),
    "index_add_": lambda t, s: t.index_add_(0, torch.arange(4), s),
    "index_copy_": lambda t, s: t.index_copy_(0, torch.arange(4), s),
    "index_put_": lambda t, s: t.index_put_((torch.arange(4),), s),
    "scatter_": lambda t, s: t.scatter_(0, torch.arange(4), s),
}


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize("name", WRITES)
def test_operands_that_overlap_in_part_are_refused(name, recorded):
    """V-84, V-70"""
    memory = torch.arange(12.0)
    if recorded and name not in ("gt_", "out="):
        memory = memory.requires_grad_() * 1
    target, source = memory[:4], memory[2:6]
    before, version = memory.tolist(), memory._version
    node = memory.grad_fn
    with pytest.raises(RuntimeError, match="share one memory location"):
        WRITES[name](target, source)
    assert memory.tolist() == before
    assert memory._version == version
    assert memory.grad_fn is node


@pytest.mark.parametrize(
    "name", ["add_", "addcmul_", "lerp_", "pow_", "copy_", "setitem", "iadd", "out="]
)
def test_the_very_same_memory_is_fine(name):
    """V-84"""
    memory = torch.arange(12.0)
    WRITES[name](memory[:4], memory[:4])
    WRITES[name](memory[:4], memory.detach()[:4])
    assert memory[4:].tolist() == list(range(4, 12))


def test_separate_and_interleaved_parts_are_fine():
    """V-84: subtler overlaps need not be found"""
    memory = torch.arange(12.0)
    memory[:4].add_(memory[4:8])
    assert memory[:4].tolist() == [4, 6, 8, 10]
    memory[0:8:2].add_(memory[1:9:2])
    square = torch.arange(16.0).view(4, 4)
    expected = (square[:3, :3] * square[:3, :3].t()).tolist()
    square[:3, :3].mul_(square[:3, :3].t())  # refused only when dense
    assert square[:3, :3].tolist() == expected


def test_dense_transposes_and_other_shapes_are_told_apart():
    square = torch.arange(9.0).view(3, 3)
    with pytest.raises(RuntimeError, match="overlap in part"):
        square.mul_(square.t())
    cube = torch.arange(24.0).view(2, 3, 4).permute(1, 0, 2)  # dense, neither row nor column major
    with pytest.raises(RuntimeError, match="overlap in part"):
        cube.add_(cube.permute(1, 0, 2).reshape(-1)[:2].view(2, 1))
    column = torch.arange(4.0).view(4, 1)
    column.add_(column.detach())
    assert column.view(-1).tolist() == [0, 2, 4, 6]


def test_what_an_assignment_broadcasts_may_be_a_part_of_the_target():
    """V-84"""
    memory = torch.arange(6.0)
    memory[0:4] = memory[2]
    memory[...] = memory[5:6]
    assert memory.tolist() == [5.0] * 6
    with pytest.raises(RuntimeError, match="overlap in part"):
        memory[0:4].copy_(memory[2:3])


@pytest.mark.parametrize("write", ["add_", "mul_", "copy_"])
def test_expanded_memory_is_not_written(write):
    """V-84"""
    row = torch.zeros(1, 3)
    with pytest.raises(RuntimeError, match="several elements"):
        getattr(row.expand(2, 3), write)(torch.ones(2, 3))
    assert getattr(row.expand(1, 3), write)(torch.ones(1, 3))._version == 1


APART = {
    "scatter_": lambda x, i, s: x.scatter_(0, i, s),
    "scatter_, a number": lambda x, i, s: x.scatter_(0, i, 5),
    "scatter_, reduce": lambda x, i, s: x.scatter_(0, i, s, reduce="add"),
    "scatter_add_": lambda x, i, s: x.scatter_add_(0, i, s),
    "scatter_reduce_": lambda x, i, s: x.scatter_reduce_(0, i, s, "sum"),
    "index_add_": lambda x, i, s: x.index_add_(0, i, s),
    "index_copy_": lambda x, i, s: x.index_copy_(0, i, s),
    "index_fill_": lambda x, i, s: x.index_fill_(0, i, 5),
    "index_reduce_": lambda x, i, s: x.index_reduce_(0, i, s, "amax"),
    "index_put_": lambda x, i, s: x.index_put_((i,), s),
    "index_put_, several": lambda x, i, s: x.view(3, 1, 1).index_put_((i, i * 0, i * 0), s),
    "__setitem__": lambda x, i, s: x.__setitem__(i, s),
    "put_": lambda x, i, s: x.put_(i, s),
}


@pytest.mark.parametrize("name", APART)
def test_places_are_not_read_from_the_memory_that_is_written(name):
    write = APART[name]
    i = torch.tensor([2, 0, 1])
    with pytest.raises(RuntimeError, match="share one memory location"):
        write(i, i.detach(), i.clone())
    assert i.tolist() == [2, 0, 1]
    if "fill" not in name and "number" not in name:
        with pytest.raises(RuntimeError, match="share one memory location"):
            write(i, i.clone(), i.view(3))
    write(i, i.clone(), i.clone())


EXPANDED = {
    "index_fill_": lambda t: t.index_fill_(0, torch.tensor([2, 1]), 1.0),
    "index_fill_ by a tensor": lambda t: t.index_fill_(0, torch.tensor([2]), torch.tensor(1.0)),
    "masked_fill_": lambda t: t.masked_fill_(torch.tensor([True, False, False, False]), 1.0),
    "index_put_": lambda t: t.index_put_((torch.tensor([2, 1]),), torch.tensor(1.0)),
    "setitem": lambda t: t.__setitem__(torch.tensor([2, 1]), 1.0),
}


@pytest.mark.parametrize("name", EXPANDED)
def test_fills_of_an_expanded_tensor_change_its_one_place_and_warn(name):
    """One number wherever it is written; elements that stay do not undo it."""
    memory = torch.zeros(1)
    with pytest.warns(UserWarning, match="on expanded tensors is deprecated") as warned:
        EXPANDED[name](memory.expand(4))
    assert len(warned) == 1
    assert memory.tolist() == [1]
    assert memory._version == 1


def test_threshold_of_an_expanded_tensor_does_not_even_warn():
    memory = torch.zeros(1)
    torch.nn.functional.threshold_(memory.expand(4), 0.0, 1.0)
    assert memory.tolist() == [1]


@pytest.mark.parametrize("name", ["masked_fill_", "index_fill_"])
@pytest.mark.filterwarnings("ignore:Use of")
def test_a_fill_of_an_expanded_tensor_with_a_history_is_refused(name):
    x = torch.ones(1, requires_grad=True)
    y = (x * 2).expand(4)
    with pytest.raises(RuntimeError, match="share one memory location"):
        EXPANDED[name](y)
    assert y.tolist() == [2] * 4
