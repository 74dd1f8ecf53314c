"""Python's operators: reflected forms, and operands that know better than the tensor."""

import operator

import pytest

import pullback as torch


class Polite:
    """Answers every reflected sign with its name."""

    def __getattr__(self, name):
        raise AttributeError(name)


DUNDERS = {
    "add": "radd",
    "sub": "rsub",
    "mul": "rmul",
    "truediv": "rtruediv",
    "floordiv": "rfloordiv",
    "mod": "rmod",
    "pow": "rpow",
    "matmul": "rmatmul",
    "and_": "rand",
    "or_": "ror",
    "xor": "rxor",
    "lshift": "rlshift",
    "rshift": "rrshift",
    "lt": "gt",
    "ge": "le",
    "eq": "eq",
    "ne": "ne",
}
for _name in {*DUNDERS.values()}:
    setattr(Polite, f"__{_name}__", lambda self, other, name=_name: name)
Polite.__hash__ = None


@pytest.mark.parametrize("requires", [False, True])
@pytest.mark.parametrize("sign", DUNDERS)
def test_signs_leave_unknown_operands_to_themselves(sign, requires):
    dtype = torch.int64 if sign in ("and_", "or_", "xor", "lshift", "rshift") else torch.float32
    x = torch.ones(2, dtype=dtype)
    if requires and dtype is torch.float32:
        x.requires_grad_()
    for _ in range(2):  # before and after the sign's code is written
        assert getattr(operator, sign)(x, Polite()) == DUNDERS[sign]


@pytest.mark.parametrize("sign", ["iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow"])
def test_in_place_signs_leave_unknown_operands_to_themselves(sign):
    x = torch.ones(2)
    assert getattr(operator, sign)(x, Polite()) == f"r{sign[1:]}"
    assert x._version == 0


@pytest.mark.parametrize("other", [None, "text", object()])
@pytest.mark.parametrize("sign", ["add", "sub", "mul", "truediv", "pow", "matmul", "lt"])
def test_nobody_knows_and_python_says_so(sign, other):
    with pytest.raises(TypeError):
        getattr(operator, sign)(torch.ones(2), other)
    with pytest.raises(TypeError):
        getattr(operator, sign)(other, torch.ones(2))


def test_equality_with_anything_else_is_false():
    """V-7"""
    x = torch.ones(2)
    assert (x == None) is False  # noqa: E711 (the sign is what is tested)
    assert (x != "text") is True
    assert x in [None, x]


def test_functions_raise_where_signs_give_way():
    with pytest.raises(TypeError, match="must be a Tensor"):
        torch.add(torch.ones(2), Polite())
    with pytest.raises(TypeError, match="must be a Tensor"):
        torch.ones(2).add_(Polite())


def test_signs_record_like_their_operators():
    x = torch.ones(2, requires_grad=True)
    assert type((x + 1).grad_fn) is type(torch.add(x, 1).grad_fn)
    assert type((2 - x).grad_fn).__name__ == "RsubBackward1"
    y = x * 1
    y += x
    assert type(y.grad_fn).__name__ == "AddBackward0"
    y.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


@pytest.mark.parametrize(
    "subtract",
    [
        lambda: torch.tensor([True]) - torch.tensor([True]),
        lambda: torch.tensor([True]) - True,
        lambda: torch.tensor([1]) - True,
        lambda: 1 - torch.tensor([True]),
        lambda: torch.tensor([1.0]) - torch.tensor([True]),
        lambda: torch.tensor([1.0]).sub_(torch.tensor([True])),
        lambda: torch.rsub(torch.tensor([1.0]), torch.tensor([True])),
    ],
)
def test_bools_are_not_subtracted(subtract):
    with pytest.raises(RuntimeError):
        subtract()


@pytest.mark.parametrize(
    "call",
    [
        lambda: torch.ones(2, 2).diagonal("a"),
        lambda: torch.ones(2, 2).tril("a"),
        lambda: torch.ones(2).select(0, 0.5),
        lambda: torch.nn.functional.leaky_relu(torch.ones(2), "a"),
    ],
)
def test_options_of_a_wrong_type_are_type_errors(call):
    with pytest.raises(TypeError):
        call()


def test_dtypes_that_numpy_refuses_are_runtime_errors():
    with pytest.raises(RuntimeError):
        -torch.tensor([True])
