"""`Library`, `define`, `impl` and what lies around them (C-61 to C-68)."""

import gc

import pytest

import pullback as torch
from pullback.library import (
    Library,
    _scoped_library,
    custom_op,
    define,
    fallthrough_kernel,
    get_kernel,
    impl,
    register_autograd,
    register_fake,
    set_autograd_fallback_mode,
)


@pytest.fixture
def lib(namespace):
    with _scoped_library(namespace, "DEF") as made:
        yield made


@pytest.fixture
def raising():
    set_autograd_fallback_mode("error")
    yield
    set_autograd_fallback_mode("warn")


def ops(lib):
    return getattr(torch.ops, lib.ns)


# Libraries ---------------------------------------------------------------------------------------


def test_kinds_of_libraries(namespace):
    """C-61."""
    with pytest.raises(ValueError, match="DEF, FRAGMENT, IMPL"):
        Library(namespace, "OTHER")
    first = Library(namespace, "DEF")
    with pytest.raises(RuntimeError, match=r"test_low_level.py:\d+.*test_low_level.py:\d+"):
        Library(namespace, "DEF")
    Library(namespace, "FRAGMENT")
    Library(namespace, "IMPL")
    for kind in ("DEF", "FRAGMENT"):
        with pytest.raises(ValueError, match="'prim' is reserved"):
            Library("prim", kind)
    Library("prim", "IMPL")
    first._destroy()
    Library(namespace, "DEF")._destroy()


def test_define_returns_the_name_and_refuses_a_second(lib):
    """C-62."""
    assert lib.define("f(Tensor x) -> Tensor") == "f"
    assert lib.define("f.b(Tensor x, int n) -> Tensor") == "f.b"
    with pytest.raises(RuntimeError, match=r"test_low_level.py:\d+.*test_low_level.py:\d+"):
        lib.define("f(Tensor x) -> Tensor")
    with pytest.raises(RuntimeError, match="alias_analysis"):
        lib.define("g(Tensor x) -> Tensor", "WRONG")
    lib.define("g(Tensor x) -> Tensor", "CONSERVATIVE", tags=(torch.library.Tag.core,))
    assert ops(lib).g.default.tags == [torch.library.Tag.core]
    with pytest.raises(RuntimeError, match="kind IMPL only adds kernels"):
        Library(lib.ns, "IMPL").define("h(Tensor x) -> Tensor")


def test_impl_checks_what_it_is_given(lib):
    """C-63."""
    lib.define("f(Tensor x) -> Tensor")
    with pytest.raises(TypeError, match="callable"):
        lib.impl("f", 3, "CPU")
    with pytest.raises(RuntimeError, match="'Toaster'"):
        lib.impl("f", lambda x: x, "Toaster")
    with pytest.raises(RuntimeError, match="got int"):
        lib.impl(3, lambda x: x, "CPU")
    lib.impl("f", lambda x: x * 2, "CPU")
    with pytest.raises(RuntimeError, match=r"kernel for CPU, registered at .*test_low_level.py"):
        lib.impl("f", lambda x: x, "CPU")
    lib.impl(ops(lib).f.default, lambda x: x * 3, "CPU", allow_override=True)
    assert ops(lib).f(torch.ones(1)).item() == 3


@pytest.mark.parametrize(
    "key",
    ["CPU", "CUDA", "Meta", "CompositeExplicitAutograd", "CompositeImplicitAutograd", "Autograd",
     "AutogradCPU", "AutogradCUDA", "AutocastCPU", "AutocastCUDA", "FuncTorchBatched",
     "BackendSelect", "ADInplaceOrView", "default", ""],
)  # fmt: skip
def test_every_key_of_torch_is_known(lib, key):
    """C-63."""
    lib.define("f(Tensor x) -> Tensor")
    lib.impl("f", lambda x: x, key)


def test_keyset_comes_first_where_asked(lib):
    """C-63."""
    lib.define("f(Tensor x) -> Tensor")
    lib.impl("f", lambda keys, x: x * (2 if keys is not None else 3), "CPU", with_keyset=True)
    assert ops(lib).f(torch.ones(1)).item() == 2

    def record(keys, x):
        return ops(lib).f.default.redispatch(keys & torch._C._after_autograd_keyset, x) + 1

    lib.impl("f", record, "Autograd", with_keyset=True)
    assert ops(lib).f(torch.ones(1)).item() == 3


