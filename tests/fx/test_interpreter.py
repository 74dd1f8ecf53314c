"""Interpreters run graphs node by node; transformers make new ones."""

import pytest

import pullback as torch
from pullback import fx, nn

X = torch.tensor([1.0, -2.0])


def traced():
    model = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    return fx.symbolic_trace(model)


def test_interpreter_gives_what_the_module_does():
    module = traced()
    assert torch.equal(fx.Interpreter(module).run(X), module(X))


def test_values_are_dropped_after_their_last_use():
    sizes = []

    class Sizes(fx.Interpreter):
        def run_node(self, n):
            sizes.append(len(self.env))
            return super().run_node(n)

    module = fx.symbolic_trace(lambda x: x.sin().cos().tan())
    Sizes(module).run(X)
    assert max(sizes) == 1
    kept = fx.Interpreter(module, garbage_collect_values=False)
    kept.run(X)
    assert len(kept.env) == 5


def test_calls_may_be_replaced():
    class Negated(fx.Interpreter):
        def call_function(self, target, args, kwargs):
            return super().call_function(
                torch.neg if target is torch.relu else target, args, kwargs
            )

    module = fx.symbolic_trace(lambda x: torch.relu(x) + 1)
    assert Negated(module).run(X).tolist() == [0.0, 3.0]


def test_defaults_stars_and_missing_arguments():
    module = fx.symbolic_trace(lambda x, y=2, *rest: x * y + rest[0])
    assert fx.Interpreter(module).run(1, 2, 3) == 5
    with pytest.raises(RuntimeError, match="x"):
        fx.Interpreter(module).run()
    plain = fx.symbolic_trace(lambda x, y=2: x * y)
    assert fx.Interpreter(plain).run(3) == 6


def test_failing_node_is_named():
    module = fx.symbolic_trace(lambda x: torch.cat([x, x], dim=3))
    with pytest.raises(IndexError) as caught:
        fx.Interpreter(module).run(X)
    assert "cat" in caught.value.__notes__[0]


def test_boxed_run_empties_its_list():
    given = [X]
    assert fx.Interpreter(fx.symbolic_trace(lambda x: x + 1)).boxed_run(given).tolist() == [2, -1]
    assert given == []


def test_values_may_be_given_beforehand():
    module = fx.symbolic_trace(lambda x: x.sin() + 1)
    sin = next(n for n in module.graph.nodes if n.name == "sin")
    assert fx.Interpreter(module).run(None, initial_env={sin: 4}) == 5


def test_transformer_makes_a_new_module():
    class Doubled(fx.Transformer):
        def call_module(self, target, args, kwargs):
            return super().call_module(target, args, kwargs) * 2

    module = traced().eval()
    made = Doubled(module).transform()
    expected = torch.relu(module._modules["0"](X) * 2) * 2
    assert torch.equal(made(X), expected)
    assert not made.training
    assert type(made).__name__ == "Sequential"
