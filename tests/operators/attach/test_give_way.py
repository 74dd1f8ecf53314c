"""Signs whose operand refuses the call: Python asks the other operand, as for any two classes."""

import operator

import pytest

import pullback as torch

BINARY = ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "and", "or", "xor"]
BINARY += ["lshift", "rshift"]
COMPARED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}


def sign(name):
    return getattr(operator, f"{name}_" if name in ("and", "or") else name)


def refusing(*bases):
    """A new class that takes no call of torch, and knows what to do with a tensor on its left."""

    def answer(name):
        return lambda self, other: name

    body = {f"__r{name}__": answer(name) for name in BINARY}
    if not bases:
        body |= {f"__{name}__": answer(name) for name in COMPARED}
    body["__torch_function__"] = classmethod(lambda *args, **kwargs: NotImplemented)
    return type("Refusing", bases, body)


def operand(of_tensors):
    if of_tensors:
        return torch.ones(2, dtype=torch.int64).as_subclass(refusing(torch.Tensor))
    return refusing()()


@pytest.mark.parametrize("again", [False, True], ids=["first met", "known"])
@pytest.mark.parametrize("of_tensors", [False, True], ids=["thing", "tensor"])
@pytest.mark.parametrize("in_place", [False, True])
@pytest.mark.parametrize("name", BINARY)
def test_the_other_operand_is_asked_where_nobody_takes_a_sign(name, in_place, of_tensors, again):
    tensor, other = torch.ones(2, dtype=torch.int64), operand(of_tensors)
    call = getattr(operator, f"i{name}") if in_place else sign(name)
    for _ in range(1 + again):
        assert call(tensor, other) == name
    assert tensor.tolist() == [1, 1]


@pytest.mark.parametrize("name", COMPARED)
def test_the_other_operand_is_asked_where_nobody_takes_a_comparison(name):
    tensor, other = torch.ones(2, dtype=torch.int64), operand(of_tensors=False)
    for _ in range(2):
        assert sign(name)(tensor, other) == COMPARED[name]


@pytest.mark.parametrize("of_tensors", [False, True], ids=["thing", "tensor"])
def test_what_nobody_compares_is_not_equal(of_tensors):
    class Silent:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return NotImplemented

    tensor = torch.ones(2)
    other = operand(of_tensors=True) if of_tensors else Silent()
    assert (tensor == other) is False
    assert (other == tensor) is False
    assert (tensor != other) is True


@pytest.mark.parametrize("name", ["add", "sub", "mul", "pow", "matmul", "eq", "bitwise_and"])
def test_functions_and_methods_that_nobody_takes_are_errors(name):
    tensor, other = torch.ones(2, dtype=torch.int64), operand(of_tensors=False)
    for function in (getattr(torch, name), getattr(torch.Tensor, name)):
        with pytest.raises(TypeError):
            function(tensor, other)
