"""Writes the `__call__` of a user's operator: a fast path for the usual call.

Usual: tensors, numbers and strings by position, one tensor returned, the CPU, plain grad mode or
no_grad. Everything else leaves for calling.py, which does every case step by step.
"""

from __future__ import annotations

from keyword import iskeyword
from typing import Any

from pullback.autograd.function.apply import finish
from pullback.autograd.function.saved import save
from pullback.core.mode import NO_GRAD, current
from pullback.core.node import QUIET
from pullback.core.writer import block, define, indented
from pullback.library.call import fallback, returns
from pullback.library.call.bail_out import MISSING, bail_out, check_aliases
from pullback.library.call.binding import accepts_as_is
from pullback.library.call.calling import PLAIN_CLASSES, call
from pullback.library.call.executing import least
from pullback.library.call.node import node_class
from pullback.library.registry import Operator
from pullback.library.schema.types import OptionalType
from pullback.operators.declare import REQUIRED, Op
from pullback.operators.dispatch.observers import Unwatched, observed, observers
from pullback.operators.writing.call import by_name
from pullback.operators.writing.names import COMMON
from pullback.operators.writing.record import FRAME_LINES, PLACED, edge_from
from pullback.operators.writing.steps import MODE_LINES


def written(operator: Operator) -> Any:
    """The function that stands as `__call__` in the class of the operator's objects."""
    scope = _scope(operator)
    title = operator.qualname
    # For ourselves, and for whoever looks on: the same lines without the question who does.
    operator.fast_path = define(lines_of(operator, watched=False), scope, f"{title}, watched")
    scope["unwatched"] = Unwatched(lambda: operator.fast_path)
    call = define(lines_of(operator), scope, title)
    call.__qualname__ = title
    return call


def _scope(operator: Operator) -> dict[str, Any]:
    scope: dict[str, Any] = {
        **COMMON, "operator": operator, "op": operator.declaration, "called": operator.qualname,
        "observers": observers, "observed": observed, "set_mode": current.set,
        "NO_GRAD": NO_GRAD, "QUIET": QUIET,
        "finish": finish, "save": save, "bail_out": bail_out, "checked": returns.checked,
        "check_aliases": check_aliases, "PLAIN_CLASSES": PLAIN_CLASSES, "node_class": node_class,
        "call": call, "least": least, "attach": fallback.attach,
        "is_tensor": tuple(a.type.is_tensor_like for a in operator.schema.positional),
    }  # fmt: skip
    for argument in operator.schema.arguments:
        value = argument.default if argument.has_default_value() else MISSING
        scope[f"default_{argument.name}"] = value
    return scope


def _is_usual(operator: Operator) -> bool:
    schema = operator.schema
    if len(schema.returns) != 1 or schema.returns[0].type.text != "Tensor":
        return False
    if schema.is_mutable or schema.is_view or operator.kind == "legacy":
        return False
    if any(iskeyword(argument.name) for argument in schema.arguments):
        return False
    kinds = [argument.type for argument in schema.arguments]
    return any(kind.text == "Tensor" for kind in kinds) and all(
        _test(kind, "") is not None for kind in kinds
    )


def _test(kind: Any, name: str) -> str | None:
    """The condition under which a value is not of the usual class."""
    if isinstance(kind, OptionalType) and not kind.is_tensor_like:
        inner = accepts_as_is(kind.element)
        return (
            None if inner is None else f"({name} is not None and {name}.__class__ is not {inner})"
        )
    usual = accepts_as_is(kind)
    if usual is None:
        return None
    if usual == "Tensor":
        return f"({name}.__class__ is not Tensor and {name}.__class__ not in PLAIN_CLASSES)"
    return f"{name}.__class__ is not {usual}"


