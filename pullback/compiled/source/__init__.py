"""A backward pass as source: a Python function in torch's words, with the user's lines.

`tracing.py` writes down the operators of the pass, `words.py` says those that torch does not have
with public ones, `simplify.py` makes the graph shorter and `text.py` writes it.
"""

from __future__ import annotations

import inspect
import keyword
import os
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pullback
from pullback.autograd.answers.naming import names_in_program
from pullback.autograd.graph.memory import saved_values
from pullback.compiled.capture.capture import capture
from pullback.compiled.capture.reasons import CannotCapture
from pullback.compiled.export.python import python_text
from pullback.compiled.source.simplify import simplify
from pullback.compiled.source.text import lines_of, literal
from pullback.compiled.source.tracing import trace
from pullback.core.node import AccumulateGrad, node_and_number, walk
from pullback.core.ports import ports
from pullback.core.tensor import Tensor
from pullback.core.trees.pytree import tree_flatten, tree_unflatten
from pullback.core.view import edge_of
from pullback.fx.graph import Graph
from pullback.fx.node import Node

__all__ = ["Source", "source_of_function", "source_of_graph"]

_FEW = 8  # elements of a tensor that is written as numbers


class Source:
    """A function as text: `print(source)`, `source.save("backward.py")`, `source()`.

    `arguments` are the tensors that it was written with, by the names of its parameters, and
    `results` the names of what it returns. The text needs torch or, with `target="numpy"`, NumPy;
    `load(module)` makes it a function on either of the two torches.
    """

    def __init__(
        self, text: str, name: str, arguments: dict[str, Tensor], results: list[str]
    ) -> None:
        self.text, self.name = text, name
        self.arguments, self.results = arguments, results

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return self.text

    def save(self, path: str | os.PathLike[str]) -> str:
        """Write the text to a file; its path."""
        Path(path).write_text(self.text, encoding="utf-8")
        return os.fspath(path)

    def load(self, torch: Any = None) -> Callable[..., Any]:
        """The function, with another module in the place of `torch`: pullback, if none is given."""
        scope: dict[str, Any] = {"torch": pullback if torch is None else torch}
        body = self.text.replace("import torch\n", "\n", 1)
        exec(compile(body, f"<{self.name}>", "exec"), scope)
        made: Callable[..., Any] = scope[self.name]
        return made

    def __call__(self) -> Any:
        """What the function gives for the tensors that it was written with."""
        if self.name == "program":
            return self.load()(*(one.detach().numpy() for one in self.arguments.values()))
        return self.load()(**self.arguments)


def source_of_graph(loss: Tensor, inputs: Any = None, target: str = "torch") -> Source:
    """What `autograd.graph.source` does."""
    _check_target(target)
    if not isinstance(loss, Tensor):
        raise TypeError(f"source() takes a tensor, e.g. source(loss); got {type(loss).__name__}.")
    if not loss.requires_grad:
        raise RuntimeError(
            "source(): the tensor does not require grad, so there is no backward pass to write."
        )
    nodes = list(walk(iter([node_and_number(edge_of(loss))[0]])))
    leaves = [node.variable for node in nodes if isinstance(node, AccumulateGrad)]
    given = isinstance(inputs, Tensor)
    wanted: list[Tensor] = leaves if inputs is None else [inputs] if given else list(inputs)
    if not wanted:
        raise ValueError("source(): there is no input to differentiate by.")
    saved = [one for node in nodes for one in _saved_tensors(node)]
    names = names_in_program(nodes, saved)
    seeds = [] if loss.numel() == 1 else [pullback.ones_like(loss).detach()]

    def backward(*grads: Tensor) -> Any:
        seed = (
            grads[0] if grads else pullback.ones(loss.shape, dtype=loss.dtype, device=loss.device)
        )
        return pullback.autograd.grad(loss, wanted, seed, retain_graph=True, allow_unused=True)

    held = [array for node in nodes for _, array, _ in saved_values(node)]
    known = _saved_names(nodes)
    known |= {id(one._array): _plain(names[id(one)]) for one in saved if id(one) in names}
    known |= {id(leaf._array): _plain(names.get(id(leaf), "leaf")) for leaf in leaves}
    results = [f"grad_{known.get(id(one._array), 'input')}" for one in wanted]
    by = ", ".join(one.removeprefix("grad_") for one in results)
    head = [
        f"Gradients of {_title(loss)} by {by}.",
        "",
        "Arguments that are no leaves are values that the graph keeps for backward.",
    ]
    return _Writing("backward", head, known, held).source(
        backward, seeds, ["grad"] * len(seeds), results, target
    )


