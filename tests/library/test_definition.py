"""`custom_op` and `CustomOpDef` (C-20 to C-28)."""

import copy
import pickle

import numpy as np
import pytest

import pullback as torch
from pullback import Tensor
from pullback.library import CustomOpDef, Tag, custom_op


def double(x: Tensor) -> Tensor:
    return torch.from_numpy(x.numpy() * 2)


def test_decorator_and_direct_call_define_the_same(name):
    """C-20."""
    op = custom_op(name, double, mutates_args=())
    assert isinstance(op, CustomOpDef)
    assert repr(op) == f"<CustomOpDef({name})>"
    x = torch.ones(2)
    space, _, short = name.partition("::")
    assert op(x).tolist() == getattr(getattr(torch.ops, space), short)(x).tolist() == [2, 2]
    assert op(x=x).tolist() == [2, 2]

    @custom_op(f"{name}b", mutates_args=())
    def other(x: Tensor) -> Tensor:
        return x * 3

    assert isinstance(other, CustomOpDef)
    assert other(x).tolist() == [3, 3]


def test_mutates_args_must_be_given(name):
    """C-20."""
    with pytest.raises(TypeError, match="mutates_args"):
        custom_op(name, double)


@pytest.mark.parametrize("bad", ["double", "a::b::c", "::b", "a::", ""])
def test_name_needs_a_namespace(bad):
    """C-21."""
    with pytest.raises(ValueError, match="namespace and a name"):
        custom_op(bad, double, mutates_args=())


def test_kernel_without_device_types_serves_every_device(name):
    """C-22."""
    op = custom_op(name, double, mutates_args=())
    assert op(torch.ones(1)).item() == 2
    only_cuda = custom_op(f"{name}c", double, mutates_args=(), device_types="cuda")
    with pytest.raises(NotImplementedError, match="'cpu'"):
        only_cuda(torch.ones(1))


def test_kernel_runs_below_autograd(name):
    """C-23 and pitfall 6: `x.numpy()` is legal inside although `x` requires grad."""
    seen = {}

    @custom_op(name, mutates_args=())
    def op(x: Tensor, y: Tensor) -> Tensor:
        seen.update(grad=torch.is_grad_enabled(), needs=x.requires_grad, same=x is given)
        seen["inside"] = (x * y).requires_grad
        return torch.from_numpy(x.numpy() * y.numpy())

    given = torch.ones(2, requires_grad=True)
    op(given, torch.ones(2))
    assert seen == {"grad": False, "needs": True, "same": True, "inside": False}
    assert torch.is_grad_enabled()


def test_mode_is_put_back_when_a_kernel_fails(name):
    """C-23."""

    @custom_op(name, mutates_args=())
    def op(x: Tensor) -> Tensor:
        raise KeyError("mine")

    for x in (torch.ones(1), torch.ones(1, requires_grad=True)):
        with pytest.raises(KeyError, match="mine"):
            op(x)
        assert torch.is_grad_enabled()


def test_second_definition_replaces_all_of_the_first(name):
    """C-24 and pitfall 8."""
    first = custom_op(name, double, mutates_args=())
    first.register_autograd(lambda ctx, g: g * 100)
    first.register_fake(lambda x: x)
    first.register_vmap(lambda info, dims, x: (x, dims[0]))
    overload = first._opoverload

    @custom_op(name, mutates_args=())
    def second(x: Tensor, by: float = 3.0) -> Tensor:
        return x * by

    x = torch.ones(1, requires_grad=True)
    assert first(x).item() == second(x).item() == overload(x).item() == 3
    assert first(x, 4).item() == 4
    assert overload._schema.arguments[1].name == "by"
    with pytest.raises(RuntimeError, match="no backward formula"):
        first(x).backward()


def test_explicit_schema_needs_no_annotations(name):
    """C-25."""
    op = custom_op(
        name, lambda x, n: x * n, mutates_args=(), schema="(Tensor x, int n=4) -> Tensor"
    )
    assert op(torch.ones(1)).item() == 4
    with pytest.raises(ValueError, match=r"names \[\].*marks \['x'\]"):
        custom_op(name, double, mutates_args=(), schema="(Tensor(a!) x) -> Tensor")


def test_keyword_only_tensors_are_refused_and_numbers_are_not(name):
    """C-26."""

    def tensor(x: Tensor, *, y: Tensor) -> Tensor: ...

    with pytest.raises(NotImplementedError, match="'y' is a tensor"):
        custom_op(name, tensor, mutates_args=())

    @custom_op(name, mutates_args=())
    def op(x: Tensor, *, k: float = 2.0) -> Tensor:
        return x * k

    assert op(torch.ones(1), k=5).item() == 5
    assert op(torch.ones(1)).item() == 2


def returning(name, value, kind, x=None):
    def kernel(x: Tensor):
        return value(x)

    kernel.__annotations__["return"] = kind
    return custom_op(name, kernel, mutates_args=())(torch.ones(1) if x is None else x)