def lines_of(operator: Operator, *, watched: bool = True) -> list[str]:
    """The call; its first line asks who looks on."""
    op = operator.declaration
    if not _is_usual(operator):
        given = _shown_lines("self, *args", "**kwargs", "*args, *kwargs.values()")
        whole = "return call(operator, args, kwargs)"
        return block("def __call__(self, /, *args, **kwargs)", [*given * watched, whole])
    args = "".join(f"{param.local}, " for param in op.params if not param.keyword_only)
    kwargs = by_name([param.name for param in op.params if param.keyword_only])
    lines = _shown_lines(f"self, {args}*surplus", f"{kwargs}**named", _operands(op)) * watched
    leaving = f"return bail_out(operator, ({args}), surplus, {{**named, {kwargs}}})"
    lines += [*_head(operator, leaving), *_recorded(operator), *_unrecorded(operator)]
    return block(f"def __call__({_signature(op)})", lines)


def _operands(op: Op) -> str:
    """The tensors of a call, as the inside of a tuple."""
    return "".join(f"{param.local}, " for param in op.inputs)


def _shown_lines(args: str, kwargs: str, operands: str) -> list[str]:
    """Ask who looks on: then the call goes through `shown`."""
    call = f"observed(op, called, unwatched, ({args}), {{{kwargs}}}, ({operands}))"
    return block("if observers.active is not None", [f"return {call}"])


def _signature(op: Op) -> str:
    """The parameters of the call; nothing that a caller can pass makes Python refuse it."""
    positional = [f"{p.local}=default_{p.name}" for p in op.params if not p.keyword_only]
    keywords = [f"{p.local}=default_{p.name}" for p in op.params if p.keyword_only]
    return ", ".join(["self", *positional, "/", "*surplus", *keywords, "**named"])


def _passed(operator: Operator) -> str:
    """The arguments as they are passed on to the kernel."""
    params = operator.declaration.params
    return ", ".join(f"{p.name}={p.local}" if p.keyword_only else p.local for p in params)


def _head(operator: Operator, bail_out: str) -> list[str]:
    """Up to the kernel: usual classes, usual arrays, a usual mode."""
    op = operator.declaration
    pairs = zip(operator.schema.arguments, op.params, strict=True)
    conditions = [_test(argument.type, param.local) for argument, param in pairs]
    unusual = " or ".join(["surplus", "named", *map(str, conditions)])
    numbers = range(len(op.inputs))
    others = " or ".join(f"a{i}.__class__ is not ndarray" for i in numbers)
    modes = "(mode is not plain and mode is not fast.no_grad and mode is not fast.forward)"
    return [
        *block(f"if {unusual}", [bail_out]),
        *(f"a{i} = {param.local}._array" for i, param in enumerate(op.inputs)),
        *MODE_LINES,
        *block(f"if {modes} or {others}", [bail_out]),
        "kernel = operator.plain_kernel",
        *block("if kernel is None", _open(operator, bail_out)),
    ]


def _open(operator: Operator, bail_out: str) -> list[str]:
    """A kernel of the lower-level interface, which runs in the caller's grad mode."""
    if operator.kind != "define":
        return [bail_out]
    op = operator.declaration
    tracked = " or ".join(f"{param.local}._node is not None" for param in op.inputs)
    attached = f"attach(operator, [{_operands(op)}], [r])"
    return [
        "kernel = operator.open_kernel",
        *block("if kernel is None", [bail_out]),
        f"r = kernel({_passed(operator)})",
        *block("if r.__class__ is not Tensor", ["r = checked(operator, r)"]),
        f"if mode is plain and ({tracked}):",
        *indented(block("if not operator.is_open_to_autograd", [attached])),
        "return r",
    ]


def _kernel_call(operator: Operator) -> list[str]:
    """Run the kernel, and see that its result is a tensor with memory of its own."""
    op = operator.declaration
    same = " or ".join(f"b is a{i} or a{i}.base is b" for i in range(len(op.inputs)))
    aliases = block(
        f"if b.base is not None or {same}", [f"check_aliases(operator, ({_operands(op)}), r)"]
    )
    return [
        f"r = kernel({_passed(operator)})",
        *block("if r.__class__ is not Tensor", ["r = checked(operator, r)"]),
        "b = r._array",
        *([] if operator.kind == "define" else aliases),
    ]


