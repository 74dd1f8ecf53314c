"""Writes the `__call__` of a user's operator: a straight line for the usual call.

Usual: tensors, numbers and strings by position, one tensor returned, the CPU, plain grad mode or
no_grad. Everything else leaves for calling.py, which does every case step by step.
"""

from __future__ import annotations

from typing import Any

from numpy import ndarray

from pullback.autograd.function.apply import finish
from pullback.autograd.function.saved import save
from pullback.core.arrays import F32, F64
from pullback.core.explain.cause import inherited
from pullback.core.mode import NO_GRAD, current, fast, get_mode
from pullback.core.node import QUIET
from pullback.core.origin import GENERATED, getframe, internal, user_frame
from pullback.core.sequence import numbering
from pullback.core.tensor import Tensor
from pullback.core.view import edge_of
from pullback.library.call import alias_check, fallback, returns
from pullback.library.call.binding import accepts_as_is, bind, split
from pullback.library.call.calling import PLAIN_CLASSES, call, may_override
from pullback.library.call.executing import least
from pullback.library.call.node import node_class
from pullback.library.registry import Operator
from pullback.library.schema import Argument
from pullback.library.schema.types import OptionalType
from pullback.operators.watching.observe import Unwatched, look, shown
from pullback.operators.writing.nodes import execute


class _Missing:
    """The value of a parameter that was not passed."""


MISSING: Any = _Missing()


def written(operator: Operator) -> Any:
    """The function that stands as `__call__` in the class of the operator's objects."""
    scope = _scope(operator)
    # For ourselves, and for whoever looks on: the same lines without the question who does.
    operator.straight_line = _executed(operator, scope, watched=False)
    scope["unwatched"] = Unwatched(lambda: operator.straight_line)
    call = _executed(operator, scope, watched=True)
    call.__qualname__ = operator.qualname
    return call


def _executed(operator: Operator, scope: dict[str, Any], *, watched: bool) -> Any:
    source = source_of(operator, watched=watched)
    title = operator.qualname if watched else f"{operator.qualname}, watched"
    execute(source, scope, f"{GENERATED}{title}>")
    return scope.pop("__call__")


def _scope(operator: Operator) -> dict[str, Any]:
    arguments = operator.schema.arguments
    scope: dict[str, Any] = {
        "operator": operator, "op": operator.declaration, "MISSING": MISSING, "Tensor": Tensor,
        "ndarray": ndarray, "fast": fast, "get_mode": get_mode, "set_mode": current.set,
        "NO_GRAD": NO_GRAD, "edge_of": edge_of, "QUIET": QUIET, "numbering": numbering,
        "look": look, "shown": shown,
        "getframe": getframe,
        "internal": internal, "user_frame": user_frame, "finish": finish, "save": save,
        "leave": _leave, "checked": returns.checked, "check_aliases": _check_aliases,
        "PLAIN_CLASSES": PLAIN_CLASSES, "node_class": node_class, "call": call, "least": least,
        "F32": F32, "F64": F64, "inherited": inherited, "attach": fallback.attach,
        "is_tensor": tuple(a.type.is_tensor_like for a in operator.schema.positional),
    }  # fmt: skip
    for number, argument in enumerate(arguments):
        value = argument.default if argument.has_default_value() else MISSING
        scope[f"default_{number}"] = value
    return scope


def _leave(
    operator: Operator, args: tuple[Any, ...], surplus: tuple[Any, ...], named: dict[str, Any]
) -> Any:
    """The call as it was made, without the parameters that were filled in."""
    given = list(args)
    if not surplus:
        arguments = operator.schema.arguments
        while given:
            argument = arguments[len(given) - 1]
            filled = argument.has_default_value() and given[-1] is argument.default
            if given[-1] is not MISSING and not filled:
                break
            given.pop()
    kwargs = {name: value for name, value in named.items() if value is not MISSING}
    passed = (*given, *surplus)
    mode = get_mode()
    is_ready = operator.plain_kernel is not None or operator.open_kernel is not None
    if is_ready and (mode is fast.plain or mode is fast.no_grad or mode is fast.forward):
        return _bound(operator, passed, kwargs)
    return call(operator, passed, kwargs)


