"""Every field that a node of any operator keeps is part of the key of a captured pass (K-21)."""

import numpy as np
import pytest

import pullback as torch
from pullback.compiled.backward.graph import Graph, Unsupported
from pullback.compiled.backward.trail import trail_of
from pullback.core.view import edge_of
from pullback.testing.samples import SAMPLES, resolve, samples_for, tensors_in


class Another:
    """A value that no node has."""


def roots_of(name):
    """Root edges with gradients, of the first samples of an operator that record something."""
    function = resolve(torch, name)
    found = 0
    for sample in samples_for(name):
        try:
            made = sample.call(function)
        except Exception:
            continue  # what eager refuses is tested elsewhere
        outs = tensors_in(made if isinstance(made, tuple | list) else [made])
        roots = [
            (edge_of(one), torch.ones_like(one.detach()))
            for one in outs
            if one.requires_grad and one._node is not None and one.dtype.is_floating_point
        ]
        if roots:
            found += 1
            yield made, roots
        if found == 3:
            return


def walked(roots):
    try:
        return Graph(roots, None)
    except Unsupported:
        return None


def fields_of(node):
    plan = type(node).plan
    yield from ((name, Another()) for name in (*plan.options, *plan.derived))
    for name in (*(one.name for one in plan.inputs), *plan.outputs):
        value = getattr(node, f"s_{name}")
        if isinstance(value, torch.Tensor):
            yield name, torch.ones(7, 1, 2, 3, dtype=torch.int16)
        elif isinstance(value, np.ndarray):
            yield name, np.ones((7, 1, 2, 3), np.int16)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", sorted(SAMPLES))
def test_every_field_of_a_node_changes_the_key_and_ends_the_trail(name):
    for kept, roots in roots_of(name):
        graph = walked(roots)
        if graph is None:
            continue  # such passes are the engine's
        trail = trail_of(graph, roots, None)
        assert trail(roots, None) is not None
        for node in graph.nodes:
            for field, other in fields_of(node):
                slot = f"s_{field}"
                before = getattr(node, slot)
                setattr(node, slot, other)
                version = getattr(node, f"{slot}_v", None)
                try:
                    if isinstance(other, torch.Tensor):
                        setattr(node, f"{slot}_v", other._cell[0])
                    changed = walked(roots)
                    assert changed is None or changed.key != graph.key, (type(node), field)
                    assert trail(roots, None) is None, (type(node), field)
                finally:
                    setattr(node, slot, before)
                    if isinstance(other, torch.Tensor):
                        setattr(node, f"{slot}_v", version)
        assert walked(roots).key == graph.key
        del kept
