"""The plain pass: arrays only, leaves are served at the end because nobody watches the order.

Its loop is written in `loop.py`. `ordered.py` is the pass for everything else; the tests run the
same programs through both.
"""

from __future__ import annotations

from collections.abc import Callable
from sys import getrefcount
from typing import Any

from pullback.core.node import AccumulateGrad
from pullback.core.saved import Freed
from pullback.engine import node_observers
from pullback.engine.accumulate import accumulate
from pullback.engine.filter import Filter
from pullback.engine.inbox import Inbox, Store
from pullback.engine.loop import loop_over
from pullback.engine.ownership import is_sole_reference


def run(
    roots: list[tuple[Any, Any]],
    inbox: Inbox,
    *,
    keep_graph: bool,
    freed: Freed,
    chosen: Filter | None = None,
    loop: Any = None,
) -> dict[tuple[Any, int], Any]:
    """Take the gradients of the roots to the leaves, or to what `chosen` asks for."""
    captured: dict[tuple[Any, int], Any] = {}
    # One root, as most passes have, need not wait for its turn.
    alone = len(roots) == 1 and roots[0][0]._seq < 0 and loop is None
    if not alone:
        for edge, g in roots:
            inbox.put_root(edge, g._array, chosen)
    try:
        if alone:
            edge, g = roots[0]
            if chosen is None or edge in chosen.reached:
                loop_over("arrays")(inbox, keep_graph, freed, chosen, captured, edge, g._array)
        elif inbox.heap:
            if loop is None or node_observers.observer is not None:
                loop = loop_over("arrays")
            loop(inbox, keep_graph, freed, chosen, captured)
        finish(inbox, chosen, captured, accumulate, is_sole_reference)
    except BaseException:
        inbox.keep_complete_leaves(chosen, accumulate)
        inbox.clear()  # a kept traceback must not keep gradients
        raise
    return captured


def finish(
    inbox: Inbox,
    chosen: Filter | None,
    captured: dict[tuple[Any, int], Any],
    store: Store,
    is_sole: Callable[[Any, int], bool],
) -> None:
    """Hand the leaves what arrived for them; `is_sole` tells whether nobody else holds it."""
    if node_observers.observer is not None:
        store = _announced(store)
    for leaf in list(inbox.leaves):
        total = inbox.leaves.pop(leaf)
        if chosen is not None and leaf in chosen.captures:
            captured[leaf, 0] = total
        else:
            references = getrefcount(total)  # a statement of its own: a call would hold it too
            owned = leaf in inbox.owned or is_sole(total, references)
            store(leaf, total, owned=owned)


def _announced(store: Store) -> Store:
    """Store what arrived at a leaf while somebody looks on."""

    def stored(leaf: AccumulateGrad, total: Any, /, *, owned: bool) -> None:
        turn = node_observers.Turn(leaf)
        try:
            store(leaf, total, owned=owned)
            turn.ran(total, ())
        finally:
            turn.finish()

    return stored