def _bound(operator: Operator, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """A call that is usual but for its keywords or numbers takes the straight line after all."""
    if may_override(args) or may_override(kwargs.values()):
        return call(operator, args, kwargs)
    values = bind(operator.schema, args, kwargs)
    for argument, value in zip(operator.schema.arguments, values, strict=True):
        if value is None:
            if argument.type.text == "Tensor":  # an undefined tensor
                return call(operator, args, kwargs)
        elif isinstance(value, Tensor) and (
            value.__class__ not in PLAIN_CLASSES or value._array.__class__ is not ndarray
        ):
            return call(operator, args, kwargs)
    positional, keywords = split(operator.schema, values)
    return operator.straight_line(None, *positional, **keywords)


def _check_aliases(operator: Operator, args: tuple[Any, ...], result: Tensor) -> None:
    kernel = operator.plain_kernel
    module = getattr(kernel, "__module__", None) or "an unknown module"
    alias_check.check(operator, args, result, module)


def _is_usual(operator: Operator) -> bool:
    schema = operator.schema
    if len(schema.returns) != 1 or schema.returns[0].type.text != "Tensor":
        return False
    if schema.is_mutable or schema.is_view or operator.kind == "legacy":
        return False
    if any(_is_taken(argument.name) for argument in schema.keyword_only):
        return False
    kinds = [argument.type for argument in schema.arguments]
    return any(kind.text == "Tensor" for kind in kinds) and all(
        _test(kind, "") is not None for kind in kinds
    )


# What the written code calls its own. Only keyword-only parameters keep their names in it.
_TAKEN = frozenset(
    {
        *("F32", "F64", "MISSING", "NO_GRAD", "PLAIN_CLASSES", "QUIET", "Tensor", "inherited"),
        *("attach", "b", "call"),
        *("check_aliases", "checked", "code", "dtype", "edge_of", "fast", "finish", "frame"),
        *("get_mode", "getframe", "internal", "is_tensor", "kernel", "leave", "least", "mode"),
        *("look", "named", "ndarray", "numbering", "node", "node_class", "op", "operator"),
        *("plain", "r", "save", "self", "set_mode", "setup", "shown", "surplus", "tensor"),
        *("to_save", "unwatched", "user_frame", "versions"),
    }
)


def _is_taken(name: str) -> bool:
    return name in _TAKEN or name.startswith("_") or name[1:].isdigit() or "default_" in name


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


def source_of(operator: Operator, *, watched: bool = True) -> str:
    """The Python source of the call; its first line asks who looks on."""
    lines = [f"def __call__({signature_of(operator)}):"]
    lines += _watched(operator) if watched else []
    if not _is_usual(operator):
        return "\n".join([*lines, "    return call(operator, args, kwargs)", ""])
    body = [*_head(operator), *_recorded(operator), *_unrecorded(operator)]
    return "\n".join([*lines, *body, ""])


def signature_of(operator: Operator) -> str:
    """The parameters of the call; nothing that a caller can pass makes Python refuse it."""
    if not _is_usual(operator):
        return "self, /, *args, **kwargs"
    arguments = operator.schema.arguments
    positional = [f"v{i}=default_{i}" for i, a in enumerate(arguments) if not a.kwarg_only]
    keywords = [f"{a.name}=default_{i}" for i, a in enumerate(arguments) if a.kwarg_only]
    return ", ".join(["self", *positional, "/", "*surplus", *keywords, "**named"])


def _watched(operator: Operator) -> list[str]:
    """Ask who looks on (the profiler): they see its calls, as those of built-in operators."""
    args, kwargs, operands = "self, *args", "**kwargs", "*args, *kwargs.values()"
    if _is_usual(operator):
        arguments = operator.schema.arguments
        positional = "".join(f"v{i}, " for i, a in enumerate(arguments) if not a.kwarg_only)
        keywords = "".join(f"{a.name!r}: {a.name}, " for a in arguments if a.kwarg_only)
        args, kwargs = f"self, {positional}*surplus", f"{keywords}**named"
        operands = "".join(f"v{i}, " for i, _ in _tensors(operator))
    title = repr(operator.qualname)
    return [
        "    if look.by is not None:",
        f"        return shown(op, {title}, unwatched, ({args}), {{{kwargs}}}, ({operands}))",
    ]


def _names(operator: Operator) -> list[str]:
    return [f"v{number}" for number in range(len(operator.schema.arguments))]


def _passed(operator: Operator) -> str:
    """The arguments as they are passed on to the kernel."""
    return ", ".join(
        f"{argument.name}={name}" if argument.kwarg_only else name
        for argument, name in zip(operator.schema.arguments, _names(operator), strict=True)
    )


def _keywords(operator: Operator) -> str:
    """The keyword-only arguments, as the inside of a dict."""
    pairs = enumerate(operator.schema.arguments)
    return "".join(f"{argument.name!r}: v{i}, " for i, argument in pairs if argument.kwarg_only)


def _tensors(operator: Operator) -> list[tuple[int, Argument]]:
    pairs = enumerate(operator.schema.arguments)
    return [(number, argument) for number, argument in pairs if argument.type.text == "Tensor"]


def _head(operator: Operator) -> list[str]:
    schema, names = operator.schema, _names(operator)
    count = len(schema.positional)
    rest = _keywords(operator)
    passed = "".join(f"{name}, " for name in names[:count])
    leave = f"return leave(operator, ({passed}), surplus, {{**named, {rest}}})"
    conditions = [
        _test(argument.type, name) for argument, name in zip(schema.arguments, names, strict=True)
    ]
    arrays = [f"a{i}.__class__ is not ndarray" for i, _ in _tensors(operator)]
    return [
        *(f"    v{i} = {a.name}" for i, a in enumerate(schema.arguments) if a.kwarg_only),
        f"    if surplus or named or {' or '.join(map(str, conditions))}:",
        f"        {leave}",
        *(f"    a{i} = v{i}._array" for i, _ in _tensors(operator)),
        "    mode = get_mode()",
        "    plain = fast.plain",
        "    if (mode is not plain and mode is not fast.no_grad and mode is not fast.forward) or "
        f"{' or '.join(arrays)}:",
        f"        {leave}",
        "    kernel = operator.plain_kernel",
        "    if kernel is None:",
        *("        " + line for line in _open(operator, leave)),
    ]


def _open(operator: Operator, leave: str) -> list[str]:
    """A kernel of the lower-level interface, which runs in the caller's grad mode."""
    if operator.kind != "define":
        return [leave]
    numbers = [i for i, _ in _tensors(operator)]
    tracked = " or ".join(f"v{i}._node is not None" for i in numbers)
    tensors = ", ".join(f"v{i}" for i in numbers)
    return [
        "kernel = operator.open_kernel",
        "if kernel is None:",
        f"    {leave}",
        f"r = kernel({_passed(operator)})",
        "if r.__class__ is not Tensor:",
        "    r = checked(operator, r)",
        f"if mode is plain and ({tracked}):",
        "    if not operator.is_open_to_autograd:",
        f"        attach(operator, [{tensors}], [r])",
        "return r",
    ]


def _kernel_call(operator: Operator) -> list[str]:
    """Run the kernel, and see that its result is a tensor with memory of its own."""
    numbers = [i for i, _ in _tensors(operator)]
    same = " or ".join(f"b is a{i} or a{i}.base is b" for i in numbers)
    tensors = "".join(f"v{i}, " for i in numbers)
    aliases = [f"if b.base is not None or {same}:", f"    check_aliases(operator, ({tensors}), r)"]
    return [
        f"r = kernel({_passed(operator)})",
        "if r.__class__ is not Tensor:",
        "    r = checked(operator, r)",
        "b = r._array",
        *([] if operator.kind == "define" else aliases),
    ]


def _recorded(operator: Operator) -> list[str]:
    """The call if an argument requires grad."""
    edges = [f"n{i}" for i, _ in _tensors(operator)]
    lines = ["    if mode is plain:"]
    for i, _ in _tensors(operator):
        lines += [
            f"        n{i} = v{i}._node",
            f"        if n{i} is not None and n{i}._special:",
            f"            n{i} = n{i}() or edge_of(v{i})",
        ]
    body = [
        *_node(operator),
        "try:",
        "    set_mode(NO_GRAD)",
        *("    " + line for line in [*_kernel_call(operator), *_set_up(operator)]),
        "finally:",
        "    set_mode(mode)",
        *_led_to_node(operator),
    ]
    tracked = " or ".join(f"{edge} is not None" for edge in edges)
    return [*lines, f"        if {tracked}:", *("            " + line for line in body)]


def _inputs(operator: Operator) -> str:
    """The positional arguments, as the inside of a tuple."""
    return "".join(f"{name}, " for name in _names(operator)[: len(operator.schema.positional)])


def _node(operator: Operator) -> list[str]:
    """The node, all of it but what depends on the result."""
    positional = operator.schema.positional
    tensors = _tensors(operator)
    needs = "".join(
        f"n{i} is not None, " if argument.type.text == "Tensor" else "False, "
        for i, argument in enumerate(positional)
    )
    has_defaults = any(argument.has_default_value() for argument in positional)
    fewest = f"least(operator, [{_inputs(operator)}])" if has_defaults else str(len(positional))
    return [
        "node = (operator.node_class or node_class(operator))()",
        f"node._edges = ({''.join(f'n{i}, ' for i, _ in tensors)})",
        f"node.needs_input_grad = ({needs})",
        f"node._is_tensor = {None if len(tensors) == len(positional) else 'is_tensor'}",
        "node.to_save = node._rare = node._g_sizes = None",
        f"node._least = {fewest}",
        "node._saved = node._versions = ()",
        "node._materializes = True",
        "node._cold = QUIET",
        "frame = getframe(1)",
        "code = frame.f_code",
        "if internal[code.co_filename]:",
        "    frame = user_frame(frame)",
        "    code = None if frame is None else frame.f_code",
        "node._code = code",
        "node._lasti = 0 if frame is None else frame.f_lasti",
        "node._seq = numbering.next()",
    ]


def _set_up(operator: Operator) -> list[str]:
    """Run setup_context: by keyword, or in order where that is the same and cheaper."""
    inputs = _inputs(operator)
    lines = ["setup = operator.plain_setup", "if setup is not None:"]
    if operator.schema.keyword_only:
        rest = f"keyword_only_inputs={{{_keywords(operator)}}}, output=r"
        return [*lines, f"    setup(ctx=node, inputs=({inputs}), {rest})"]
    return [
        *lines,
        "    if operator.setup_in_order:",
        f"        setup(node, ({inputs}), r)",
        "    else:",
        f"        setup(ctx=node, inputs=({inputs}), output=r)",
    ]


def _led_to_node(operator: Operator) -> list[str]:
    """Give the result its history, and keep what is to be saved with its versions."""
    return [
        "if node._rare is not None or r._node is not None:",
        f"    return finish(node._forward_cls, node, ({_inputs(operator)}), r, mode, split=False)",
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
    return [
        "    if mode is NO_GRAD:  # changing the mode costs a third of a small operator",
        *("        " + line for line in body),
        "        return r",
        "    try:",
        "        set_mode(NO_GRAD)",
        *("        " + line for line in body),
        "    finally:",
        "        set_mode(mode)",
        # Else it would say that the no_grad here is why it has no history.
        "    if r._cell.__class__ is tuple:",
        f"        r._cell = inherited({''.join(f'v{i}, ' for i, _ in _tensors(operator))})",
        "    return r",
    ]
