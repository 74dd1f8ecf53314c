"""Python code written from a graph."""

from __future__ import annotations

import ast
import builtins
import functools
import itertools
import keyword
import math
import operator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy

import pullback
from pullback.core.device import device
from pullback.core.dtype import dtype
from pullback.core.size import Size
from pullback.core.trees import pytree
from pullback.fx import _pytree as fx_pytree
from pullback.fx._names import Namespace, global_name, qualified_name, snake_case
from pullback.fx.node import Node

if TYPE_CHECKING:
    from pullback.fx.graph import Graph

__all__ = ["CodeGen", "PythonCode"]

_INFIX = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "truediv": "/",
    "floordiv": "//",
    "mod": "%",
    "pow": "**",
    "matmul": "@",
    "and_": "&",
    "or_": "|",
    "xor": "^",
    "lshift": "<<",
    "rshift": ">>",
    "eq": "==",
    "ne": "!=",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
}
_PREFIX = {"neg": "-", "pos": "+", "invert": "~"}
_IN_PLACE = {f"i{name.rstrip('_')}": sign for name, sign in _INFIX.items() if sign[-1] not in "=<>"}
_IN_PLACE |= {"ilshift": "<<", "irshift": ">>"}


@dataclass
class PythonCode:
    """The source of a forward, and the globals that it needs.

    Args:
        globals: Names that the source uses, and their values.
        _lineno_map: Line of the source to index of the node.
        _prologue_start: Line on which the body begins.
    """

    src: str
    globals: dict[str, Any]
    _lineno_map: dict[int, int | None] | None = None
    _prologue_start: int = 0


class _Writing(NamedTuple):
    """One function being written."""

    root: str  # what the module is called in it: "self"
    names: Namespace
    globals: dict[str, Any]
    locals: dict[Node, str]  # of inputs that are called as a builtin is
    inputs: set[str]  # names of parameters, which hide builtins


class CodeGen:
    """Writes the forward of a graph; a subclass changes how arguments come in and go out.

    >>> from pullback import fx
    >>> print(fx.symbolic_trace(lambda x: x + 1).code.strip())
    def forward(self, x):
        add = x + 1;  x = None
        return add
    """

    def __init__(self) -> None:
        self._body_transformer: Any = None
        self._func_name = "forward"

    def gen_fn_def(
        self, free_vars: list[str], maybe_return_annotation: str, *, expanded_def: bool = False
    ) -> str:
        """The line `def forward(...)`, with what must come right after it."""
        if not free_vars or free_vars[0] != "self":
            free_vars = ["self", *free_vars]
        return f"def {self._func_name}({', '.join(free_vars)}){maybe_return_annotation}:"

    def generate_output(self, output_args: Any, **options: Any) -> str:
        """The line that returns the output."""
        return f"return {options.get('repr_fn', repr)(output_args)}"

    def process_inputs(self, *args: Any) -> Any:
        """What a caller passes, as the values of the placeholders."""
        return args

    def process_outputs(self, outputs: Any) -> Any:
        """The output, as a caller gets it."""
        return outputs

    def additional_globals(self) -> list[tuple[str, Any]]:
        """Names that the written code uses beside those of the graph."""
        return []

    def write(self, graph: Graph, root: str) -> PythonCode:
        """The code of a graph's forward."""
        names, scope = Namespace(), dict(_ALWAYS)
        for name in (*_ALWAYS, root):
            names.create_name(name, None)
        scope.update(dict(self.additional_globals()))
        given = {str(node.target) for node in graph.nodes if node.op == "placeholder"}
        writing = _Writing(root, names, scope, _beside_builtins(graph), given)
        inputs: list[str] = []
        unpacked: list[str] = []
        returned = ""
        lines: list[str] = []
        unused = _last_uses(graph)
        for node in graph.nodes:
            if node.op == "placeholder":
                inputs.append(self._input(writing, node, unpacked))
                continue
            if node.op == "output" and node.type is not None:
                returned = f" -> {_annotation(writing, node.type)}"
            line = _line(self, writing, node)
            dropped = unused.get(node, [])
            if dropped:
                line += f";  {' = '.join(_local(writing, one) for one in dropped)} = None"
            lines.append(f"{line}\n")
        if not lines:
            lines.append("pass\n")
        if self._body_transformer is not None:
            lines = self._body_transformer(lines)
        head = self.gen_fn_def(inputs, returned)
        body = "".join("    " + line for line in [*(f"{one}\n" for one in unpacked), *lines])
        return PythonCode(f"\n\n\n{head}\n{body}    ", scope)

    def _input(self, writing: _Writing, node: Node, unpacked: list[str]) -> str:
        kind = "" if node.type is None else f" : {_annotation(writing, node.type)}"
        default = f" = {_text(writing, node.args[0])}" if node.args else ""
        target = str(node.target)
        local = _local(writing, node)
        if target.lstrip("*") != local:
            unpacked.append(f"{local} = {target.lstrip('*')}")
        return f"{target}{kind}{default}"


