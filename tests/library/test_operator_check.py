"""opcheck: each promise of an operator, kept and broken."""

import numpy
import pytest

import pullback as torch
from pullback.library import OpCheckError, custom_op, opcheck

DEFAULT = [
    *("test_schema", "test_autograd_registration", "test_faketensor"),
    "test_aot_dispatch_dynamic",
]


@pytest.fixture
def x():
    return torch.tensor([1.0, 2.0, 3.0], requires_grad=True)


@pytest.fixture
def good():
    @custom_op("opcheck_tests::good", mutates_args=())
    def good(x: torch.Tensor) -> torch.Tensor:
        return torch.from_numpy(numpy.sin(x.numpy()))

    good.register_fake(lambda x: torch.empty_like(x))
    good.register_autograd(
        lambda ctx, g: g * ctx.saved_tensors[0].cos(),
        setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs),
    )
    return good


def test_good_operator_passes_all_default_tests(good, x):
    """C-69, C-71."""
    assert opcheck(good, (x,)) == dict.fromkeys(DEFAULT, "SUCCESS")


def test_overload_and_packet_are_taken_too(good, x):
    """C-69."""
    expected = {"test_schema": "SUCCESS"}
    for op in (torch.ops.opcheck_tests.good, torch.ops.opcheck_tests.good.default):
        assert opcheck(op, (x,), {}, test_utils="test_schema") == expected
    assert opcheck(torch.ops.aten.sin.default, (x,), test_utils="test_schema") == expected


@pytest.mark.parametrize("op", [lambda x: x, 3, "opcheck_tests::good"])
def test_anything_else_is_refused(op, x):
    """C-69."""
    with pytest.raises(ValueError, match="op must be"):
        opcheck(op, (x,))


def test_packet_of_several_overloads_is_refused(x):
    """C-69."""
    with pytest.raises(ValueError, match="name one"):
        opcheck(torch.ops.aten.add, (x, x))


def test_static_capture_is_tested_on_request(good, x):
    """C-69."""
    names = ("test_aot_dispatch_static",)
    assert opcheck(good, (x,), test_utils=names) == {names[0]: "SUCCESS"}


@pytest.mark.parametrize("names", ["test_nothing", ("test_schema", "test_nothing")])
def test_unknown_test_names_the_known_ones(good, x, names):
    """C-69."""
    with pytest.raises(ValueError, match=r"'test_nothing'.*test_schema.*test_faketensor"):
        opcheck(good, (x,), test_utils=names)


@pytest.mark.parametrize("given", [{"atol": 1e-3}, {"rtol": 1e-3}])
def test_tolerances_come_together(good, x, given):
    """C-71."""
    with pytest.raises(ValueError, match="both"):
        opcheck(good, (x,), **given)