def test_result_that_does_not_match_the_declaration_fails(name):
    """C-27."""
    with pytest.raises(RuntimeError, match=r"declared as Tensor.*returned 5 of type int"):
        returning(name, lambda x: 5, Tensor)
    with pytest.raises(TypeError, match="2 returns"):
        returning(name, lambda x: x.clone(), tuple[Tensor, Tensor])
    with pytest.raises(RuntimeError, match="2 returns, but its kernel returned 1"):
        returning(name, lambda x: (x.clone(),), tuple[Tensor, Tensor])
    with pytest.raises(RuntimeError, match="declares no returns"):
        returning(name, lambda x: x.clone(), None)
    with pytest.raises(RuntimeError, match="declared as int"):
        returning(name, lambda x: 2.5, int)


def test_list_is_delivered_as_the_declared_tuple_and_the_other_way(name):
    """C-27."""
    assert type(returning(name, lambda x: [x.clone(), x + 1], tuple[Tensor, Tensor])) is tuple
    assert type(returning(name, lambda x: (x.clone(),), list[Tensor])) is list
    assert type(returning(name, lambda x: (x.clone(),), tuple[Tensor])) is tuple
    assert returning(name, lambda x: 1, float) == 1.0
    assert returning(name, lambda x: None, None) is None


def test_tags_are_kept_and_every_operator_is_compliant(name):
    """C-28."""
    op = custom_op(name, double, mutates_args=())
    assert op._opoverload.tags == [Tag.pt2_compliant_tag]
    op = custom_op(name, double, mutates_args=(), tags=Tag.pointwise)
    assert op._opoverload.tags == [Tag.pt2_compliant_tag, Tag.pointwise]
    op = custom_op(name, double, mutates_args=(), tags=(Tag.core, Tag.reduction))
    assert set(op._opoverload.tags) == {Tag.pt2_compliant_tag, Tag.core, Tag.reduction}


def test_inplace_tag_returns_the_written_argument_itself(name):
    """C-28."""

    @custom_op(name, mutates_args=("x",), tags=Tag.inplace)
    def add_(x: Tensor, y: Tensor) -> Tensor:
        x.add_(y)
        return x

    assert str(add_._schema).endswith("(Tensor(a0!) x, Tensor y) -> Tensor(a0!)")
    x = torch.ones(2)
    assert add_(x, x.clone()) is x
    assert x.tolist() == [2, 2]

    def copy(x: Tensor, y: Tensor) -> Tensor:
        return x.clone()

    other = custom_op(name, copy, mutates_args=("x",), tags=Tag.inplace)
    with pytest.raises(RuntimeError, match="the very tensor"):
        other(x, x.clone())
    with pytest.raises(ValueError, match=r"Tag\.inplace the first positional"):
        custom_op(name, double, mutates_args=(), tags=Tag.inplace)


def test_out_tag_writes_keyword_only_tensors_and_refuses_autograd(name):
    """C-28."""

    @custom_op(name, mutates_args=("out",), tags=Tag.out)
    def copied(x: Tensor, *, out: Tensor) -> Tensor:
        return out.copy_(x)

    target = torch.zeros(2)
    assert copied(torch.ones(2), out=target) is target
    assert target.tolist() == [1, 1]
    with pytest.raises(RuntimeError, match=r"Tag\.out"):
        copied(torch.ones(2, requires_grad=True), out=target)
    with torch.no_grad():
        copied(torch.ones(2, requires_grad=True), out=target)
    with pytest.raises(ValueError, match=r"Tag\.out the written arguments"):
        custom_op(name, double, mutates_args=(), tags=Tag.out)


def test_docstring_and_name_of_the_function_are_kept(name):
    @custom_op(name, mutates_args=())
    def documented(x: Tensor) -> Tensor:
        """What it does."""
        return x.clone()

    assert documented.__doc__ == "What it does."
    assert documented.__name__ == "documented"


def test_overload_of_a_name_can_be_defined(name):
    op = custom_op(f"{name}.twice", double, mutates_args=())
    assert op._opoverload.name() == f"{name}.twice"
    assert op(torch.ones(1)).item() == 2


def test_subclass_of_tensor_takes_part(name):
    """A parameter is a tensor like any other."""
    op = custom_op(name, double, mutates_args=())
    op.register_autograd(lambda ctx, g: 2 * g)
    weight = torch.nn.Parameter(torch.ones(2))
    for _ in range(2):
        op(weight).sum().backward()
    assert weight.grad.tolist() == [4, 4]
    assert np.array_equal(op(weight).detach().numpy(), [2, 2])


def test_result_without_history_says_why(name):
    """Not the kernel's own no_grad is the reason, but the arguments."""
    op = custom_op(name, lambda x: x * 2, mutates_args=(), schema="(Tensor x) -> Tensor")
    several = custom_op(
        f"{name}s", lambda xs: [xs[0] * 2], mutates_args=(), schema="(Tensor[] xs) -> Tensor[]"
    )
    for out in (op(torch.ones(2)), *several([torch.ones(2)])):
        assert "no_grad" not in out.why_no_grad()
    with torch.no_grad():
        out = op(torch.ones(2, requires_grad=True))
    assert "no_grad" in out.why_no_grad()


def test_definition_is_copied_and_pickled_as_one_object(name):
    op = custom_op(name, double, mutates_args=())
    assert copy.copy(op) is copy.deepcopy([op])[0] is op
    again = pickle.loads(pickle.dumps(op))
    assert again._opoverload is op._opoverload
    assert again(torch.ones(1)).item() == 2