def source_of_function(function: Callable[..., Any], args: Sequence[Any], target: str) -> Source:
    """What `func.source` does."""
    _check_target(target)
    if not callable(function):
        raise TypeError(f"func.source() takes a function; got {type(function).__name__}.")
    leaves, spec = tree_flatten(list(args))
    tensors = [one.detach() for one in leaves if isinstance(one, Tensor)]
    names = _parameter_names(function, args)

    def called(*given: Tensor) -> Any:
        rest = iter(given)
        filled = [next(rest) if isinstance(one, Tensor) else one for one in leaves]
        return function(*tree_unflatten(filled, spec))

    title = getattr(function, "__name__", type(function).__name__)
    name = _plain(title) if title.isidentifier() else "function"
    head = [f"What {title} computes, for arguments of these sizes."]
    return _Writing(name, head, {}, []).source(called, tensors, names, [], target)


def _check_target(target: str) -> None:
    if target not in ("torch", "numpy"):
        raise ValueError(f"source(): target must be 'torch' or 'numpy', got {target!r}.")


class _Writing:
    """A graph on its way to text."""

    def __init__(self, name: str, head: list[str], known: dict[int, str], held: list[Any]) -> None:
        self.name, self.head = name, head
        self.known = known  # names of arrays
        self.held = held  # these arrays

    def source(
        self,
        function: Callable[..., Any],
        args: list[Tensor],
        names: list[str],
        results: list[str],
        target: str,
    ) -> Source:
        """Trace, simplify and write."""
        graph = trace(function, args, _distinct(names), self.held)
        for node in graph.nodes:
            node.meta["is_number"] = node.op == "get_attr" and self._is_number(node)
        simplify(graph)
        called, arguments, constants = self._names(graph)
        arguments |= {name: one.detach() for name, one in zip(arguments, args, strict=False)}

        def written(*, copies: bool = False) -> Source:
            body = list(lines_of(graph, called, copies=copies))
            text = self._text(arguments, constants, body, results)
            return Source(text, self.name, arguments, results)

        if target == "torch":
            return written()
        try:
            return _on_numpy(written())
        except CannotCapture:  # such as results that look at one memory
            return _on_numpy(written(copies=True))

    def _is_constant(self, node: Node) -> bool:
        """Whether a tensor that was found is a few numbers, and nothing that the graph saved."""
        tensor = node.meta["val"]
        few = tensor.numel() <= _FEW and not tensor.requires_grad
        return few and id(tensor._array) not in self.known

    def _is_number(self, node: Node) -> bool:
        return node.meta["val"].ndim == 0 and self._is_constant(node)

    def _names(self, graph: Graph) -> tuple[dict[Node, str], dict[str, Tensor], list[str]]:
        """Names of all nodes, the tensors that are parameters, and lines that make constants."""
        called: dict[Node, str] = {}
        arguments: dict[str, Tensor] = {}
        constants: list[str] = []
        taken: set[str] = {"torch"}

        def name(node: Node, wanted: str) -> str:
            called[node] = free = _free(wanted, taken)
            taken.add(free)
            return free

        for node in graph.nodes:
            if node.op == "placeholder":
                arguments[name(node, node.target)] = node.meta["val"].detach()
            elif node.op == "get_attr" and node.users:
                tensor = node.meta["val"].detach()
                known = self.known.get(id(tensor._array))
                if self._is_constant(node):
                    constants.append(f"{name(node, 'number')} = {literal(tensor)}")
                else:
                    arguments[name(node, known or "value")] = tensor
        for node in graph.nodes:
            if node.op == "call_function":
                name(node, _plain(node.name))
        return called, arguments, constants

    def _text(
        self,
        arguments: dict[str, Tensor],
        constants: list[str],
        body: list[str],
        results: list[str],
    ) -> str:
        said = [f"    {name}: {one.dtype}{list(one.shape)}" for name, one in arguments.items()]
        head = ['"""' + self.head[0], *self.head[1:], "", "It takes:", *(said or ["    nothing"])]
        if results:
            head += ["", f"It returns {', '.join(results)}."]
        lines = [*head, '"""', "", "import torch", "", ""]
        lines += [f"def {self.name}({', '.join(arguments)}):"]
        lines += [f"    {line}" for line in (*constants, *body)]
        return "\n".join([*lines, ""])


