"""Drawings of graphs: not there, see `pullback graph` for drawings of autograd's."""

from __future__ import annotations

from typing import Any

from pullback.core.listing import only_public as _only_public

__all__ = ["FxGraphDrawer"]


class FxGraphDrawer:
    """Not there: it needs pydot and Graphviz."""

    def __init__(self, graph_module: Any, name: str, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(
            "FxGraphDrawer is not supported; print(module.graph) and module.print_readable() show "
            "the graph as text."
        )


__dir__ = _only_public(globals())
