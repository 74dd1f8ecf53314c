"""Patterns are found and replaced, also where matches follow one another."""

import pullback as torch
from pullback import fx, nn
from pullback.fx.subgraph_rewriter import replace_pattern_with_filters

X = torch.tensor([1.0, -2.0])


def test_matches_that_follow_one_another_are_all_replaced():
    traced = fx.symbolic_trace(lambda x: torch.relu(torch.relu(x) + 1))
    found = fx.replace_pattern(traced, lambda x: torch.relu(x), lambda x: torch.neg(x))
    assert len(found) == 2
    assert torch.equal(traced(X), -(-X + 1))


def test_pattern_with_two_inputs_and_literals():
    traced = fx.symbolic_trace(lambda x, y: (x + y * 2).sum() + (x + y * 3).sum())
    found = fx.replace_pattern(
        traced, lambda a, b: a + b * 2, lambda a, b: torch.add(a, b, alpha=2)
    )
    assert len(found) == 1
    assert traced(X, X).item() == (3 * X).sum().item() + (4 * X).sum().item()


def test_value_used_outside_of_a_match_is_kept():
    def program(x):
        y = torch.sin(x)
        return torch.cos(y) + y

    traced = fx.symbolic_trace(program)
    assert not fx.replace_pattern(traced, lambda x: torch.cos(torch.sin(x)), lambda x: x)
    assert torch.equal(traced(X), program(X))


def test_several_results_are_replaced():
    def program(x):
        a, b = torch.sin(x), torch.cos(x)
        return a * b

    traced = fx.symbolic_trace(program)
    fx.replace_pattern(
        traced, lambda x: (torch.sin(x), torch.cos(x)), lambda x: (torch.cos(x), torch.exp(x))
    )
    assert torch.equal(traced(X), torch.cos(X) * torch.exp(X))


def test_modules_come_along_with_a_replacement():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Tanh()

        def forward(self, x):
            return self.layer(x)

    traced = fx.symbolic_trace(lambda x: torch.relu(x))
    fx.replace_pattern(traced, lambda x: torch.relu(x), fx.symbolic_trace(Net()))
    assert torch.equal(traced(X), torch.tanh(X))


def test_filters_decide():
    traced = fx.symbolic_trace(lambda x: torch.relu(torch.relu(x)))
    found = replace_pattern_with_filters(
        traced,
        lambda x: torch.relu(x),
        lambda x: torch.neg(x),
        [
            lambda match, graph, pattern: any(
                n.op == "placeholder" for n in match.nodes_map.values()
            )
        ],
    )
    assert [node.name for node in found[0].replacements] == ["neg"]
    assert torch.equal(traced(X), torch.relu(-X))