def _on_numpy(made: Source) -> Source:
    """The same function as a module on NumPy alone, with the kernels that it calls."""
    values = [one.contiguous().clone() for one in made.arguments.values()]
    captured = capture(made.load(), tuple(values), {}, {}, exact=True)
    text = python_text(captured, made.load(), values)
    return Source(text, "program", made.arguments, made.results)


# Names --------------------------------------------------------------------------------------------


def _title(loss: Tensor) -> str:
    node: Any = node_and_number(edge_of(loss))[0]
    line = getattr(node, "_origin", None)
    return "the result" if line is None else f"`{line.source or line}`"


def _saved_tensors(node: Any) -> list[Tensor]:
    """The tensors themselves that a node saved: inputs of its operator."""
    slots = [slot for cls in type(node).__mro__ for slot in vars(cls).get("__slots__", ())]
    found = [getattr(node, slot, None) for slot in slots if slot.startswith("s_")]
    return [one for one in found if isinstance(one, Tensor)]


def _saved_names(nodes: list[Any]) -> dict[int, str]:
    """What each array that a node saved is called: `exp_result`."""
    names: dict[int, str] = {}
    for node in sorted(nodes, key=lambda one: -one._seq):
        if isinstance(node, AccumulateGrad):
            continue
        kind = re.sub(r"Backward\d*$", "", type(node).name(node)).lower()
        for slot, array, _ in saved_values(node):
            names.setdefault(id(array), _plain(f"{kind}_{slot}"))
    return names


def _parameter_names(function: Any, args: Sequence[Any]) -> list[str]:
    """A name for each tensor among the arguments."""
    try:
        own = [one.name for one in inspect.signature(function).parameters.values()
               if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]  # fmt: skip
    except (TypeError, ValueError):
        own = []
    names: list[str] = []
    for at, arg in enumerate(args):
        name = own[at] if at < len(own) else f"arg{at}"
        count = sum(isinstance(one, Tensor) for one in tree_flatten(arg)[0])
        names += [name] if isinstance(arg, Tensor) else [f"{name}_{k}" for k in range(count)]
    return names


def _plain(name: str) -> str:
    """A name of Python's: `net.0.weight` becomes `net_0_weight`."""
    made = re.sub(r"\W+", "_", name).strip("_") or "value"
    return f"_{made}" if made[0].isdigit() or keyword.iskeyword(made) else made


def _distinct(names: Sequence[str]) -> list[str]:
    taken: set[str] = set()
    made = []
    for name in names:
        made.append(_free(_plain(name), taken))
        taken.add(made[-1])
    return made


def _free(name: str, taken: set[str]) -> str:
    number, free = 1, name
    while free in taken:
        number += 1
        free = f"{name}_{number}"
    return free


ports.fill(backward_source=source_of_graph, function_source=source_of_function)
