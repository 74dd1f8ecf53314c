"""Which nodes a pass with inputs runs."""

import random

import pytest

import pullback as torch
from pullback.engine import filter as filtering
from pullback.engine.arguments import input_edges, root_edge


def program(seed):
    """A random graph over three leaves: its roots and the leaves."""
    draw = random.Random(seed)
    leaves = [torch.ones(2, requires_grad=True) for _ in range(3)]
    values = list(leaves)
    for _ in range(12):
        a, b = draw.choice(values), draw.choice(values)
        kind = draw.randrange(4)
        if kind == 0:
            values.append(a * b)
        elif kind == 1:
            values.append(a + 1.0)
        elif kind == 2:
            values += torch.stack([a, b]).unbind()
        else:
            values.append(a.detach() * b)
    return draw.sample(values[3:], 2), leaves


@pytest.mark.parametrize("seed", range(20))
def test_asking_for_all_leaves_prunes_as_asking_for_some_does(seed, monkeypatch):
    roots, leaves = program(seed)
    edges = [root_edge(root) for root in roots]
    wanted = input_edges(leaves)
    short = filtering.Filter(edges, wanted, accumulates=False)
    walk = filtering._reachable
    monkeypatch.setattr(filtering, "_reachable", lambda roots: (*walk(roots)[:2], True))
    whole = filtering.Filter(edges, wanted, accumulates=False)
    assert (short.edges, short.reached) == (whole.edges, whole.reached)
