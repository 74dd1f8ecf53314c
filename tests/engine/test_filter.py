"""Which nodes a pass with inputs runs."""

import random

import pytest

import pullback as torch
from pullback.core.node import AccumulateGrad, Output
from pullback.engine import filter as filtering
from pullback.engine.arguments import input_edges, root_edge


def program(seed):
    """A random graph over three leaves: its roots and the leaves."""
    draw = random.Random(seed)
    leaves = [torch.ones(2, requires_grad=True) for _ in range(3)]
    values = list(leaves)
    for _ in range(12):
        a, b = draw.choice(values), draw.choice(values)
        kind = draw.randrange(5)
        if kind == 0:
            values.append(a * b)
        elif kind == 1:
            values.append(a + 1.0)
        elif kind == 2:
            values += torch.stack([a, b]).unbind()
        elif kind == 3:  # of three edges, and any of them may lead to what is asked
            values.append(torch.addcmul(a, b, draw.choice(values)))
        else:
            values.append(a.detach() * b)
    return draw.sample(values[3:], 2), leaves


def slowly(edges, asked):
    """Which nodes lead to an asked leaf, by walking from each of them."""
    found, seen = {}, {}

    def leads(edge):
        node = edge.node if isinstance(edge, Output) else edge
        if node is None or isinstance(node, AccumulateGrad):
            return node in asked
        if node not in seen:
            kept = tuple(one if leads(one) else None for one in node._edges)
            seen[node] = any(one is not None for one in kept)
            if seen[node]:
                found[node] = kept
        return seen[node]

    for edge in edges:
        leads(edge)
    return found


@pytest.mark.parametrize("seed", range(20))
def test_what_leads_to_some_leaves_runs_and_nothing_else(seed):
    roots, leaves = program(seed)
    edges = [root_edge(root) for root in roots]
    for some in (leaves[:1], leaves[1:]):
        wanted = input_edges(some)
        assert filtering.Filter(edges, wanted, accumulates=False).edges == slowly(edges, wanted)


@pytest.mark.parametrize("seed", range(20))
def test_asking_for_all_leaves_prunes_as_asking_for_some_does(seed):
    roots, leaves = program(seed)
    edges = [root_edge(root) for root in roots]
    wanted = input_edges(leaves)
    short = filtering.Filter(edges, wanted, accumulates=False)
    nodes, seen, _, _ = filtering.reachable(edges, dict.fromkeys(wanted))
    whole = filtering.Filter(edges, wanted, accumulates=False, walk=(nodes, seen, True, True))
    assert (short.edges, short.reached) == (whole.edges, whole.reached)
