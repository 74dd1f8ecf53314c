"""Still pictures of the graph: SVG, and DOT for Graphviz and its relatives."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from typing import Any

from pullback.autograd.show.describe import Described, Graph
from pullback.autograd.show.groups import Group
from pullback.autograd.show.layered import Layers

# As in page.css, light.
COLOURS = {
    "operator": "#64748b",
    "view": "#0e8f8f",
    "in-place": "#c2410c",
    "function": "#7c3aed",
    "leaf": "#15803d",
    "parameter": "#1d62d1",
    "unreached": "#be123c",
    "fold": "#5c6675",
}
_LETTER = 8.7  # width of a letter of the first line, on average; a file cannot measure
_SMALL = 6.4


@dataclass(slots=True)
class Box:
    """What a picture shows as one."""

    lines: list[str]
    kind: str
    root: bool = False


def boxes_and_edges(
    graph: Graph, whole: Group, *, expand: bool
) -> tuple[list[Box], dict[tuple[int, int], int]]:
    """The boxes of a picture, and how many edges lead from each to each other."""
    boxes: list[Box] = []
    holder: dict[int, int] = {}
    for item in _shown(graph, whole, expand=expand):
        if isinstance(item, Group):
            inside = list(item.nodes())
            saved = sum(graph.nodes[i].bytes for i in inside)
            facts = f"{len(inside)} nodes" + (f" · {size_text(saved)} saved" if saved else "")
            lines = [item.label, item.detail, facts]
            boxes.append(Box([line for line in lines if line], "fold"))
        else:
            inside = [item]
            node = graph.nodes[item]
            boxes.append(Box(_lines(node), node.kind, node.root))
        holder.update(dict.fromkeys(inside, len(boxes) - 1))
    edges: dict[tuple[int, int], int] = {}
    for index, node in enumerate(graph.nodes):
        for edge in node.edges:
            if edge is None:
                continue
            pair = holder[index], holder[edge[0]]
            if pair[0] != pair[1]:
                edges[pair] = edges.get(pair, 0) + 1
    return boxes, edges


def _shown(graph: Graph, whole: Group, *, expand: bool) -> Iterator[int | Group]:
    """All nodes; or, folded, as many as the page shows when it opens."""
    if expand or len(graph.nodes) <= 48:
        yield from range(len(graph.nodes))
        return
    level: list[int | Group] = [*whole.items, *whole.leaves]
    while True:
        opened: list[int | Group] = []
        for item in level:
            still = not isinstance(item, Group) or item.cut
            opened.extend([item] if still else [*item.items, *item.leaves])  # type: ignore[union-attr]  # a Group, if not still
        if len(opened) > 48 or len(opened) == len(level):
            break
        level = opened
    yield from level


def _lines(node: Described) -> list[str]:
    shape = str(node.outputs[0]) if node.outputs else ""
    if len(node.outputs) > 1:
        shape += f" + {len(node.outputs) - 1}"
    facts = [f"{size_text(node.bytes)} saved"] if node.bytes else []
    if node.time is not None:
        facts.append(time_text(node.time))
    lines = [node.label or node.name, shape, " · ".join(facts)]
    return [line for line in lines if line]


def size_text(count: int) -> str:
    """Bytes for people."""
    size = float(count)
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" or size >= 10 else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"


def time_text(nanoseconds: int) -> str:
    """Time for people."""
    if nanoseconds < 1000:
        return f"{nanoseconds} ns"
    if nanoseconds < 1_000_000:
        return f"{nanoseconds / 1000:.1f} µs"
    return f"{nanoseconds / 1_000_000:.2f} ms"


def svg(graph: Graph, whole: Group, *, expand: bool) -> str:
    """A picture that stands alone."""
    boxes, edges = boxes_and_edges(graph, whole, expand=expand)
    widths = [
        max(len(line) * (_SMALL if i else _LETTER) for i, line in enumerate(box.lines)) + 26
        for box in boxes
    ]
    heights = [12 + 15 * len(box.lines) for box in boxes]
    layers = Layers(widths, heights, list(edges))
    width, height = layers.size
    body = [_path(layers.points(edge), many=count > 1) for edge, count in edges.items()]
    body += [
        _box(box, layers.x[i] - widths[i] / 2, layers.y[i] - heights[i] / 2, widths[i], heights[i])
        for i, box in enumerate(boxes)
    ]
    kinds = dict.fromkeys(box.kind for box in boxes)
    top = height + 26
    for index, kind in enumerate(kind for kind in COLOURS if kind in kinds):
        x = 90 * index
        body.append(
            f'<rect x="{x}" y="{top}" width="11" height="11" rx="3" fill="{COLOURS[kind]}"/>'
            f'<text x="{x + 16}" y="{top + 10}" class="small">{kind}</text>'
        )
    width, height = max(width, 90 * len(kinds)) + 24, top + 30
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
            f'viewBox="-12 -12 {width:.0f} {height:.0f}" role="img">',
            _STYLE,
            *body,
            "</svg>\n",
        ]
    )


_STYLE = """<style>
svg { background: #fbfbfd; }
text { font: 600 12.5px system-ui, "Segoe UI", Roboto, "Liberation Sans", sans-serif; }
text { fill: #1c2430; }
text.small { font-weight: 400; font-size: 11px; fill: #5c6675; }
.edge { fill: none; stroke: #9aa5b4; stroke-width: 1.3; }
.box { fill: #ffffff; }
.fold { fill: #eef1f6; stroke-dasharray: 5 4; }
</style>
<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7"
orient="auto"><path d="M0 .8 7.5 4 0 7.2z" fill="#9aa5b4"/></marker></defs>"""


def _path(points: list[tuple[float, float]], *, many: bool) -> str:
    (x, y), *rest = points
    text = f"M{x:.1f} {y:.1f}"
    for nx, ny in rest:
        # Leaves and arrives straight down.
        middle = (y + ny) / 2
        text += f"C{x:.1f} {middle:.1f} {nx:.1f} {middle:.1f} {nx:.1f} {ny:.1f}"
        x, y = nx, ny
    wide = ' stroke-width="2.2"' if many else ""
    return f'<path class="edge" d="{text}" marker-end="url(#tip)"{wide}/>'


def _box(box: Box, x: float, y: float, width: float, height: float) -> str:
    colour = COLOURS[box.kind]
    fold = box.kind == "fold"
    parts = [
        f'<g transform="translate({x:.1f} {y:.1f})"><rect class="{"fold" if fold else "box"}" '
        f'width="{width:.1f}" height="{height:.1f}" rx="7" stroke="{colour}" '
        f'stroke-width="{2.6 if box.root else 1.2}"/>'
    ]
    if not fold:
        side = height - 12
        parts.append(f'<rect y="6" width="5" height="{side:.1f}" rx="2" fill="{colour}"/>')
    for index, line in enumerate(box.lines):
        small = ' class="small"' if index else ""
        parts.append(f'<text x="14" y="{18 + 15 * index}"{small}>{escape(line)}</text>')
    return "".join([*parts, "</g>"])


def dot(graph: Graph, whole: Group, *, expand: bool) -> str:
    """The text of a Graphviz file."""
    boxes, edges = boxes_and_edges(graph, whole, expand=expand)
    lines = [
        "digraph backward {",
        '  node [shape=box, style="rounded,filled", fillcolor=white, fontname="sans-serif"];',
        '  edge [color="#9aa5b4"];',
    ]
    for index, box in enumerate(boxes):
        options: dict[str, Any] = {"label": "\n".join(box.lines), "color": COLOURS[box.kind]}
        if box.root:
            options["penwidth"] = "2.6"
        shown = ", ".join(f"{name}={_quoted(value)}" for name, value in options.items())
        lines.append(f"  n{index} [{shown}];")
    for (a, b), count in edges.items():
        more = f' [label="{count}"]' if count > 1 else ""
        lines.append(f"  n{a} -> n{b}{more};")
    return "\n".join([*lines, "}", ""])


def _quoted(text: str) -> str:
    plain = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{plain}"'