def test_library_with_a_key_uses_it_for_kernels(namespace):
    """C-63."""
    with _scoped_library(namespace, "DEF") as lib, _scoped_library(namespace, "IMPL", "CPU") as cpu:
        lib.define("f(Tensor x) -> Tensor")
        cpu.impl("f", lambda x: x * 4)
        assert ops(lib).f(torch.ones(1)).item() == 4


def test_kernel_registered_before_the_definition_becomes_live(lib):
    """C-64."""
    lib.impl("late", lambda x: x * 5, "CPU")
    lib.define("late(Tensor x) -> Tensor")
    assert ops(lib).late(torch.ones(1)).item() == 5


def test_kernel_in_the_place_of_autograd(lib):
    """C-63: it records for itself, and calls the operator below."""
    lib.define("f(Tensor x) -> Tensor")
    lib.impl("f", lambda x: torch.from_numpy(x.numpy() * 2), "CPU")

    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return ops(lib).f.default.redispatch(None, x)

        @staticmethod
        def backward(ctx, g):
            return g * 2

    lib.impl("f", Doubled.apply, "Autograd")
    x = torch.ones(2, requires_grad=True)
    out = ops(lib).f(x)
    assert type(out.grad_fn).__name__ == "DoubledBackward"
    out.sum().backward()
    assert x.grad.tolist() == [2, 2]


def test_kernel_in_the_place_of_autograd_may_use_the_guard(lib):
    """C-63: torch's way to run what lies below."""
    lib.define("f(Tensor x) -> Tensor")
    lib.impl("f", lambda x: torch.from_numpy(x.numpy() * 2), "CPU")

    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            with torch._C._AutoDispatchBelowAutograd():
                return ops(lib).f(x)

        @staticmethod
        def backward(ctx, g):
            return g * 2

    lib.impl("f", Doubled.apply, "AutogradCPU")
    x = torch.ones(2, requires_grad=True)
    ops(lib).f(x).sum().backward()
    assert x.grad.tolist() == [2, 2]


def test_batched_kernel_sees_batched_tensors(lib):
    """C-63."""
    lib.define("f(Tensor x) -> Tensor")
    lib.impl("f", lambda x: x * 2, "CPU")
    lib.impl("f", lambda x: x * 3, "FuncTorchBatched")
    assert torch.func.vmap(ops(lib).f)(torch.ones(2)).tolist() == [3, 3]


def test_kernel_for_an_autocast_region(lib):
    """C-63."""
    lib.define("f(Tensor x) -> Tensor")
    lib.impl("f", lambda x: x * 2, "CPU")
    lib.impl("f", lambda x: ops(lib).f(x.half()), "AutocastCPU")
    assert ops(lib).f(torch.ones(1)).dtype is torch.float32
    with torch.library.autocast("cpu"):
        assert ops(lib).f(torch.ones(1)).dtype is torch.float16


def test_composite_kernel_serves_vmap_beside_one_for_the_device(lib):
    """C-65."""
    lib.define("f(Tensor x) -> Tensor")
    lib.impl("f", lambda x: torch.from_numpy(x.numpy() * 2), "CPU")
    lib.impl("f", lambda x: x * 3)
    assert ops(lib).f(torch.ones(2)).tolist() == [2, 2]
    assert torch.func.vmap(ops(lib).f)(torch.ones(2)).tolist() == [3, 3]


# Autograd without a registration -----------------------------------------------------------------


def test_composite_kernel_is_differentiated_through(lib):
    """C-65."""
    lib.define("f(Tensor x) -> Tensor")
    lib.impl("f", lambda x: x * x)
    x = torch.tensor([2.0], requires_grad=True)
    f = ops(lib).f
    out = f(x)
    assert out.grad_fn.name() == "MulBackward0"
    out.backward()
    assert x.grad.item() == 4
    assert torch.func.vmap(f)(torch.ones(3)).tolist() == [1, 1, 1]
    assert torch.func.jvp(f, (x.detach(),), (torch.ones(1),))[1].item() == 4


