"""Built-in operators as overload objects: names, schemas, calls."""

import copy
import importlib
import pickle
import pkgutil

import pytest

import pullback as torch
from pullback import operators
from pullback.library.builtin.calls import CALLS
from pullback.library.builtin.names import OVERLOADS
from pullback.library.builtin.overloads import namespace
from pullback.library.overload import OpOverload, OpOverloadPacket
from pullback.operators.declare import OPERATORS

aten = torch.ops.aten


@pytest.fixture
def x():
    return torch.tensor([[1.0, -2.0], [3.0, 4.0]])


def test_packets_and_overloads_are_one_object_each():
    """C-1."""
    assert aten.mm is aten.mm
    assert aten.mm.default is aten.mm.default
    assert isinstance(aten.mm, OpOverloadPacket)
    assert isinstance(aten.mm.default, OpOverload)
    assert namespace() is aten


def test_unknown_names_are_attribute_errors():
    """C-2."""
    with pytest.raises(AttributeError, match=r"'no_such_operator'.*'aten'"):
        aten.no_such_operator
    with pytest.raises(AttributeError, match=r"aten::mm.*'Dimname'"):
        aten.mm.Dimname


@pytest.mark.parametrize(
    ("packet", "overloads"),
    [
        ("add", ["Tensor", "Scalar", "out"]),
        ("mm", ["default", "out"]),
        ("sum", ["default", "dim_IntList"]),
        ("mean", ["default", "dim"]),
        ("max", ["default", "dim", "other"]),
        ("pow", ["Tensor_Tensor", "Tensor_Scalar", "Scalar"]),
        ("squeeze", ["default", "dim", "dims"]),
        ("transpose", ["int"]),
        ("add_", ["Tensor", "Scalar"]),
    ],
)
def test_overloads_have_torchs_names(packet, overloads):
    """C-6."""
    assert getattr(aten, packet).overloads() == overloads


def test_overload_object_tells_about_itself():
    """C-6, C-7."""
    op = aten.add.Tensor
    assert (op.namespace, op.name(), op.__name__) == ("aten", "aten::add.Tensor", "add.Tensor")
    assert str(op) == "aten.add.Tensor"
    assert op.overloadpacket is aten.add
    assert copy.deepcopy(op) is op
    assert pickle.loads(pickle.dumps(op)) is op
    assert [argument.name for argument in op._schema.arguments] == ["self", "other", "alpha"]
    assert op._schema.arguments[2].kwarg_only
    assert aten.t.default.is_view
    assert not op.is_view
    assert aten.mul_.Tensor._schema.is_mutable
    assert aten.copy_.default._schema.is_mutable
    assert not op._schema.is_mutable


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda x: aten.add.Tensor(x, 1), lambda x: x + 1),
        (lambda x: aten.add(x, x, alpha=2), lambda x: torch.add(x, x, alpha=2)),
        (lambda x: aten.mm.default(x, x), lambda x: x @ x),
        (lambda x: aten.sum.dim_IntList(x, [1], True), lambda x: x.sum(1, keepdim=True)),
        (lambda x: aten.view.default(x, [4]), lambda x: x.view(4)),
        (lambda x: aten.slice.Tensor(x, 0, 1, 2), lambda x: x[1:2]),
        (lambda x: aten.select.int(x, 0, 1), lambda x: x[1]),
        (lambda x: aten._softmax.default(x, 1, False), lambda x: x.softmax(1)),
        (lambda x: aten._to_copy.default(x, dtype=torch.float64), lambda x: x.double()),
        (lambda x: aten.index.Tensor(x, [torch.tensor([1])]), lambda x: x[[1]]),
        (lambda x: aten.clone.default(x), lambda x: x.clone()),
        (lambda x: aten.pow.Scalar(2, x), lambda x: 2**x),
        (lambda x: aten.special_erfcx.default(x), lambda x: torch.special.erfcx(x)),
        (lambda x: aten.linalg_vector_norm.default(x), lambda x: torch.linalg.vector_norm(x)),
        (lambda x: aten.gelu.default(x), lambda x: torch.nn.functional.gelu(x)),
        (lambda x: aten.elu.default(x, 1.5), lambda x: torch.nn.functional.elu(x, 1.5)),
    ],
)
def test_overload_runs_the_function(x, call, expected):
    assert torch.equal(call(x), expected(x))


def test_calls_of_overloads_are_recorded(x):
    x.requires_grad_()
    aten.mul.Tensor(x, x).sum().backward()
    assert x.grad.tolist() == (2 * x).tolist()


def test_convolution_takes_torchs_arguments():
    images, filters = torch.rand(2, 3, 8, 8), torch.rand(4, 3, 3, 3)
    given = (images, filters, None, [2, 2], [1, 1], [1, 1])
    made = aten.convolution.default(*given, False, [0, 0], 1)
    assert torch.equal(made, torch.nn.functional.conv2d(images, filters, None, 2, 1))
    filters = torch.rand(3, 4, 3, 3)
    made = aten.convolution.default(images, filters, *given[2:], True, [1, 1], 1)
    expected = torch.nn.functional.conv_transpose2d(images, filters, None, 2, 1, 1)
    assert torch.equal(made, expected)


def test_parts_that_torch_does_not_have_are_in_our_own_namespace():
    op = torch.ops.pullback._softmax_adjoint.default
    assert str(op) == "pullback._softmax_adjoint.default"


def test_every_spelling_names_a_declared_operator():
    for module in pkgutil.walk_packages(operators.__path__, "pullback.operators."):
        importlib.import_module(module.name)
    assert [key for key in CALLS if key not in {*OPERATORS, "fill"}] == []


@pytest.mark.parametrize("name", sorted(OVERLOADS))
def test_every_name_with_overloads_can_be_found(name):
    packet = getattr(aten, name)
    assert packet.overloads()[: len(OVERLOADS[name])] == list(OVERLOADS[name])
