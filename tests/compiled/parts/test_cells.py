"""Variables of closures around a break: read and written where the function has them."""

import pytest

import pullback as torch
from pullback import nn
from tests.compiled.closeness import close


@pytest.fixture
def parted(compiled):
    return lambda function: compiled(function, options={"never_slower": False})


def test_a_variable_that_is_read_behind_a_break_alone_may_change(parted):
    scale = 2.0

    def f(x):
        n = x.sum().item()
        return x * n * scale

    g = parted(f)
    x = torch.ones(3)
    for scale in (2.0, 5.0, 2.0, -1.0):
        close(g(x), x * 3 * scale)
    assert g.entries


def test_a_variable_that_is_written_behind_a_break_alone_is_written(parted):
    count = 0

    def f(x):
        nonlocal count
        n = x.sum().item()
        count += 1
        return x * n * count

    g = parted(f)
    x = torch.ones(3)
    for turn in range(1, 6):
        close(g(x), x * 3 * turn)
        assert count == turn
    assert g.entries


def test_a_variable_that_is_written_on_both_sides_of_a_break(parted):
    count, total = 0, None

    def f(x):
        nonlocal count, total
        count += 1
        n = x.sum().item()
        total = x if total is None else total + x * n
        count += 1
        return total * count

    g = parted(f)
    expected = None
    for turn in range(1, 6):
        x = torch.full((3,), float(turn))
        expected = x if expected is None else expected + x * float(x.sum())
        close(g(x), expected * 2 * turn)
        assert count == 2 * turn
        close(total, expected)


def test_a_variable_of_an_inner_function_stays_shared(parted):
    def f(x):
        calls = 0.0

        def inner(v):
            nonlocal calls
            calls += 1
            return v * calls

        y = inner(x)
        n = y.sum().item()
        return inner(y) + n, calls

    g = parted(f)
    for turn in (1.0, 2.0, 3.0):
        x = torch.full((3,), turn)
        found, calls = g(x)
        close(found, x * 2 + 3 * turn)
        assert calls == 2


def test_a_layer_that_is_met_behind_a_break_alone_runs_in_a_program(parted):
    layer = nn.Linear(3, 3)

    def f(x):
        n = x.sum().item()
        return layer(x) * float(layer(x).sum()) + n

    g = parted(f)
    x = torch.arange(6.0).reshape(2, 3)
    for _ in range(3):
        close(g(x), layer(x) * float(layer(x).sum()) + 15)
        with torch.no_grad():
            layer.weight.mul_(0.5)
    assert g.entries
    assert not g.reasons


def test_super_without_arguments_stands_behind_a_break(parted):
    class Base:
        factor = 1.0

        def scaled(self, x):
            return x * self.factor

    class Derived(Base):
        def scaled(self, x):
            n = x.sum().item()
            return super().scaled(x) * n

    one = Derived()
    g = parted(one.scaled)
    x = torch.ones(3)
    close(g(x), x * 3)
    Base.factor = 2.0
    close(g(x), x * 6)
    one.factor = 4.0
    close(g(x), x * 12)
    assert g.entries


def _endless():
    place = 0
    while True:
        yield float(place)
        place += 1


@pytest.mark.parametrize(
    "operation",
    [
        lambda x: x + _endless(),
        lambda x: _endless() * x,
        lambda x: x @ _endless(),
        lambda x: x.add(_endless()),
        lambda x: x[_endless()],
    ],
)
def test_a_generator_that_never_ends_is_not_walked_where_eager_refuses_it(compiled, operation):
    with pytest.raises((TypeError, IndexError)):
        operation(torch.ones(3))
    with pytest.raises((TypeError, IndexError)):
        compiled(operation)(torch.ones(3))


def test_names_of_pythons_own_that_a_function_has_to_itself_are_its_own(compiled):
    names = {"__builtins__": {**vars(__import__("builtins"))}}
    exec("def f(x):\n    return x * len((1, 2))", names)
    g = compiled(names["f"])
    x = torch.ones(3)
    close(g(x), x * 2)
    names["__builtins__"]["len"] = lambda _: 50
    close(g(x), x * 50)


@pytest.mark.parametrize("name", ["bare", "no_grad", "enable_grad", "set_grad_enabled"])
def test_functions_whose_grad_mode_a_decorator_sets_are_captured(compiled, name):
    decorate = {
        "bare": lambda f: torch.no_grad(f),
        "no_grad": lambda f: torch.no_grad()(f),
        "enable_grad": lambda f: torch.enable_grad()(f),
        "set_grad_enabled": lambda f: torch.set_grad_enabled(mode=False)(f),
    }[name]
    scale = [2.0]

    @decorate
    def inner(x):
        return x * scale[0]

    f = compiled(lambda x: inner(x) + x, fullgraph=True)
    for scale[0] in (2.0, 3.0):
        x = torch.ones(3, requires_grad=True)
        made = f(x)
        made.sum().backward()
        close(made.detach(), torch.full((3,), scale[0] + 1))
        close(x.grad, torch.full((3,), scale[0] + 1 if name == "enable_grad" else 1.0))
    assert f.entries