def _beside_builtins(graph: Graph) -> dict[Node, str]:
    """Variables for nodes that have the name of a builtin, which the code may call itself."""
    used = {node.name for node in graph.nodes}
    found: dict[Node, str] = {}
    for node in graph.nodes:
        if hasattr(builtins, node.name):
            numbered = (f"{node.name}_{n}" for n in itertools.count(1))
            found[node] = next(name for name in numbered if name not in used)
            used.add(found[node])
    return found


def _local(writing: _Writing, node: Node) -> str:
    return writing.locals.get(node, node.name)


def _last_uses(graph: Graph) -> dict[Node, list[Node]]:
    """After which node the values of which others are needed no longer."""
    found: dict[Node, list[Node]] = {}
    seen: set[Node] = set()
    for node in reversed(graph.nodes):
        if node.op == "output":
            seen.update(node._input_nodes)
            continue
        last = [one for one in node._input_nodes if one not in seen]
        seen.update(last)
        if not node.users and node.op != "placeholder":
            last.append(node)
        if last:
            found[node] = last
    return found


_ALWAYS: dict[str, Any] = {
    "inf": math.inf,
    "nan": math.nan,
    "NoneType": type(None),
    "torch": pullback,
    "device": device,
    "fx_pytree": fx_pytree,
    "pytree": pytree,
}


def _line(codegen: CodeGen, writing: _Writing, node: Node) -> str:
    """What a node does, as a statement."""
    kind = "" if node.type is None else f" : {_annotation(writing, node.type)}"
    to = f"{_local(writing, node)}{kind} = "
    if node.op == "get_attr":
        return f"{to}{attribute_path(writing.root, str(node.target))}"
    if node.op == "output":
        return codegen.generate_output(node.args[0], repr_fn=lambda one: _text(writing, one))
    if node.op == "call_module":
        path = attribute_path(writing.root, str(node.target))
        return f"{to}{path}({_arguments(writing, node.args, node.kwargs)})"
    if node.op == "call_method":
        owner = _operand(writing, node.args[0])
        rest = _arguments(writing, node.args[1:], node.kwargs)
        return f"{to}{owner}.{node.target}({rest})"
    if (special := _as_sign(writing, node, to)) is not None:
        return special
    name = _callable(writing, node.target)
    return f"{to}{name}({_arguments(writing, node.args, node.kwargs)})"


def _as_sign(writing: _Writing, node: Node, to: str) -> str | None:
    """A call that Python has a sign for."""
    target: Any = node.target
    args = node.args
    if node.kwargs:
        return None
    if target is getattr and len(args) == 2 and isinstance(args[1], str) and args[1].isidentifier():
        return f"{to}{_operand(writing, args[0])}.{args[1]}"
    name = getattr(target, "__name__", "")
    if getattr(operator, name, None) is not target:
        return None
    if name in _INFIX and len(args) == 2:
        return f"{to}{_operand(writing, args[0])} {_INFIX[name]} {_operand(writing, args[1])}"
    if name in _PREFIX and len(args) == 1:
        return f"{to}{_PREFIX[name]}{_operand(writing, args[0])}"
    if name == "getitem" and len(args) == 2:
        return f"{to}{_operand(writing, args[0])}[{_text(writing, args[1])}]"
    if name == "setitem" and len(args) == 3 and isinstance(args[0], Node):
        owner = _local(writing, args[0])
        place = f"{owner}[{_text(writing, args[1])}]"
        return f"{place} = {_text(writing, args[2])};  {to}{owner}"
    if name in _IN_PLACE and len(args) == 2 and isinstance(args[0], Node):
        owner = _local(writing, args[0])
        changed = f"{owner} {_IN_PLACE[name]}= {_text(writing, args[1])}"
        return f"{changed};  {to}{owner}"
    return None


def _arguments(writing: _Writing, args: tuple[Any, ...], kwargs: dict[str, Any]) -> str:
    given = [_text(writing, one) for one in args]
    named = [f"{name} = {_text(writing, one)}" for name, one in kwargs.items()]
    return ", ".join([*given, *named])


def _operand(writing: _Writing, value: Any) -> str:
    text = _text(writing, value)
    return text if isinstance(value, Node) or not text.startswith("-") else f"({text})"


