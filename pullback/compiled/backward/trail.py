"""A walk over a graph that was walked before, as a fast path: is this one like it?

The first walk (`graph.py`) finds the nodes by their order and builds a key, at two microseconds and
a half a node, more than the engine takes to run one. The function written here goes the same way
again by name, comparing as it goes; where something differs it answers None, and the first walk is
taken. It keeps no node and no tensor alive.
"""

from __future__ import annotations

from typing import Any

import numpy

from pullback.compiled.backward.graph import Graph, geometry_of, hooks_at, hooks_of
from pullback.core.node import LEAF_SEQ, OUTPUT_SEQ, AccumulateGrad
from pullback.core.tensor import Tensor
from pullback.core.writer import define_once

__all__ = ["Found", "trail_of"]


class Found:
    """What a trail leads to: the parts of a `Graph` that a run needs."""

    __slots__ = ("_forget", "arrays", "leaves", "nodes")

    def __init__(self, arrays: list[Any], leaves: list[Any], nodes: Any, forget: Any) -> None:
        self.arrays, self.leaves, self.nodes, self._forget = arrays, leaves, nodes, forget

    def release(self, freed: Any) -> None:
        """Have the nodes let go of what they kept."""
        self._forget(self.nodes, freed)


def trail_of(graph: Graph, roots: list[Any], wanted: list[Any] | None) -> Any:
    """A function of roots and wanted edges that gives a `Found`, or None where they differ."""
    return _Writer(graph).function(roots, wanted)


def _hooked(name: str) -> str:
    """The condition that a node has hooks; some have only what anomaly mode keeps."""
    return f"{name}._cold is not None and {name}._cold.has_hooks"


