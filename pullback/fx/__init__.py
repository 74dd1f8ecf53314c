"""Compiler: `torch.fx`, programs as graphs that can be looked at, changed, and run again.

>>> import pullback as torch
>>> from pullback import fx
>>> traced = fx.symbolic_trace(lambda x: torch.relu(x) * 2)
>>> [node.name for node in traced.graph.nodes]
['x', 'relu', 'mul', 'output']
"""

from __future__ import annotations

from pullback.core.explain.absent import refuse_others as _refuse_others
from pullback.core.listing import only_public as _only_public
from pullback.fx import (
    config,
    experimental,
    graph,
    graph_module,
    immutable_collections,
    interpreter,
    node,
    operator_schemas,
    passes,
    proxy,
    subgraph_rewriter,
    traceback,
)
from pullback.fx._symbolic_trace import PH, ProxyableClassMeta, Tracer, symbolic_trace, wrap
from pullback.fx.graph import CodeGen, Graph
from pullback.fx.graph_module import GraphModule
from pullback.fx.interpreter import Interpreter, Transformer
from pullback.fx.node import Node, has_side_effect, map_arg
from pullback.fx.proxy import Proxy
from pullback.fx.subgraph_rewriter import replace_pattern

__all__ = [
    "PH",
    "CodeGen",
    "Graph",
    "GraphModule",
    "Interpreter",
    "Node",
    "Proxy",
    "ProxyableClassMeta",
    "Tracer",
    "Transformer",
    "config",
    "experimental",
    "graph",
    "graph_module",
    "has_side_effect",
    "immutable_collections",
    "interpreter",
    "map_arg",
    "node",
    "operator_schemas",
    "passes",
    "proxy",
    "replace_pattern",
    "subgraph_rewriter",
    "symbolic_trace",
    "traceback",
    "wrap",
]

_refuse_others(globals())

__dir__ = _only_public(globals())
