"""Operators as objects (C-1 to C-3, C-6, C-8, C-9)."""

import copy
import pickle

import pytest

import pullback as torch
from pullback.library import Library, OpOverload, OpOverloadPacket


@pytest.fixture
def lib(namespace):
    made = Library(namespace, "DEF")
    yield made
    made._destroy()


@pytest.fixture
def ops(lib):
    lib.define("f(Tensor x) -> Tensor")
    lib.define("f.scaled(Tensor x, float by) -> Tensor")
    lib.define("f.text(str x) -> str")
    lib.impl("f", lambda x: x * 1, "CPU")
    lib.impl("f.scaled", lambda x, by: x * by, "CPU")
    lib.impl("f.text", lambda x: x + x, "default")
    return getattr(torch.ops, lib.ns)


def test_lookups_give_the_identical_object(ops):
    """C-1."""
    assert ops.f is ops.f
    assert isinstance(ops.f, OpOverloadPacket)
    assert ops.f.default is ops.f.default
    assert isinstance(ops.f.default, OpOverload)
    assert ops.f.scaled._schema.overload_name == "scaled"
    assert ops.f.default._schema.overload_name == ""


def test_any_namespace_is_there_and_unknown_operators_are_not(ops):
    """C-2."""
    assert hasattr(torch.ops, "never_heard_of")
    with pytest.raises(AttributeError, match=r"'nothing'.*'never_heard_of'"):
        _ = torch.ops.never_heard_of.nothing
    with pytest.raises(AttributeError, match="::f has no overload 'missing'"):
        _ = ops.f.missing
    assert not hasattr(ops, "__wrapped__")
    assert not hasattr(torch.ops, "__wrapped__")


def test_packet_runs_the_first_overload_that_fits(ops):
    """C-3."""
    x = torch.ones(2)
    assert ops.f(x).tolist() == [1, 1]
    assert ops.f(x, 3).tolist() == [3, 3]
    assert ops.f("ab") == "abab"
    with pytest.raises(RuntimeError, match="No overload") as caught:
        ops.f(1, 2, 3)
    for overload in ("default", "scaled", "text"):
        assert f"  {overload}: " in str(caught.value)
    with pytest.raises(RuntimeError, match="argument 'by'"):
        ops.f.scaled(x)


def test_overload_describes_itself(ops):
    """C-6."""
    f, scaled = ops.f.default, ops.f.scaled
    space = f.namespace
    assert (f.name(), scaled.name()) == (f"{space}::f", f"{space}::f.scaled")
    assert (f.__name__, scaled.__name__) == ("f.default", "f.scaled")
    assert (str(f), str(scaled)) == (f"{space}.f.default", f"{space}.f.scaled")
    assert repr(f) == f"<OpOverload(op='{space}.f', overload='default')>"
    assert f.overloadpacket is ops.f
    assert f.tags == []
    assert not f.is_view
    assert {f: 1}[f] == 1
    assert f.redispatch(None, torch.ones(1)).tolist() == [1]
    assert ops.f.overloads() == ["default", "scaled", "text"] == list(ops.f)
    assert (ops.f.__name__, str(ops.f)) == ("f", f"{space}.f")
    assert repr(ops.f) == f"<OpOverloadPacket(op='{space}.f')>"


def test_overload_cannot_be_changed_and_copies_to_itself(ops):
    """C-6."""
    f = ops.f.default
    with pytest.raises(AttributeError, match="cannot be changed"):
        f.anything = 1
    assert copy.deepcopy(f) is copy.copy(f) is f
    assert copy.deepcopy(ops.f) is ops.f
    assert pickle.loads(pickle.dumps(f)) is f


def test_view_overload_says_so(lib):
    """C-6."""
    lib.define("v(Tensor(a) x) -> Tensor(a)")
    assert getattr(torch.ops, lib.ns).v.default.is_view


def test_namespace_lists_what_is_defined(lib, ops):
    """C-8."""
    assert list(ops) == ["f"]
    lib.define("g(Tensor x) -> Tensor")
    assert list(ops) == ["f", "g"]


def test_packet_handed_out_sees_overloads_defined_later(lib, ops):
    """C-9."""
    packet = ops.f
    lib.define("f.later(bool flag) -> bool")
    lib.impl("f.later", lambda flag: not flag, "default")
    assert "later" in packet.overloads()
    assert packet.later(True) is False


def test_built_in_operators_have_tags():
    tag, aten = torch.Tag, torch.ops.aten
    assert tag.pointwise in aten.add.Tensor.tags
    assert tag.inplace in aten.add_.Tensor.tags
    assert tag.inplace not in aten.add.Tensor.tags
    assert tag.nondeterministic_seeded in aten.bernoulli.default.tags
    assert tag.core in aten.mm.default.tags
    assert tag.dynamic_output_shape in aten.nonzero.default.tags
    assert tag.out in aten.add.out.tags
