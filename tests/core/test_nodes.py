"""What a node of the graph shows: its name, edges, metadata, saved options, and what it refuses."""

import copy
import pickle

import pytest

import pullback as torch
from tests.leaves import leaf


def test_grad_fn_is_one_object():
    """V-34."""
    y = leaf() * 2
    assert y.grad_fn is y.grad_fn
    assert leaf().grad_fn is None


def test_grad_fn_can_be_cleared_privately():
    """V-35."""
    y = leaf() * 2
    with pytest.raises(RuntimeError):
        y._grad_fn = 3
    with pytest.raises(RuntimeError):
        del y._grad_fn
    y._grad_fn = None
    assert y.is_leaf
    assert not y.requires_grad


def test_output_number():
    """V-36."""
    x = leaf()
    assert x.output_nr == 0
    assert [t.output_nr for t in x.unbind(0)] == [0, 1]


NAMES = {
    "MulBackward0": lambda x: x * 2,
    "AddBackward0": lambda x: x + 2,
    "SumBackward0": lambda x: x.sum(),
    "SumBackward1": lambda x: x.sum(0),
    "ViewBackward0": lambda x: x.view(2),
    "SelectBackward0": lambda x: x[0],
    "SliceBackward0": lambda x: x[1:],
    "CloneBackward0": lambda x: x.clone(),
    "ExpBackward0": lambda x: x.exp(),
    "IndexBackward0": lambda x: x[torch.tensor([0])],
    "ToCopyBackward0": lambda x: x.double(),
    "AsStridedBackward0": lambda x: x.as_strided((2,), (1,)),
    "PowBackward0": lambda x: x**2,
    "DivBackward0": lambda x: x / 2,
    "MeanBackward0": lambda x: x.mean(),
    "CatBackward0": lambda x: torch.cat([x, x]),
    "StackBackward0": lambda x: torch.stack([x, x]),
    "UnbindBackward0": lambda x: x.unbind(0)[0],
    "SplitBackward0": lambda x: x.split(1)[0],
    "DotBackward0": lambda x: x.dot(x),
}


@pytest.mark.parametrize("name", NAMES)
def test_nodes_are_named_after_the_operator(name):
    """V-37, V-39."""
    node = NAMES[name](leaf()).grad_fn
    assert type(node).__name__ == name
    assert node.name() == name


def test_accumulator_has_the_prefix_of_torch():
    """V-39."""
    node = (leaf() * 1).grad_fn.next_functions[0][0]
    assert type(node).__name__ == "AccumulateGrad"
    assert node.name() == "torch::autograd::AccumulateGrad"


def test_every_node_has_the_common_face():
    """V-38, V-42."""
    y = leaf() * 2
    y[:1].mul_(3)
    nodes = (y.grad_fn, (leaf() * 1).grad_fn, (leaf() * 1).grad_fn.next_functions[0][0])
    for node in nodes:
        assert isinstance(node, torch.autograd.graph.Node)
        assert node.requires_grad is True
        assert isinstance(node.next_functions, tuple)
        assert isinstance(node.metadata, dict)
        assert isinstance(node._sequence_nr(), int)
        for name in ("register_hook", "register_prehook", "_register_hook_dict"):
            assert callable(getattr(node, name))
        assert callable(node._set_sequence_nr)


def test_edges_follow_the_operands():
    """V-40."""
    x, c = leaf(), torch.ones(2)
    y = x * 1
    node = (c * y).grad_fn
    assert node.next_functions == ((None, 0), (y.grad_fn, 0))
    accumulator, number = y.grad_fn.next_functions[0]
    assert accumulator.variable is x
    assert number == 0


def test_metadata_belongs_to_the_user():
    """V-41."""
    y = leaf() * 1
    y.grad_fn.metadata["mine"] = 3
    assert y.grad_fn.metadata["mine"] == 3
    (entry,) = y.grad_fn._input_metadata
    assert entry.dtype is torch.float32
    assert tuple(entry.shape) == (2,)
    assert str(entry.device) == "cpu"
    assert len(leaf().unbind(0)[0].grad_fn._input_metadata) == 2


def test_nodes_compare_by_identity():
    """V-42."""
    a, b = (leaf() * 1).grad_fn, (leaf() * 1).grad_fn
    assert a != b
    assert len({a, b, a}) == 2