class _Writer:
    """Writes one trail."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.lines: list[str] = []
        self.forget: list[str] = []
        self.scope: dict[str, Any] = {"Found": Found, "Tensor": Tensor, "ndarray": numpy.ndarray,
                                      "Accumulate": AccumulateGrad, "hooks_of": hooks_of,
                                      "hooks_at": hooks_at}  # fmt: skip
        self.objects: dict[int, str] = {}  # id of a node, leaf or output -> its name
        self.arrays: dict[int, str] = {}
        self.constants: dict[Any, str] = {}

    def function(self, roots: list[Any], wanted: list[Any] | None) -> Any:
        """The function, compiled."""
        self.check(f"len(roots) != {len(roots)}")
        for number, (edge, g) in enumerate(roots):
            self.lines.append(f"    e, g = roots[{number}]")
            self._edge("e", edge)
            self.lines.append("    v = g._array")
            self._array("v", g._array)
        place = {id(node): number for number, node in enumerate(self.graph.nodes)}
        waiting = {id(edge) for edge, _ in roots}
        for number, node in enumerate(self.graph.nodes):
            self._node(node)
            following = self.graph.nodes[number + 1 : number + 2]
            if following and id(following[0]) in waiting:  # which is newer decides the order
                a, b = self.objects[id(node)], self.objects[id(following[0])]
                self.check(f"{a}._seq >= {b}._seq")
            for edge in node._edges:
                node_of = getattr(edge, "node", edge)
                if id(node_of) in place:
                    waiting.add(id(node_of))
        self._wanted(wanted)
        self._geometries()
        arrays = ", ".join(self.arrays.values())
        leaves = ", ".join(self.objects[id(one)] for one in self.graph.leaves)
        nodes = "".join(f"{self.objects[id(one)]}, " for one in self.graph.nodes)
        lines = ["def trail(roots, wanted):", *self.lines,
                 f"    return Found([{arrays}], [{leaves}], ({nodes}), forget)",
                 "def forget(nodes, freed):", f"    {nodes} = nodes" if nodes else "    pass",
                 *self.forget]  # fmt: skip
        return define_once("\n".join(lines), self.scope, "trail", "trail")

    def check(self, differs: str) -> None:
        """Leave where a condition holds."""
        self.lines.append(f"    if {differs}: return None")

    def constant(self, value: Any) -> str:
        """A name for a value of the first graph."""
        key = (type(value), repr(value) if isinstance(value, float) else value)
        known = self.constants.get(key)
        if known is None:
            known = self.constants[key] = f"c{len(self.constants)}"
            self.scope[known] = value
        return known

    # Edges ------------------------------------------------------------------------------------

    def _edge(self, text: str, edge: Any) -> None:
        """Compare an edge, and name where it leads if that is new."""
        if edge is None:
            self.check(f"{text} is not None")
        elif edge._seq > OUTPUT_SEQ:
            self.check(f"{text} is None or {text}._seq <= {OUTPUT_SEQ}")
        elif id(edge) in self.objects:
            self.check(f"{text} is not {self.objects[id(edge)]}")
        elif edge._seq == OUTPUT_SEQ:
            name = self._named(edge, text, "o")
            self.check(f"{name}.__class__ is not {self.constant(type(edge))} or "
                       f"{name}.nr != {edge.nr}")  # fmt: skip
            self._edge(f"{name}.node", edge.node)
        elif edge._seq == LEAF_SEQ:
            name = self._named(edge, text, "l")
            fits = self._fitted_otherwise(name, edge)
            if id(edge) in self.graph.stops:
                hooks = self.constant(self.graph.stops[id(edge)])
                self.check(f"{name}.__class__ is not Accumulate or {fits} or "
                           f"hooks_at({name}) != {hooks}")  # fmt: skip
                return
            self.check(f"{name}.__class__ is not Accumulate or {_hooked(name)} or {fits}")
            self.lines.append(f"    v = {name}.variable")
            self.check("v._post_accumulate_grad_hooks or v._leaf_hooks")
        else:
            name = self._named(edge, text, "n")
            cls = self.constant(type(edge))
            others = _hooked(name)
            if id(edge) in self.graph.stops:
                others = f"hooks_of({name}._cold) != {self.constant(self.graph.stops[id(edge)])}"
            self.check(f"{name}.__class__ is not {cls} or {others} or "
                       f"{self._fitted_otherwise(name, edge)}")  # fmt: skip

    def _fitted_otherwise(self, name: str, node: Any) -> str:
        """The condition that a node takes gradients of another shape or dtype than this one."""
        if node._g_sizes is not None:
            return f"tuple({name}._g_sizes) != {self.constant(geometry_of(node))}"
        shape, dtype = geometry_of(node)
        return f"{name}._g_shape != {shape!r} or {name}._g_dtype is not {self.constant(dtype)}"

    def _named(self, one: Any, text: str, letter: str) -> str:
        name = self.objects[id(one)] = f"{letter}{len(self.objects)}"
        self.lines.append(f"    {name} = {text}")
        return name

    # Nodes ------------------------------------------------------------------------------------

    def _node(self, node: Any) -> None:
        name = self.objects[id(node)]
        edges = node._edges
        is_stop = id(node) in self.graph.stops
        if len(edges) == 1 and not is_stop:
            self.lines.append(f"    e, = {name}._edges")
            self._edge("e", edges[0])
        else:
            self.lines.append(f"    e = {name}._edges")
            if is_stop:  # a Function takes as many arguments as it likes
                self.check(f"len(e) != {len(edges)}")
            for number, edge in enumerate(edges):
                self._edge(f"e[{number}]", edge)
        if is_stop:
            return  # it runs on what it finds
        plan = type(node).plan
        for param in plan.inputs:
            slot = f"{name}.s_{param.name}"
            self.lines.append(f"    v = {slot}")
            self._kept("v", getattr(node, f"s_{param.name}"), f"{slot}_v")
            self.forget += [f"    {slot} = freed", f"    {slot}_v = 0"]
        for output in plan.outputs:
            slot = f"{name}.s_{output}"
            value = getattr(node, f"s_{output}")
            self.lines.append(f"    v = {slot}")
            if value is None:
                self.check("v is not None")
            else:
                self.check(f"v is None or {slot}_c[0] != {slot}_v")
                self._array("v", value)
            self.forget.append(f"    {slot} = freed")
        for option in (*plan.options, *plan.derived):
            value = getattr(node, f"s_{option}")
            slot = f"{name}.s_{option}"
            kind = self.constant(type(value))
            self.check(f"{slot} != {self.constant(value)} or {slot}.__class__ is not {kind}")

    def _kept(self, text: str, value: Any, version: str) -> None:
        if isinstance(value, Tensor):
            kind = self.constant(type(value))
            self.check(f"{text}.__class__ is not {kind} or {text}._cell[0] != {version}")
            self.lines.append(f"    a = {text}._array")
            self._array("a", value._array)
        elif isinstance(value, tuple):
            self.check(f"{text}.__class__ is not tuple or len({text}) != {len(value)}")
            listed = f"t{len(self.lines)}"
            self.lines.append(f"    {listed} = {text}")
            for number, one in enumerate(value):
                self.lines.append(f"    v = {listed}[{number}]")
                self._kept("v", one, f"{version}[{number}]")
        elif value is None:
            self.check(f"{text} is not None")
        else:
            kind = self.constant(type(value))
            self.check(f"{text}.__class__ is not {kind} or {text} != {self.constant(value)}")

    def _array(self, text: str, array: Any) -> None:
        """Compare an array by identity with those seen; its geometry is compared at the end."""
        known = self.arrays.get(id(array))
        if known is not None:
            self.check(f"{text} is not {known}")
            return
        name = self.arrays[id(array)] = f"a{len(self.arrays)}"
        self.lines.append(f"    {name} = {text}")

    def _geometries(self) -> None:
        """Each array as it was; and no two the same where there were two."""
        names = list(self.arrays.values())
        for name, array in zip(names, self.graph.arrays, strict=True):
            self.check(f"{name}.__class__ is not ndarray or {name}.shape != {array.shape!r} or "
                       f"{name}.strides != {array.strides!r} or "
                       f"{name}.dtype is not {self.constant(array.dtype)}")  # fmt: skip
        if len(names) > 1:
            listed = ", ".join(f"id({name})" for name in names)
            self.check(f"len({{{listed}}}) != {len(names)}")
        objects = [name for name in self.objects.values() if name[0] in "nl"]
        listed = ", ".join(f"id({name})" for name in objects)
        self.check(f"len({{{listed}}}) != {len(objects)}")

    def _wanted(self, wanted: list[Any] | None) -> None:
        if wanted is None:
            self.check("wanted is not None")
            return
        self.check(f"wanted is None or len(wanted) != {len(wanted)}")
        for number, edge in enumerate(wanted):
            is_output = edge._seq == OUTPUT_SEQ
            node = edge.node if is_output else edge
            text = f"wanted[{number}]" + (".node" if is_output else "")
            name = self.objects.get(id(node))
            if is_output:
                self.check(
                    f"wanted[{number}]._seq != {OUTPUT_SEQ} or wanted[{number}].nr != {edge.nr}"
                )
            if name is None:
                # One that the pass does not reach: it must be none of those that it does.
                others = ", ".join(self.objects.values())
                self.check(f"any({text} is one for one in ({others},))")
            else:
                self.check(f"{text} is not {name}")