@pytest.mark.parametrize("key", ["CPU", "CompositeExplicitAutograd"])
def test_device_kernel_without_formula_runs_in_the_callers_grad_mode(lib, key):
    """C-65."""
    lib.define("f(Tensor x) -> Tensor")
    lib.impl("f", lambda x: x * x, key)
    x = torch.tensor([2.0], requires_grad=True)
    out = ops(lib).f(x)
    assert out.grad_fn.name() == "MulBackward0"
    with pytest.warns(UserWarning, match=f"{lib.ns}::f has no backward formula"):
        out.backward()
    assert x.grad.item() == 4


def foreign(lib):
    lib.define("f(Tensor x) -> Tensor")
    lib.impl("f", lambda x: torch.from_numpy(x.detach().numpy() * 2), "CPU")
    return ops(lib).f


def test_result_of_foreign_code_raises_in_backward_where_that_is_wanted(lib, raising):
    """C-65."""
    out = foreign(lib)(torch.ones(1, requires_grad=True))
    assert out.requires_grad
    with pytest.raises(RuntimeError, match=f"{lib.ns}::f.*register_autograd"):
        out.backward()
    assert not foreign_is_tracked(lib)


def foreign_is_tracked(lib):
    with torch.no_grad():
        return ops(lib).f(torch.ones(1, requires_grad=True)).requires_grad


def test_result_of_foreign_code_can_be_told_to_warn(lib):
    """C-65."""
    x = torch.ones(1, requires_grad=True)
    f = foreign(lib)
    set_autograd_fallback_mode("warn")
    try:
        with pytest.warns(UserWarning, match="no gradient"):
            (f(x) + x).backward()
        set_autograd_fallback_mode("nothing")
        (f(x) + x).backward()
        assert not f(x).requires_grad
    finally:
        set_autograd_fallback_mode("warn")
    assert x.grad.item() == 2
    with pytest.raises(RuntimeError, match="nothing, warn, error"):
        set_autograd_fallback_mode("shout")


# Functions ---------------------------------------------------------------------------------------


def test_define_and_impl_by_qualified_name(namespace):
    """C-66."""
    with _scoped_library(namespace, "FRAGMENT") as lib:
        define(f"{namespace}::f", "(Tensor x) -> Tensor", lib=lib)

        @impl(f"{namespace}::f", ("cpu", "cuda"), lib=lib)
        def f(x):
            return x * 2

        define(f"{namespace}::g", "(Tensor x) -> Tensor", lib=lib)
        impl(f"{namespace}::g", "default", lambda x: x * 3, lib=lib)
        define(f"{namespace}::h", "(Tensor x) -> Tensor", lib=lib)
        impl(f"{namespace}::h", "CompositeImplicitAutograd", lambda x: x * 4, lib=lib)
        x = torch.ones(1)
        assert [getattr(ops(lib), op)(x).item() for op in "fgh"] == [2, 3, 4]


def test_define_checks_name_and_schema(namespace):
    """C-66."""
    with pytest.raises(ValueError, match="'ns::op'"):
        define("nothing", "(Tensor x) -> Tensor")
    with pytest.raises(ValueError, match="must start at the parenthesis"):
        define(f"{namespace}::f", "f(Tensor x) -> Tensor")
    with pytest.raises(ValueError, match="got int"):
        define(3, "(Tensor x) -> Tensor")


def test_old_forms_are_decorators(lib):
    """C-66."""

    @define(lib, "f(Tensor x) -> Tensor")
    def f(x):
        return x * 2

    lib.define("g(Tensor x) -> Tensor")

    @impl(lib, "g", "CPU")
    def g(x):
        return x * 3

    x = torch.ones(1, requires_grad=True)
    assert ops(lib).f(x).grad_fn.name() == "MulBackward0"
    assert ops(lib).g(x).item() == 3


