"""Above autograd: function modes, and arguments and subclasses that override public functions."""

import subprocess
import sys

import pytest

import pullback as torch
from pullback.overrides import (
    TorchFunctionMode,
    handle_torch_function,
    has_torch_function,
    is_tensor_like,
    resolve_name,
)
from tests.operators.dispatch.listening import Log, Names

# Function modes -----------------------------------------------------------------------------------


def test_function_mode_sees_public_functions_and_not_what_is_inside(x):
    """C-11."""
    with Names() as names:
        y = torch.nn.functional.softsign(x)
        torch.zeros(2)
        y.reshape(-1).sum()
    assert names.seen == ["softsign", "zeros", "reshape", "sum"]


def test_function_mode_is_above_dispatch_modes_and_backward(x):
    with Names() as names, Log() as log:
        y = torch.nn.functional.softsign(x).sum()
        forward = list(log.seen)
        seen = list(names.seen)
        y.backward()
    assert seen == ["softsign", "sum"]
    assert forward == ["aten.abs.default", "aten.add.Tensor", "aten.div.Tensor", "aten.sum.default"]
    assert len(log.seen) > len(forward)


def test_function_mode_can_replace_a_function(x):
    class Swap(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            if func is torch.exp:
                return torch.sin(*args)
            return func(*args, **(kwargs or {}))

    with Swap():
        y = torch.exp(x)
    assert type(y.grad_fn).__name__ == "SinBackward0"


def test_function_modes_nest_innermost_first(x):
    outer = Names()

    class Inner(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            assert outer.seen == []
            return func(*args, **(kwargs or {}))

    with outer, Inner():
        torch.exp(x)
    assert outer.seen == ["exp"]


CODES = """
import pullback as torch
from tests.operators.dispatch.listening import Log, Names

before = torch.zeros.__code__
with Log():
    with Names():
        assert torch.zeros.__code__ is not before
    assert torch.zeros.__code__ is not before
assert torch.zeros.__code__ is before
"""


def test_functions_are_as_they_were_after_the_last_mode():
    # In a process where no class that overrides calls was met: its functions would go on asking.
    ran = subprocess.run([sys.executable, "-c", CODES], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


def test_custom_operator_goes_to_function_modes(x):
    """C-11."""

    @torch.library.custom_op("dispatch_tests::same", mutates_args=())
    def same(x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    with Names() as names:
        same(x)
    assert names.seen == ["same.default"]


class Wrapped:
    """An argument with a `__torch_function__` of its own."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return func.__name__, types, len(args)


def test_torch_function_of_an_argument_takes_the_call(x):
    """C-11."""
    assert torch.add(x, Wrapped()) == ("add", (Wrapped,), 2)
    assert torch.add(Wrapped(), x) == ("add", (Wrapped,), 2)
    assert x * Wrapped() == ("mul", (Wrapped,), 2)
    assert torch.exp(Wrapped())[0] == "exp"


def test_torch_function_of_an_argument_takes_the_call_of_a_custom_operator(x):
    """C-11."""

    @torch.library.custom_op("dispatch_tests::two", mutates_args=())
    def two(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x + y

    assert two(x, Wrapped()) == ("two.default", (Wrapped,), 2)


def test_not_implemented_leaves_the_usual_error(x):
    class Refuses:
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return NotImplemented

    with pytest.raises(TypeError, match="add"):
        torch.add(x, Refuses())


def test_helpers_for_functions_of_ones_own(x):
    def mine(value):
        if has_torch_function((value,)):
            return handle_torch_function(mine, (value,), value)
        return value

    assert mine(x) is x
    assert mine(Wrapped()) == ("mine", (Wrapped,), 1)
    assert is_tensor_like(Wrapped())
    assert not is_tensor_like(3)
    assert resolve_name(torch.add) == "torch.add"
    with Names() as names:
        mine(x)
    assert names.seen == ["mine"]


# Subclasses of Tensor -----------------------------------------------------------------------------


class Named(torch.Tensor):
    """A subclass that remembers what was called on it."""

    seen = []  # noqa: RUF012 (shared on purpose)

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.seen.append((func.__name__, types))
        return super().__torch_function__(func, types, args, kwargs)


@pytest.fixture
def named():
    Named.seen.clear()
    made = torch.tensor([1.0, 2.0])
    made.__class__ = Named
    return made.requires_grad_()


def test_subclass_takes_calls_and_results_are_of_its_class(named):
    """C-11."""
    y = named * 2 + torch.ones(2)
    assert type(y) is Named
    assert Named.seen == [("mul", (Named,)), ("add", (Named,))]
    assert y.tolist() == [3.0, 5.0]


def test_subclass_takes_writes_views_and_calls_with_several_results(named):
    plain = named.detach()
    plain.__class__ = Named
    Named.seen.clear()
    plain.add_(1)
    values, indices = plain.sort()
    assert [name for name, _ in Named.seen] == ["add_", "sort"]
    assert type(values) is type(indices) is Named


def test_gradients_flow_through_a_subclass(named):
    (named * named).sum().backward()
    assert named.grad.tolist() == [2.0, 4.0]


def test_plain_tensors_and_subclasses_without_handler_pass_as_before(named):
    Named.seen.clear()
    plain, parameter = torch.ones(2), torch.nn.Parameter(torch.ones(2))
    assert type(plain * parameter) is torch.Tensor
    assert Named.seen == []


def test_subclass_may_answer_itself():
    class Zero(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            return 0

    zero = torch.ones(2)
    zero.__class__ = Zero
    assert zero + 1 == 0
    assert torch.exp(zero) == 0


def test_subclass_takes_calls_of_custom_operators(named):
    """C-11."""

    @torch.library.custom_op("dispatch_tests::negative", mutates_args=())
    def negative(x: torch.Tensor) -> torch.Tensor:
        return -x.detach()

    with torch.no_grad():
        assert type(negative(named)) is Named
    assert Named.seen[0][0] == "negative.default"


class Declines(TorchFunctionMode):
    """A mode that has an answer to nothing."""

    def __torch_function__(self, func, types, args=(), kwargs=None):
        return NotImplemented


class Answers(torch.Tensor):
    """A class that answers everything."""

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return "answer"


DECLINED = {
    "declared": lambda x: torch.mean(x),
    "method": lambda x: x.sum(),
    "composed": lambda x: torch.nn.functional.relu(x),
    "sequence": lambda x: torch.stack([x]),
    "key": lambda x: x[0],
    "in place": lambda x: x.add_(1),
    "sign": lambda x: x + 1,
    "view": lambda x: x.view(2, 1),
    "several": lambda x: torch.split(x, 1),
}


@pytest.mark.parametrize("name", DECLINED)
def test_call_that_a_mode_declines_goes_to_classes_and_then_is_refused(name):
    """The object NotImplemented was the result."""
    x = torch.ones(2)
    answering = torch.ones(2).as_subclass(Answers)
    with Declines():
        assert DECLINED[name](answering) == "answer"
        with pytest.raises(TypeError):
            DECLINED[name](x)
    assert x.tolist() == [1, 1]


def test_factory_that_a_mode_declines_is_refused():
    with Declines(), pytest.raises(TypeError, match="Declines"):
        torch.zeros(2)
