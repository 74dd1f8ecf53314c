"""`torch.overrides`: who asks, who is asked, and helpers for functions of one's own."""

import contextlib
import gc
import inspect
import warnings

import pytest

import pullback as torch
from pullback import overrides


@pytest.fixture
def duck():
    """A class that overrides calls; functions ask while it lives, so it goes with the test."""

    class Duck:
        seen = None

        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            cls.seen = func, args, kwargs
            return -1

    yield Duck
    Duck.seen = None
    del Duck
    gc.collect()


def required(dummy):
    parameters = inspect.signature(dummy).parameters.values()
    return [p for p in parameters if p.default is p.empty and p.kind in (0, 1)]


def test_every_overridable_function_asks(duck):
    """Methods aside: their first argument is a tensor.

    The class is met first, whatever the order of the tables: makers of tensors ask only then.
    """
    assert torch.add(duck(), duck()) == -1
    silent = []
    for place, functions in overrides.get_overridable_functions().items():
        for function in functions if not isinstance(place, type | property) else ():
            needed = required(overrides.get_testing_overrides()[function])
            if needed:
                duck.seen = None
                answer = function(*[duck() for _ in needed])
                if answer != -1 or duck.seen is None:
                    silent.append(overrides.resolve_name(function))
    assert silent == []


def test_tables_name_functions_once_and_apart():
    functions = overrides.get_overridable_functions()
    assert torch.add in functions[torch]
    assert torch.nn.functional.linear in functions[torch.nn.functional]
    assert torch.Tensor.view in functions[torch.Tensor]
    assert len(functions[torch]) > 300
    ignored = overrides.get_ignored_functions()
    assert torch.is_grad_enabled in ignored
    assert torch.add not in ignored


def test_dummies_take_the_same_arguments():
    dummy = overrides.get_testing_overrides()[torch.nn.functional.relu]
    assert dummy(1, inplace=True) == -1
    with pytest.raises(TypeError):
        dummy()


def test_names_are_found():
    assert overrides.resolve_name(torch.add) == "torch.add"
    assert overrides.resolve_name(torch.nn.functional.relu) == "torch.nn.functional.relu"
    assert overrides.resolve_name(torch.linalg.norm) == "torch.linalg.norm"
    assert overrides.resolve_name(torch.ops.aten.add.Tensor) == "aten.add.Tensor"
    assert overrides.resolve_name(len) is None


def test_who_is_like_a_tensor(duck):
    assert overrides.is_tensor_like(duck())
    assert overrides.is_tensor_like(torch.ones(1))
    assert not overrides.is_tensor_like(3)
    assert overrides.has_torch_function_unary(duck())
    assert overrides.has_torch_function_variadic(1, duck())
    assert not overrides.has_torch_function_variadic(1, torch.ones(1))


def test_function_of_ones_own_asks(duck):
    @overrides.wrap_torch_function(lambda a, b=1: (a,))
    def own(a, b=1):
        return a + b

    assert own(1) == 2
    assert own(duck(), b=3) == -1
    assert duck.seen[0] is own
    assert duck.seen[2] == {"b": 3}


def test_modes_are_known_while_they_are_on():
    class Counting(overrides.BaseTorchFunctionMode):
        seen = 0

        def __torch_function__(self, func, types, args=(), kwargs=None):
            Counting.seen += 1
            return super().__torch_function__(func, types, args, kwargs)

    x = torch.ones(1)
    assert overrides._get_current_function_mode() is None
    with Counting() as mode:
        assert overrides._get_current_function_mode() is mode
        assert overrides._get_current_function_mode_stack() == [mode]
        added = torch.add(x, 1)
    assert (Counting.seen, added.item()) == (1, 2)


def test_mode_sees_what_the_user_passed():
    class Last(overrides.TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            self.last = func, args, kwargs
            return func(*args, **(kwargs or {}))

    x = torch.ones(2, 2)
    with Last() as mode:
        torch.sum(x, dim=0)
        assert mode.last == (torch.sum, (x,), {"dim": 0})
        x / 2
        assert mode.last == (torch.Tensor.div, (x, 2), {})
        torch.add(x, x, alpha=1)
        assert mode.last == (torch.add, (x, x), {"alpha": 1})


def test_properties_are_listed_and_ask():
    seen = []

    class Asked(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            seen.append(func)
            return super().__torch_function__(func, types, args, kwargs or {})

    x = torch.ones(2, 2).as_subclass(Asked)
    listed = [one for one in overrides.get_overridable_functions() if isinstance(one, property)]
    assert {torch.Tensor.grad, torch.Tensor.shape, torch.Tensor._version} <= set(listed)
    for one in listed:
        seen.clear()
        with warnings.catch_warnings(), contextlib.suppress(RuntimeError):
            warnings.simplefilter("ignore")  # `volatile` warns, `imag` is for complex numbers
            getattr(x, overrides.resolve_name(one.__get__).split(".")[-2])
        assert one.__get__ in seen, overrides.resolve_name(one.__get__)
        assert overrides.get_testing_overrides()[one.__get__](x) == -1


def test_makers_of_tensors_are_not_overridable():
    makers = {torch.tensor, torch.empty, torch.zeros, torch.arange, torch.Tensor.new_ones}
    assert makers <= overrides.get_ignored_functions()
    assert not makers & set(overrides.get_testing_overrides())


def test_methods_that_load_later_are_listed():
    methods = overrides.get_overridable_functions()[torch.Tensor]
    assert {torch.Tensor.to_dense, torch.Tensor.bernoulli_} <= set(methods)
