"""Fake implementations, for tensors without data (C-48 to C-51)."""

import pytest

import pullback as torch
from pullback import Tensor
from pullback.library import _scoped_library, custom_op, get_ctx, register_fake


def never(x: Tensor) -> Tensor:
    raise AssertionError("the kernel ran on a tensor without data")


def meta(*shape, **options):
    return torch.empty(*shape, device="meta", **options)


def test_fake_runs_in_the_place_of_the_kernel(name):
    """C-48 and pitfall 12: the default kernel never serves tensors without data."""
    op = custom_op(name, never, mutates_args=())

    @op.register_fake
    def fake(x):
        return x.new_empty((x.shape[0], 7))

    out = op(meta(3))
    assert out.device.type == "meta"
    assert tuple(out.shape) == (3, 7)
    register_fake(name, lambda x: x.new_empty((1,)))
    assert tuple(op(meta(3)).shape) == (1,)
    register_fake(op)(lambda x: x.new_empty((2,)))
    assert tuple(op(meta(3)).shape) == (2,)


def test_fake_runs_if_any_tensor_has_no_data(name):
    """C-48."""
    op = custom_op(
        name, lambda xs, y: never(y), mutates_args=(), schema="(Tensor[] xs, Tensor y) -> Tensor"
    )
    op.register_fake(lambda xs, y: torch.empty_like(xs[1]))
    assert op([torch.ones(1), meta(4)], torch.ones(2)).shape == (4,)


def test_fake_result_is_recorded_like_any_other(name):
    """C-48."""
    op = custom_op(name, never, mutates_args=())
    op.register_fake(lambda x: torch.empty_like(x))
    op.register_autograd(lambda ctx, g: g * 2)
    out = op(meta(3, requires_grad=True))
    assert out.requires_grad
    assert "GeneratedBackwardFor" in out.grad_fn.name()


def test_missing_fake_says_how_to_register_one(name, namespace):
    """C-49."""
    op = custom_op(name, never, mutates_args=())
    with pytest.raises(RuntimeError, match=f"{name}.*register_fake") as caught:
        op(meta(1))
    assert type(caught.value) is RuntimeError
    with _scoped_library(namespace, "DEF") as lib:
        lib.define("f(Tensor x) -> Tensor")
        lib.impl("f", never, "CPU")
        with pytest.raises(NotImplementedError, match="register_fake"):
            getattr(torch.ops, namespace).f(meta(1))


def test_write_without_result_needs_no_fake(name):
    """C-49."""
    op = custom_op(name, never, mutates_args=("x",), schema="(Tensor(a!) x) -> ()")
    x = meta(1)
    assert op(x) is None
    assert x._version == 1


def test_second_fake_of_a_defined_operator_must_be_allowed(name, namespace):
    """C-50."""
    op = custom_op(name, never, mutates_args=())
    op.register_fake(lambda x: x.new_empty((1,)))
    op.register_fake(lambda x: x.new_empty((2,)))
    assert op(meta(5)).shape == (2,)
    with _scoped_library(namespace, "DEF") as lib:
        lib.define("f(Tensor x) -> Tensor")
        f = f"{namespace}::f"
        register_fake(f, lambda x: x.new_empty((1,)), lib=lib)
        with pytest.raises(RuntimeError, match=r"registered at .*test_fake.py:\d+"):
            register_fake(f, lambda x: x, lib=lib)
        register_fake(f, lambda x: x.new_empty((3,)), lib=lib, allow_override=True)
        assert getattr(torch.ops, namespace).f(meta(5)).shape == (3,)


def test_composite_operator_needs_no_fake(namespace):
    """C-50, C-65."""
    with _scoped_library(namespace, "DEF") as lib:
        lib.define("f(Tensor x) -> Tensor")
        lib.impl("f", lambda x: x * 2)
        with pytest.raises(RuntimeError, match="composite"):
            register_fake(f"{namespace}::f", lambda x: x)
        assert getattr(torch.ops, namespace).f(meta(5)).shape == (5,)


def test_meta_kernel_and_fake_exclude_each_other(namespace):
    """C-50."""
    with _scoped_library(namespace, "DEF") as lib:
        lib.define("f(Tensor x) -> Tensor")
        lib.impl("f", lambda x: x.new_empty((6,)), "Meta")
        assert getattr(torch.ops, namespace).f(meta(5)).shape == (6,)
        with pytest.raises(RuntimeError, match="key Meta"):
            register_fake(f"{namespace}::f", lambda x: x)


def test_size_that_depends_on_data_is_refused_without_data(name):
    """C-51."""
    op = custom_op(name, never, mutates_args=())
    asked = {}

    @op.register_fake
    def fake(x):
        return x.new_empty((get_ctx().new_dynamic_size(**asked),))

    assert get_ctx() is None
    with pytest.raises(RuntimeError, match=f"{name}.*depends on data"):
        op(meta(1))
    for bad, says in (
        ({"min": -1}, "0 or more"),
        ({"min": 1.5}, "plain int"),
        ({"max": "a"}, "plain int"),
        ({"min": 3, "max": 2}, "less than min"),
    ):
        asked = bad
        with pytest.raises(ValueError, match=says):
            op(meta(1))
    assert get_ctx() is None


def test_operator_without_tensors_goes_by_its_device_argument(name):
    """C-31, C-48."""
    op = custom_op(
        name, lambda n, device: never(n), mutates_args=(), schema="(int n, Device device) -> Tensor"
    )
    op.register_fake(lambda n, device: torch.empty(n, device=device))
    assert op(3, "meta").shape == (3,)
