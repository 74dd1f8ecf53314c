"""Arguments by schema (C-4, C-5)."""

import numpy as np
import pytest

import pullback as torch
from pullback import Tensor
from pullback.library import _scoped_library


@pytest.fixture
def op(namespace):
    with _scoped_library(namespace, "DEF") as lib:
        lib.define("f(Tensor x, int n=3, *, float k=1.0) -> Tensor")
        lib.impl("f", lambda x, n, k: x * n * k, "CPU")
        yield getattr(torch.ops, namespace).f


def test_arguments_go_by_position_or_keyword_and_defaults_fill_in(op):
    """C-4."""
    x = torch.ones(1)
    assert op(x).item() == 3
    assert op(x, 2).item() == op(n=2, x=x).item() == 2
    assert op(x, k=2.0).item() == 6


@pytest.mark.parametrize(
    ("args", "kwargs", "says"),
    [
        ((), {}, r"argument 'x' \(position 0\) is missing"),
        (("x", 1, 2.0), {}, "3 arguments are given by position, but it takes 2"),
        (("x",), {"z": 1}, "no argument 'z'"),
        (("x", 1.5), {}, r"argument 'n' \(position 1\) must be int, but is 1.5 of type float"),
        (("x",), {"k": "a"}, r"argument 'k' \(position 2\) must be float, but is 'a' of type str"),
        (("x", 1), {"n": 1}, "'n' is given by position and by keyword"),
        ((5,), {}, r"argument 'x' \(position 0\) must be Tensor, but is 5 of type int"),
    ],
)
def test_arguments_that_do_not_fit_are_a_runtime_error(op, args, kwargs, says):
    """C-4."""
    args = tuple(torch.ones(1) if arg == "x" else arg for arg in args)
    with pytest.raises(RuntimeError, match=says) as caught:
        op(*args, **kwargs)
    assert type(caught.value).__mro__[1] is RuntimeError
    assert str(op.default._schema) in str(caught.value)
    assert op.default.name() in str(caught.value)


def received(kind, value, name="tests_received"):
    """What a kernel gets for `value`."""
    seen = []
    with _scoped_library(name, "DEF") as lib:
        lib.define(f"f({kind} v) -> ()")
        lib.impl("f", seen.append, "default")
        getattr(torch.ops, name).f(value)
    return seen[0]


CONVERTED = [
    ("float", 1, 1.0),
    ("float", True, 1.0),
    ("float", np.float32(2.5), 2.5),
    ("float", np.int64(2), 2.0),
    ("float", torch.tensor(2.5), 2.5),
    ("int", True, 1),
    ("int", np.int64(2), 2),
    ("SymInt", torch.tensor(3), 3),
    ("bool", 1, True),
    ("bool", np.bool_(False), False),
    ("Scalar", np.float64(1.5), 1.5),
    ("Scalar", 2j, 2j),
    ("int[]", (1, 2), [1, 2]),
    ("int[]", torch.Size([1, 2]), [1, 2]),
    ("int[]", np.array([1, 2]), [1, 2]),
    ("int[2]", 4, [4, 4]),
    ("float[]", [1, 2.5], [1.0, 2.5]),
    ("int[]?", None, None),
    ("int?", None, None),
    ("Device", "cuda:1", torch.device("cuda:1")),
    ("ScalarType", torch.float64, torch.float64),
    ("Layout", torch.strided, torch.strided),
    ("str", "a", "a"),
]


@pytest.mark.parametrize(("kind", "value", "wanted"), CONVERTED, ids=str)
def test_kernel_sees_the_converted_value(kind, value, wanted):
    """C-5."""
    got = received(kind, value)
    assert got == wanted
    assert type(got) is type(wanted)


def test_tuple_of_tensors_reaches_the_kernel_as_a_list():
    """C-5."""
    x, y = torch.ones(1), torch.ones(2)
    assert received("Tensor[]", (x, y)) == [x, y]
    assert received("Tensor?[]", (x, None)) == [x, None]


@pytest.mark.parametrize(
    ("kind", "value"),
    [("int", 1.5), ("int", np.float32(2.0)), ("int", "1"), ("float", "1"), ("float", 1j),
     ("int[]", [1.5]), ("Tensor[]", [1]), ("Tensor", [1.0]), ("str", 1), ("bool", "a"),
     ("Device", 1), ("ScalarType", "float32"), ("int", torch.ones(2)), ("Tensor[]", [None])],
    ids=str,
)  # fmt: skip
def test_other_values_are_refused(kind, value):
    """C-5."""
    with pytest.raises(RuntimeError, match="argument 'v'"):
        received(kind, value)


def test_arguments_may_have_any_name(name):
    """Names that the written code uses itself are the user's all the same."""

    @torch.library.custom_op(name, mutates_args=())
    def op(node: torch.Tensor, self_: int, *, mode: float, kernel: int = 2, r: int = 1) -> Tensor:
        return node * self_ * mode * kernel * r

    op.register_autograd(lambda ctx, g: (g * 3, None), setup_context=keep)
    x = torch.ones(1, requires_grad=True)
    assert op(x, 3, mode=5.0).item() == 30
    assert op(x, self_=3, mode=5.0, kernel=1, r=2).item() == 30
    op(x, 3, mode=5.0).backward()
    assert x.grad.item() == 3


def keep(ctx, inputs, keyword_only_inputs, output):
    assert keyword_only_inputs == {"mode": 5.0, "kernel": 2, "r": 1} or inputs[1] == 3