def _text(writing: _Writing, value: Any) -> str:
    """An argument as an expression."""
    if isinstance(value, Node):
        return _local(writing, value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        inner = ", ".join(_text(writing, one) for one in value)
        return f"{_callable(writing, type(value))}({inner})"
    if isinstance(value, tuple):
        inner = ", ".join(_text(writing, one) for one in value)
        shown = f"({inner},)" if len(value) == 1 else f"({inner})"
        return f"torch.Size({shown})" if type(value) is Size else shown
    if isinstance(value, list):
        return f"[{', '.join(_text(writing, one) for one in value)}]"
    if isinstance(value, dict):
        inner = ", ".join(f"{_text(writing, k)}: {_text(writing, v)}" for k, v in value.items())
        return f"{{{inner}}}"
    if isinstance(value, slice):
        parts = (_text(writing, one) for one in (value.start, value.stop, value.step))
        return f"{_callable(writing, slice)}({', '.join(parts)})"
    if isinstance(value, dtype | str | device) or value is None or value is Ellipsis:
        return repr(value)
    if callable(value) or isinstance(value, type):
        return _callable(writing, value)
    if hasattr(type(value), "__members__"):  # an enum
        return f"{_callable(writing, type(value))}.{value.name}"
    text = repr(value)
    # The text of an array, `array([1.])`, is Python whose names are not there.
    stands = not isinstance(value, numpy.ndarray | numpy.generic) and _is_expression(text)
    return text if stands else _object(writing, value)


@functools.cache
def _is_expression(text: str) -> bool:
    """Whether a text is Python; that of many objects, `<... at 0x7f...>`, is not."""
    try:
        ast.parse(text, mode="eval")
    except SyntaxError:
        return False
    return True


def _object(writing: _Writing, value: Any) -> str:
    """A name among the globals for an object that no text stands for."""
    name = writing.names.create_name(snake_case(type(value).__name__), value)
    writing.globals[name] = value
    return name


def _callable(writing: _Writing, target: Any) -> str:
    """The name of a function, and an entry for it among the globals."""
    name = global_name(target)
    if name.startswith("torch."):
        return name
    if name in writing.inputs:
        name = writing.names.create_name(f"builtin_{name}", target)
    if getattr(builtins, name, None) is target and not keyword.iskeyword(name):
        writing.globals.setdefault(name, target)
        return name
    if writing.globals.get(name, target) is not target:
        name = writing.names.create_name(name, target)
    writing.globals[name] = target
    return name


def _annotation(writing: _Writing, kind: Any) -> str:
    """A type as an expression that the written code can evaluate."""
    if isinstance(kind, str):
        return repr(kind)
    arguments = getattr(kind, "__args__", None)
    if arguments or not isinstance(kind, type):
        name = writing.names.create_name("annotation", kind)
        writing.globals[name] = kind
        return name
    full = qualified_name(kind)
    if full.startswith("torch."):
        short = f"torch.{kind.__name__}"
        full = short if getattr(pullback, kind.__name__, None) is kind else full
        return full if _resolves(full, kind) else _callable(writing, kind)
    return _callable(writing, kind)


def _resolves(path: str, target: Any) -> bool:
    place: Any = pullback
    for part in path.split(".")[1:]:
        place = getattr(place, part, None)
    return place is target


def attribute_path(root: str, target: str) -> str:
    """`self.layers.0.weight` in words that Python takes."""
    path = root
    for part in target.split("."):
        path = f"{path}.{part}" if part.isidentifier() else f'getattr({path}, "{part}")'
    return path


class _PyTreeCodeGen(CodeGen):
    """A forward that takes and gives nested containers, and flat values inside."""

    def __init__(self, pytree_info: PyTreeInfo) -> None:
        super().__init__()
        self.pytree_info = pytree_info

    def process_inputs(self, *args: Any) -> Any:
        return pytree.tree_flatten(args)[0]

    def process_outputs(self, outputs: Any) -> Any:
        out_spec = self.pytree_info.out_spec
        if out_spec is None:
            return outputs
        flat = outputs if isinstance(outputs, list | tuple) else [outputs]
        return pytree.tree_unflatten(list(flat), out_spec)

    def gen_fn_def(
        self, free_vars: list[str], maybe_return_annotation: str, *, expanded_def: bool = False
    ) -> str:
        wanted = self.pytree_info.orig_args
        head = super().gen_fn_def(list(wanted), maybe_return_annotation)
        if not free_vars:
            return head
        names = "".join(f"{one.partition(':')[0].partition('=')[0].strip()}, " for one in free_vars)
        given = ", ".join(one for one in wanted if one != "self")
        return f"{head}\n    {names}= fx_pytree.tree_flatten_spec([{given}], self._in_spec)"

    def generate_output(self, output_args: Any, **options: Any) -> str:
        text = options.get("repr_fn", repr)
        if self.pytree_info.out_spec is None:
            return f"return {text(output_args)}"
        return f"return pytree.tree_unflatten({text(list(output_args))}, self._out_spec)"


class PyTreeInfo(NamedTuple):
    """Names of the arguments as users pass them, and how they and the output nest.

    Args:
        orig_args: Names of the arguments.
        in_spec: Tree of the arguments.
        out_spec: Tree of the output; None for a single value.
    """

    orig_args: list[str]
    in_spec: Any
    out_spec: Any


_PyTreeInfo = PyTreeInfo