def _recorded(operator: Operator) -> list[str]:
    """The call if an argument requires grad."""
    op = operator.declaration
    lines = []
    for i, param in enumerate(op.inputs):
        lines += edge_from(f"n{i}", f"{param.local}._node", param.local)
    body = [
        *_node(operator),
        *block("try", ["set_mode(NO_GRAD)", *_kernel_call(operator), *_set_up(op)]),
        *block("finally", ["set_mode(mode)"]),
        *_led_to_node(op),
    ]
    tracked = " or ".join(f"n{i} is not None" for i in range(len(op.inputs)))
    return block("if mode is plain", [*lines, *block(f"if {tracked}", body)])


def _inputs(op: Op) -> str:
    """The positional arguments, as the inside of a tuple."""
    return "".join(f"{param.local}, " for param in op.params if not param.keyword_only)


def _node(operator: Operator) -> list[str]:
    """The node, all of it but what depends on the result."""
    op = operator.declaration
    edges = {param.name: f"n{i}" for i, param in enumerate(op.inputs)}
    positional = [param for param in op.params if not param.keyword_only]
    needs = "".join(
        f"{edges[param.name]} is not None, " if param.is_tensor else "False, "
        for param in positional
    )
    has_defaults = any(param.default is not REQUIRED for param in positional)
    fewest = f"least(operator, [{_inputs(op)}])" if has_defaults else str(len(positional))
    return [
        "node = (operator.node_class or node_class(operator))()",
        f"node._edges = ({''.join(f'{edge}, ' for edge in edges.values())})",
        f"node.needs_input_grad = ({needs})",
        f"node._is_tensor = {None if len(edges) == len(positional) else 'is_tensor'}",
        "node.to_save = node._rare = node._g_sizes = None",
        f"node._least = {fewest}",
        "node._saved = node._versions = ()",
        "node._materializes = True",
        "node._cold = QUIET",
        *FRAME_LINES,
        *PLACED,
    ]


def _set_up(op: Op) -> list[str]:
    """Run setup_context: by keyword, or in order where that is the same and cheaper."""
    inputs = _inputs(op)
    if op.keywords:
        keywords = by_name([param.name for param in op.params if param.keyword_only])
        rest = f"keyword_only_inputs={{{keywords}}}, output=r"
        run = [f"setup(ctx=node, inputs=({inputs}), {rest})"]
    else:
        run = [
            *block("if operator.setup_in_order", [f"setup(node, ({inputs}), r)"]),
            *block("else", [f"setup(ctx=node, inputs=({inputs}), output=r)"]),
        ]
    return ["setup = operator.plain_setup", *block("if setup is not None", run)]


def _led_to_node(op: Op) -> list[str]:
    """Give the result its history, and keep what is to be saved with its versions."""
    whole = f"finish(node._forward_cls, node, ({_inputs(op)}), r, mode, split=False)"
    return [
        *block("if node._rare is not None or r._node is not None", [f"return {whole}"]),
        "dtype = b.dtype",
        "node._g_shape = b.shape",
        "node._g_dtype = dtype",
        "if dtype is F32 or dtype is F64 or dtype.kind in 'fcV':",
        "    r._node = node",
        "to_save = node.to_save",
        "if to_save is not None:",
        "    node.to_save = None",
        "    versions = []",
        "    try:",
        "        if to_save.__class__ is not tuple:",
        "            raise AttributeError",
        "        for tensor in to_save:",
        "            if tensor._node is node or tensor.__class__ is not Tensor:",
        "                raise AttributeError",
        "            versions.append(tensor._cell[0])",
        "        node._saved = to_save",
        "        node._versions = versions",
        "    except AttributeError:  # an output, a view, None, or no tensor at all",
        "        save(node._forward_cls, node, to_save, mode)",
        "return r",
    ]


def _unrecorded(operator: Operator) -> list[str]:
    body = _kernel_call(operator)
    # Else it would say that the no_grad here is why it has no history.
    cause = f"r._cell = inherited({_operands(operator.declaration)})"
    return [
        # Changing the mode costs a third of a small operator.
        *block("if mode is NO_GRAD", [*body, "return r"]),
        *block("try", ["set_mode(NO_GRAD)", *body]),
        *block("finally", ["set_mode(mode)"]),
        *block("if r._cell.__class__ is tuple", [cause]),
        "return r",
    ]