def test_nodes_cannot_be_changed_or_copied():
    """V-43."""
    node = (leaf() * 1).grad_fn
    with pytest.raises(AttributeError):
        node.mine = 3
    with pytest.raises(TypeError):
        pickle.dumps(node)
    with pytest.raises(TypeError):
        copy.deepcopy(node)


def test_node_can_be_called():
    """V-44."""
    x, w = leaf(), leaf(3.0, 4.0)
    node = (x * w).grad_fn
    gx, gw = node(torch.ones(2))
    assert gx.tolist() == [3.0, 4.0]
    assert gw.tolist() == [1.0, 2.0]
    assert x.exp().grad_fn(torch.ones(2)).shape == (2,)
    assert x.exp().grad_fn(None) is None
    for args in ((), (torch.ones(2), torch.ones(2)), (3,)):
        with pytest.raises(TypeError):
            node(*args)


def test_sequence_numbers_grow():
    """V-45."""
    x = leaf()
    y = x * 1
    z = y * 1
    assert z.grad_fn._sequence_nr() > y.grad_fn._sequence_nr()
    assert y.grad_fn.next_functions[0][0]._sequence_nr() == 2**64 - 1


def test_options_are_visible():
    """V-47."""
    x = torch.zeros(2, 3, requires_grad=True)
    assert x.select(0, 1).grad_fn._saved_dim in (0, 2**64 - 2, -2)
    assert x.select(0, 1).grad_fn._saved_index == 1
    assert tuple(x.view(6).grad_fn._saved_self_sym_sizes) == (2, 3)
    assert x.sum(1, keepdim=True).grad_fn._saved_keepdim is True
    assert x.softmax(1).grad_fn._saved_dim in (1, -1, 2**64 - 1)
    assert (x**3).grad_fn._saved_exponent == 3


@pytest.mark.parametrize("keep", [lambda y: y.grad_fn, lambda y: y.grad_fn.next_functions[0][0]])
def test_built_in_nodes_are_not_made_by_hand(keep):
    """V-43: a RuntimeError; torch has a TypeError for some classes, and it is one too"""
    node = keep(torch.ones(2, requires_grad=True) * 2)
    with pytest.raises(RuntimeError, match="made by hand") as raised:
        type(node)()
    assert isinstance(raised.value, TypeError)
    with pytest.raises(TypeError):
        type(node)(1, 2)


def test_a_written_views_node_is_not_made_by_hand_but_can_be_called():
    """V-43, V-44"""
    base = torch.ones(3, requires_grad=True) * 1
    base[1:].mul_(2)
    node = base.grad_fn
    with pytest.raises(RuntimeError, match="CopySlices"):
        type(node)()
    assert node(torch.ones(3))[0].tolist() == [1.0, 2.0, 2.0]


def test_an_accumulator_called_adds_to_the_leaf():
    """V-44"""
    x = torch.ones(2, requires_grad=True)
    accumulator = (x * 2).grad_fn.next_functions[0][0]
    assert accumulator(torch.tensor([1.0, 2.0])) == ()
    assert accumulator(None) == ()
    accumulator(torch.ones(2))
    assert x.grad.tolist() == [2.0, 3.0]
    for bad in ((), (torch.ones(2),) * 2, (1.0,)):
        with pytest.raises(TypeError):
            accumulator(*bad)
    with pytest.raises(TypeError):
        accumulator(grad=torch.ones(2))


@pytest.mark.parametrize(
    ("named", "compute"),
    [
        ("histogram", lambda x: torch.histogram(x, 3).hist),
        ("histogram", lambda x: torch.histogram(torch.ones(3), 3, weight=x).bin_edges),
        ("bincount", lambda x: torch.bincount(torch.tensor([0, 1, 1]), weights=x)),
        ("floor_divide", lambda x: x // 2),
    ],
)
def test_operators_without_derivative_run_forward_and_refuse_backward(named, compute):
    """V-46"""
    y = compute(torch.tensor([1.0, 2.0, 3.0], requires_grad=True))
    assert y.requires_grad
    assert type(y.grad_fn).__name__ == "NotImplemented"
    with pytest.raises(RuntimeError, match=named):
        y.sum().backward()
    with torch.no_grad():
        assert not compute(torch.ones(3, requires_grad=True)).requires_grad
