"""Programs of the engine's tests run through the plain pass and through the ordered one."""

import gc

import pytest

from pullback.core.explain import anomaly
from pullback.core.sequence import numbering
from pullback.engine import request as entry


@pytest.fixture(autouse=True)
def nobody_watches_the_order(monkeypatch):
    """What other files of tests keep alive decides which pass runs: leaves with hooks make it the
    ordered one, classes that answer below autograd one over tensors if a user's Function is met.
    """
    monkeypatch.setattr(entry, "answering", {})
    if entry.leaf_hooks:
        gc.collect()
    for one in list(entry.leaf_hooks.values()):  # kept alive by a module of tests
        if (leaf := one()) is not None:
            entry.leaf_hooks.pop(id(leaf), None)
    assert not anomaly.state.enabled
    numbering.changed = False


@pytest.fixture(params=["plain", "ordered"])
def both_passes(request, monkeypatch):
    monkeypatch.setattr(entry, "always_ordered", request.param == "ordered")
