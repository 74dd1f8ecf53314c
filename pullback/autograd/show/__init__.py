"""Pictures of the backward graph, for people."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from pullback.autograd.answers.flow import gradient_norms
from pullback.autograd.answers.modules import ModuleNames, named_tensors, parameters_of
from pullback.autograd.answers.naming import names_in_program
from pullback.autograd.answers.unused import unused
from pullback.autograd.show.describe import describe, unreached
from pullback.autograd.show.page import Page
from pullback.core.graph import GradientEdge, internal_edge
from pullback.core.node import Node, node_and_number
from pullback.core.ports import ports
from pullback.core.tensor import Tensor
from pullback.core.view import edge_of
from pullback.transforms.batched import Batched

__all__ = ["Page", "names_in_program", "show"]


def show(
    *roots: Any,
    path: str | os.PathLike[str] | None = None,
    params: Mapping[str, Tensor] | Any = None,
    title: str | None = None,
    norms: bool = False,
    source: bool = False,
) -> Page:
    """The backward graph of tensors (or nodes, or edges) as a page that stands alone.

    Each node has its shapes, dtypes, saved bytes and the line of your program that made it; what
    repeats is folded. After a profiled backward, nodes have times too. Leaves are called as your
    variables are; `params` (a dict, pairs, or a module) names them otherwise. A module's parts are
    folds then, and parameters that the graph does not reach are shown apart, with the reason. With
    `norms` a pass is made over the graph, which is kept and adds to no `.grad`, and nodes show, and
    are coloured by, how large their gradients are. With `source` the page has a link to the pass as
    Python source, as `autograd.graph.source` writes it. In Jupyter the page shows itself; `path=`
    writes it, as HTML, SVG or DOT.

    >>> import pullback as torch
    >>> w = torch.ones(3, requires_grad=True)
    >>> page = torch.autograd.graph.show((w * 2).sum())
    >>> len(page), sorted(page.graph.counts)
    (3, ['leaf', 'operator'])
    >>> page.save("graph.svg")  # doctest: +SKIP
    """
    if not roots:
        raise TypeError("show() needs a tensor, e.g. show(loss).")
    edges = [_edge(root, index) for index, root in enumerate(roots)]
    params = parameters_of(params)
    names = names_in_program(edges)
    names |= {id(tensor): name for name, tensor in named_tensors(params)}
    shown = "backward graph" if title is None else title
    modules = ModuleNames(params)
    sizes = gradient_norms([root for root in roots if isinstance(root, Tensor)]) if norms else {}
    graph = describe(edges, names, modules, sizes)
    tensors = [root for root in roots if isinstance(root, Tensor)]
    if params is not None and len(tensors) == len(roots):
        unreached(graph, unused(tensors, params))
    text = ""
    if source:
        if len(tensors) != 1 or len(roots) != 1:
            raise TypeError("show(source=True) takes a single tensor, the loss.")
        text = ports.backward_source(tensors[0], None, "torch").text
    page = Page(graph, shown, "norm" if norms else "", text)
    if path is not None:
        page.save(path)
    return page


def _edge(root: Any, index: int) -> Any:
    while isinstance(root, Batched):  # inside vmap: the whole batch
        root = root.value
    if isinstance(root, Tensor):
        edge = edge_of(root)
        if node_and_number(edge)[0] is None:
            raise RuntimeError(
                f"show(): argument {index} does not require grad, so it has no graph. Compute it "
                "from tensors with requires_grad=True, outside no_grad()."
            )
        return edge
    if isinstance(root, Node):
        return root
    if isinstance(root, GradientEdge):
        return internal_edge(root)
    raise TypeError(
        f"show() takes tensors, nodes or edges; argument {index} is {type(root).__name__}."
    )
