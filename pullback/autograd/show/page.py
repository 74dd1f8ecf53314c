"""The page that `show` returns: HTML that needs no network, and files made from it."""

from __future__ import annotations

import os
from base64 import b64encode
from html import escape
from importlib import resources
from math import isfinite
from typing import Any

from pullback.autograd.show import picture
from pullback.autograd.show.describe import Described, Graph
from pullback.autograd.show.framed import Framed, in_script
from pullback.autograd.show.groups import Group, grouped

__all__ = ["Page"]


class Page(Framed):
    """A picture of a backward graph: shown by Jupyter, saved by `save`, opened by `open`."""

    def __init__(self, graph: Graph, title: str, colour: str = "", source: str = "") -> None:
        self.graph = graph
        self.title = title
        self.colour = colour  # what nodes are coloured by at first: "norm", or nothing
        self.source = source  # the pass as text, for the link
        self._whole: Group | None = None

    @property
    def groups(self) -> Group:
        """What repeats, found when first needed."""
        if self._whole is None:
            self._whole = grouped(self.graph)
        return self._whole

    def __len__(self) -> int:
        return len(self.graph.nodes)

    def __repr__(self) -> str:
        counts = ", ".join(f"{number} {kind}" for kind, number in self.graph.counts.items())
        return (
            f"<{self.title}: {len(self)} nodes ({counts}); .open() shows it in a browser, "
            '.save("graph.html") writes it (or .svg, .dot)>'
        )

    def html(self, theme: str | None = None) -> str:
        """The whole page; `theme` is "light" or "dark", else the reader's own."""
        if theme not in (None, "light", "dark"):
            raise ValueError(f'theme must be "light", "dark" or None, got {theme!r}.')
        # dist/dagre.min.js of @dagrejs/dagre 3.1.1, without the line that names its source map. It
        # has control characters in its strings, which HTML does not allow.
        layout = _data("dagre.min.js").replace("\x01", "\\x01")
        parts = {
            "TITLE": escape(self.title),
            "STYLE": _data("page.css"),
            "LAYOUT": f"/*\n{_data('dagre.LICENSE.txt')}*/\n{layout}",
            "DATA": self._json(theme),
            "SCRIPT": _script(),
            "SOURCE": self._link(),
        }
        # One walk over the template, so that no part is searched for the marks of another.
        pieces = _data("page.html").split("%")
        return "".join(parts.get(piece, piece) for piece in pieces)

    def _link(self) -> str:
        """The link to the source of the pass, which the page holds itself."""
        if not self.source:
            return ""
        text = b64encode(self.source.encode()).decode()
        return (
            '<a id="source" download="backward.py" title="The backward pass as source" '
            f'href="data:text/x-python;base64,{text}">Source</a>'
        )

    def svg(self, expand: bool = False) -> str:
        """A still picture; folds stay closed unless `expand`."""
        return picture.svg(self.graph, self.groups, expand=expand)

    def dot(self, expand: bool = False) -> str:
        """The graph in Graphviz's language."""
        return picture.dot(self.graph, self.groups, expand=expand)

    def save(self, path: str | os.PathLike[str], **options: Any) -> str:
        """Write a file; what it is follows from its name: .html, .svg, .dot or .gv."""
        name = os.fspath(path)
        writers: dict[str, Any] = {
            ".html": self.html,
            ".htm": self.html,
            ".svg": self.svg,
            ".dot": self.dot,
            ".gv": self.dot,
        }
        ending = os.path.splitext(name)[1].lower()
        if ending not in writers:
            known = ", ".join(writers)
            raise ValueError(f"show: a file called {name!r} cannot be written; use {known}.")
        with open(name, "w", encoding="utf-8") as file:
            file.write(writers[ending](**options))
        return name

    def _json(self, theme: str | None) -> str:
        nodes = self.graph.nodes
        places: dict[Any, int] = {}
        times = [node.time for node in nodes if node.time is not None]
        about = {
            "nodes": [_row(node, places) for node in nodes],
            "tree": _tree(self.groups),
            "counts": self.graph.counts,
            "saved": sum(node.bytes for node in nodes),
            "profiled": bool(times),
            "time": sum(times),
            "theme": theme,
            "modules": self.graph.modules,
            "colour": self.colour,
        }
        about["places"] = [[place.file, place.line, place.function, place.text] for place in places]
        return in_script(about)


def _row(node: Described, places: dict[Any, int]) -> dict[str, Any]:
    def value(one: Any) -> list[Any]:
        return [one.name, one.shape, one.dtype, one.bytes]

    return {
        "name": node.name,
        "kind": node.kind,
        "label": node.label,
        "sequence": node.sequence,
        "outputs": [value(one) for one in node.outputs],
        "saved": [value(one) for one in node.saved],
        "bytes": node.bytes,
        "freed": node.freed,
        "edges": node.edges,
        "place": -1 if node.place is None else places.setdefault(node.place, len(places)),
        "expression": node.expression,
        "hooks": node.hooks,
        "time": node.time,
        "memory": node.memory,
        "root": node.root,
        "steps": node.steps,
        "module": node.module,
        "norm": node.norm if node.norm is None or isfinite(node.norm) else str(node.norm),
        "why": node.why,
    }


def _tree(group: Group) -> list[Any]:
    # From the loss on: the last of the forward first.
    items = [_tree(item) if isinstance(item, Group) else item for item in reversed(group.items)]
    return [group.label, group.detail, [*items, *group.leaves], group.cut]


def _script() -> str:
    """The parts of the page's own script, in one function: they share names, the page has none."""
    parts = "\n".join(
        _data(f"{name}.js")
        for name in ("tree", "quick", "columns", "layout", "draw", "heat", "act")
    )
    return f'"use strict";\n(() => {{\n{parts}}})();'


def _data(name: str) -> str:
    folder = resources.files("pullback.autograd.show") / "data"
    return (folder / name).read_text(encoding="utf-8")