@pytest.mark.parametrize("how", ["destroyed", "collected"])
def test_registrations_end_with_their_library(namespace, how):
    """C-67."""
    lib = Library(namespace, "DEF")
    lib.define("f(Tensor x) -> Tensor")
    lib.impl("f", lambda x: x * 2, "CPU")
    handle = ops(lib).f
    assert handle(torch.ones(1)).item() == 2
    overload = handle.default
    if how == "destroyed":
        lib._destroy()
    del lib
    gc.collect()
    with pytest.raises(AttributeError, match="'f'"):
        _ = getattr(torch.ops, namespace).f
    with pytest.raises(RuntimeError, match="no longer exists"):
        overload(torch.ones(1))


def test_kernels_fakes_and_formulas_end_with_their_library(name):
    """C-67."""
    op = custom_op(name, lambda x: x * 1, mutates_args=(), schema="(Tensor x) -> Tensor")
    x = torch.ones(1, requires_grad=True)
    with _scoped_library("tests", "IMPL") as lib:
        torch.library.register_kernel(name, "cpu", lambda x: x * 2, lib=lib)
        register_autograd(name, lambda ctx, g: g * 2, lib=lib)
        register_fake(name, lambda x: x, lib=lib)
        out = op(x)
        assert out.item() == 2
        out.backward()
    assert x.grad.item() == 2
    out = op(x)
    assert out.item() == 1
    with pytest.raises(RuntimeError, match="no backward formula"):
        out.backward()


def test_registration_without_a_library_is_permanent(name):
    """C-67."""
    define(name, "(Tensor x) -> Tensor")
    impl(name, "cpu", lambda x: x * 2)
    gc.collect()
    space, _, short = name.partition("::")
    assert getattr(getattr(torch.ops, space), short)(torch.ones(1)).item() == 2


def test_fallback_belongs_to_no_namespace(lib):
    """C-68."""
    with pytest.raises(RuntimeError, match="namespace '_'"):
        lib.fallback(lambda *a: None, "CPU")
    lib.define("f(Tensor x) -> Tensor")
    with _scoped_library("_", "IMPL") as everything:
        everything.fallback(lambda op, *args: args[0] * 9, "CPU")
        assert ops(lib).f(torch.ones(1)).item() == 9
    with pytest.raises(NotImplementedError, match="no kernel"):
        ops(lib).f(torch.ones(1))


def test_fallthrough_marks_a_key_as_skipped(lib):
    """C-68."""
    lib.define("f(Tensor x) -> Tensor")
    lib.impl("f", fallthrough_kernel, "CPU")
    lib.impl("f", lambda x: x * 2, "CompositeExplicitAutograd")
    assert ops(lib).f(torch.ones(1)).item() == 2
    with pytest.raises(NotImplementedError, match="skipped"):
        fallthrough_kernel()


def test_kernel_can_be_asked_for_and_run(lib):
    """C-68."""
    lib.define("f(Tensor x) -> Tensor")
    lib.impl("f", lambda x: x * 2, "CPU")
    kernel = get_kernel(f"{lib.ns}::f", "CPU")
    assert kernel.call_boxed(None, torch.ones(1)).item() == 2
    lib.impl("f", lambda x: x * 3, "CPU", allow_override=True)
    assert kernel.call_boxed(None, torch.ones(1)).item() == 3
    with pytest.raises(RuntimeError, match="no kernel for AutogradCPU"):
        get_kernel(ops(lib).f.default, "AutogradCPU")


@pytest.mark.parametrize("used", [(0,), (1,), (0, 1)])
def test_several_results_of_foreign_code_raise_or_are_left_alone(lib, used, raising):
    """C-65."""
    lib.define("two(Tensor x) -> (Tensor, Tensor[])")

    def kernel(x):
        return torch.from_numpy(x.detach().numpy() * 2), [torch.from_numpy(x.detach().numpy() * 3)]

    lib.impl("two", kernel, "CPU")
    x = torch.ones(2, requires_grad=True)

    def total():
        first, (second,) = ops(lib).two(x)
        return sum((first, second)[i].sum() for i in used) + x.sum()

    with pytest.raises(RuntimeError, match=f"{lib.ns}::two"):
        total().backward()
    set_autograd_fallback_mode("nothing")
    total().backward()
    assert x.grad.tolist() == [1, 1]