def test_undeclared_write_is_reported(x):
    """C-70."""

    @custom_op("opcheck_tests::writes", mutates_args=())
    def writes(x: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return x * 2

    results = opcheck(writes, (x.detach(),), test_utils="test_schema", raise_exception=False)
    assert isinstance(results["test_schema"], RuntimeError)
    assert "'x' was written" in str(results["test_schema"])


def test_declared_write_that_does_not_happen_is_fine(x):
    """C-70."""

    @custom_op("opcheck_tests::idle", mutates_args=("x",))
    def idle(x: torch.Tensor) -> None:
        pass

    assert opcheck(idle, (x.detach(),)) == dict.fromkeys(DEFAULT, "SUCCESS")


def test_declared_write_is_compared(x):
    """C-70."""

    @custom_op("opcheck_tests::doubles", mutates_args=("x",))
    def doubles(x: torch.Tensor) -> None:
        x.mul_(2)

    values = x.detach()
    assert opcheck(doubles, (values,)) == dict.fromkeys(DEFAULT, "SUCCESS")
    assert values.tolist() == [1.0, 2.0, 3.0]


@pytest.mark.parametrize("view", [lambda x: x, lambda x: x[:1], lambda x: x.reshape(3, 1)])
def test_undeclared_sharing_is_reported(x, view):
    """C-70."""
    with torch.library._scoped_library("opcheck_shared", "FRAGMENT") as lib:
        lib.define("shares(Tensor x) -> Tensor")
        lib.impl("shares", view, "CPU")
        op = torch.ops.opcheck_shared.shares.default
        results = opcheck(op, (x.detach(),), test_utils="test_schema", raise_exception=False)
        assert "shares memory with the argument 'x'" in str(results["test_schema"])


@pytest.mark.parametrize(
    ("fake", "what"),
    [
        (lambda x: x.new_empty(4), "shape"),
        (lambda x: x.new_empty(3, dtype=torch.float64), "dtype"),
        (lambda x: torch.empty_strided((3,), (2,), device="meta"), "stride"),
        (lambda x: torch.empty(3), "make it from its arguments"),
    ],
)
def test_wrong_fake_is_reported(good, x, fake, what):
    """C-70."""
    good.register_fake(fake)
    with pytest.raises(OpCheckError, match=f"test_faketensor failed: .*{what}"):
        opcheck(good, (x,), test_utils="test_faketensor")


def test_missing_fake_is_reported(x):
    """C-70."""

    @custom_op("opcheck_tests::unknown", mutates_args=())
    def unknown(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    results = opcheck(unknown, (x.detach(),), raise_exception=False)
    assert "register_fake" in str(results["test_faketensor"])
    assert results["test_schema"] == "SUCCESS"


def test_history_made_inside_a_kernel_is_reported(x):
    """C-70."""
    with torch.library._scoped_library("opcheck_inside", "FRAGMENT") as lib:
        lib.define("inside(Tensor x) -> Tensor")
        lib.impl("inside", lambda x: x.sin(), "CPU")
        op = torch.ops.opcheck_inside.inside.default
        results = opcheck(op, (x,), test_utils="test_autograd_registration", raise_exception=False)
        assert "SinBackward0" in str(results["test_autograd_registration"])
        without = opcheck(op, (x.detach(),), test_utils="test_autograd_registration")
        assert without == {"test_autograd_registration": "SUCCESS"}


def test_formula_for_the_autograd_key_is_fine(x):
    """C-70."""
    with torch.library._scoped_library("opcheck_key", "FRAGMENT") as lib:
        lib.define("keyed(Tensor x) -> Tensor")
        lib.impl("keyed", lambda x: x.sin(), "CompositeImplicitAutograd")
        op = torch.ops.opcheck_key.keyed.default
        assert opcheck(op, (x,)) == dict.fromkeys(DEFAULT, "SUCCESS")


def test_results_that_change_from_run_to_run_are_reported():
    """C-70."""
    calls = []

    @custom_op("opcheck_tests::counts", mutates_args=())
    def counts(x: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        return x + len(calls)

    with pytest.raises(OpCheckError, match="test_aot_dispatch_dynamic failed: result 0 differs"):
        opcheck(counts, (torch.ones(2),), test_utils="test_aot_dispatch_dynamic")


def test_first_failure_names_test_and_cause(good, x):
    """C-71."""
    good.register_fake(lambda x: x.new_empty(4))
    with pytest.raises(OpCheckError, match=r"opcheck_tests\.good\.default: test_faketensor") as got:
        opcheck(good, (x,))
    assert isinstance(got.value.__cause__, RuntimeError)


def test_wide_tolerances_accept_differences():
    """C-71."""
    calls = []

    @custom_op("opcheck_tests::drifts", mutates_args=())
    def drifts(x: torch.Tensor) -> torch.Tensor:
        calls.append(1)
        return x + 1e-3 * len(calls)

    name = "test_aot_dispatch_dynamic"
    assert opcheck(drifts, (torch.ones(2),), test_utils=name, atol=1, rtol=1) == {name: "SUCCESS"}


def test_arguments_and_random_state_are_as_before(good, x):
    """C-72."""

    @custom_op("opcheck_tests::noise", mutates_args=("x",))
    def noise(x: torch.Tensor) -> None:
        x.normal_()

    state, values = torch.get_rng_state(), torch.ones(3)
    opcheck(noise, (values,))
    assert torch.equal(torch.get_rng_state(), state)
    assert values.tolist() == [1.0, 1.0, 1.0]
    assert values._version == 0
    opcheck(good, (x,))
    assert x.grad is None
