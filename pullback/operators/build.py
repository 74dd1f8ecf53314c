"""Writes, on an operator's first call, the function that one would write by hand.

The written function is a straight line for the plain case: tensors on NumPy arrays of one dtype, grad
mode on or off and nothing else active. Whatever differs (numbers beyond float32 and float64, mixed
dtypes, transforms, hooks, `out=`, subclasses that take over) leaves it for `interpret.call`. The code
object is put into the function that users already hold, so nothing needs to be swapped.
`pullback show NAME` prints what was written.
"""

from __future__ import annotations

from typing import Any

import numpy

from pullback.core import arrays, origin
from pullback.core.mode import fast, get_mode
from pullback.core.node import next_seq
from pullback.core.tensor import Tensor, new
from pullback.core.version import UNWRITTEN
from pullback.core.view import attach, edge_of
from pullback.operators import declare, interpret
from pullback.operators.declare import REQUIRED, Op, Param
from pullback.operators.nodes import Plan, execute, node_class, several_outputs
from pullback.operators.options import NORMALISE
from pullback.operators.specialise import array_call


def build(op: Op) -> Any:
    """Write the operator's function and put its code into `op.function`."""
    function = op.function
    scope = function.__globals__
    scope.update(_scope(op))
    execute(source_of(op), scope, f"{origin.GENERATED}{op.name}>")
    written = scope["written"]
    function.__defaults__ = written.__defaults__
    function.__kwdefaults__ = written.__kwdefaults__
    function.__code__ = written.__code__
    return function


declare.builder = build


def _scope(op: Op) -> dict[str, Any]:
    direct = array_call(op)
    return {
        "op": op,
        "call": interpret.call,
        "explained": interpret.explained,
        "Tensor": Tensor,
        "UNWRITTEN": UNWRITTEN,
        "new": new,
        "attach": attach,
        "edge_of": edge_of,
        "fast": fast,
        "get_mode": get_mode,
        "next_seq": next_seq,
        "getframe": origin.getframe,
        "internal": origin.internal,
        "user_frame": origin.user_frame,
        "ndarray": numpy.ndarray,
        "asarray": numpy.asarray,
        "numpy": numpy,
        "forward": op.forward,
        "kernel": getattr(numpy, direct) if direct else None,
        "F32": arrays.F32,
        "F64": arrays.F64,
        "numbers32": arrays.numbers32,
        "numbers64": arrays.numbers64,
        "number_array": arrays.number_array,
        "NodeClass": node_class(op) if op.rules else None,
        **{f"as_{kind}": check for kind, check in NORMALISE.items()},
        **{f"default_{p.name}": p.default for p in op.params if p.default is not REQUIRED},
    }


def source_of(op: Op) -> str:
    """The Python source of the operator's function."""
    plain = (
        all(param.kind != "tensors" for param in op.params)
        and len(op.outputs) == 1
        and op.outputs != ("*",)
        and (op.kind != "view" or op.strided)
    )
    lines = [f"def written({_signature(op)}):"]
    if not plain:
        return "\n".join([*lines, f"    return call(op, {_everything(op)})"])
    return "\n".join([*lines, *_straight_line(op)])


def _signature(op: Op) -> str:
    parts = [_parameter(param) for param in op.params if not param.keyword_only]
    keywords = [_parameter(param) for param in op.params if param.keyword_only]
    if op.has_out:
        keywords.append("out=None")
    return ", ".join([*parts, *(["*"] if keywords else []), *keywords])


def _parameter(param: Param) -> str:
    return param.name if param.default is REQUIRED else f"{param.name}=default_{param.name}"


def _everything(op: Op) -> str:
    args = "".join(f"{param.name}, " for param in op.params if not param.keyword_only)
    kwargs = "".join(f"'{param.name}': {param.name}, " for param in op.params if param.keyword_only)
    if op.has_out:
        kwargs += "'out': out"
    return f"({args}), {{{kwargs}}}"


def _straight_line(op: Op) -> list[str]:
    tensors = op.inputs
    leave = f"return call(op, {_everything(op)})"
    with_numbers = op.kind == "elementwise" and len(tensors) == 2 and op.promote is not None
    lines = ["    try:"]
    for i, param in enumerate(tensors):
        lines += ["        " + line for line in _array_of(i, param, leave, with_numbers=with_numbers)]
    lines += ["    except AttributeError:", f"        {leave}"]
    lines += ["    mode = get_mode()", "    plain = fast.plain"]
    lines += [f"    if {_not_plain(op)}:", f"        {leave}"]
    for param in op.params:
        if param.kind in NORMALISE:
            lines.append(
                f"    {param.name} = as_{param.kind}({param.name}, a0.ndim, {op.name!r})"
            )
    lines += _computed(op)
    lines += [
        "    if type(r) is not ndarray:",
        "        r = asarray(r)",
        "    result = new(Tensor)",
        "    result._array = r",
    ]
    if op.kind == "view":
        return lines + _viewed(op)
    shared = Plan(op).outputs and op.rules
    lines.append(f"    result._cell = {'[0]' if shared else 'UNWRITTEN'}")
    return lines + _recorded(op)


def _array_of(i: int, param: Param, leave: str, *, with_numbers: bool) -> list[str]:
    take = f"a{i} = {param.name}._array"
    if param.kind == "optional":
        return [f"a{i} = None if {param.name} is None else {param.name}._array"]
    if not (with_numbers and i == 1):
        return [take]
    # A number takes the dtype of the other operand if that is float32 or float64.
    return [
        f"kind = type({param.name})",
        "number = kind is float or kind is int",
        "if number:",
        "    d0 = a0.dtype",
        f"    a1 = numbers64.get({param.name}) if d0 is F64 else numbers32.get({param.name})",
        "    if a1 is None or (d0 is not F64 and d0 is not F32):",
        "        if d0 is not F64 and d0 is not F32:",
        f"            {leave}",
        f"        a1 = number_array({param.name}, d0)",
        "else:",
        f"    {take}",
    ]


def _not_plain(op: Op) -> str:
    # In inference mode and under transforms `mode` is neither of the two.
    conditions = ["(mode is not plain and mode is not fast.no_grad)"]
    if op.has_out:
        conditions.append("out is not None")
    required = [i for i, param in enumerate(op.inputs) if param.kind == "tensor"]
    if op.promote is not None:
        dtype = "a0.dtype"
        conditions += [f"{dtype} is not a{i}.dtype" for i in required[1:]]
        if len(op.inputs) > len(required):
            conditions += [
                f"(a{i} is not None and {dtype} is not a{i}.dtype)"
                for i, param in enumerate(op.inputs)
                if param.kind == "optional"
            ]
        if op.promote == "float":
            conditions.append("a0.dtype.kind not in 'fcV'")
    if array_call(op) is None:
        conditions.append("type(a0) is not ndarray")
    return " or ".join(conditions)


def _computed(op: Op) -> list[str]:
    arguments = ", ".join(f"a{i}" for i in range(len(op.inputs)))
    options = [param for param in op.params if not param.is_tensor]
    named = []
    number = iter(range(len(op.inputs)))
    for param in op.params:
        value = f"a{next(number)}" if param.is_tensor else param.name
        named.append(f"{param.name}={value}" if param.keyword_only else value)
    general = f"forward(numpy, {', '.join(named)})"
    direct = array_call(op)
    call = general
    if direct:
        unusual = " or ".join(f"{p.name} != default_{p.name}" for p in options)
        call = f"{general} if {unusual} else kernel({arguments})" if unusual else f"kernel({arguments})"
    shown = ", ".join(f"'{param.name}': a{i}" for i, param in enumerate(op.inputs))
    return [
        "    try:",
        f"        r = {call}",
        "    except (ValueError, TypeError) as error:",
        f"        raise explained(op, {{{shown}}}, error) from None",
    ]


def _edges(op: Op) -> list[str]:
    lines = []
    for i, param in enumerate(op.differentiable):
        lines += [
            f"    n{i} = {_node_of(op, param)}",
            f"    if n{i} is not None and n{i}.special:",
            f"        n{i} = n{i}() or edge_of({param.name})",
        ]
    return lines


def _node_of(op: Op, param: Param) -> str:
    if param.kind == "optional":
        return f"None if {param.name} is None else {param.name}._node"
    with_numbers = op.kind == "elementwise" and len(op.inputs) == 2 and op.promote is not None
    if with_numbers and param is op.inputs[1]:
        return f"None if number else {param.name}._node"
    return f"{param.name}._node"


def _recorded(op: Op) -> list[str]:
    if not op.rules:
        return ["    result._node = None", "    return result"]
    edges = [f"n{i}" for i in range(len(op.differentiable))]
    untracked = " and ".join(f"{edge} is None" for edge in edges)
    return [
        "    if mode is not plain:",
        "        result._node = None",
        "        return result",
        *_edges(op),
        f"    if {untracked}:",
        "        result._node = None",
        "        return result",
        *_node(op),
        "    result._node = node",
        "    return result",
    ]


def _viewed(op: Op) -> list[str]:
    source = op.inputs[0].name
    return [
        "    if mode is not plain:",
        f"        return call(op, {_everything(op)})",
        *_edges(op),
        "    if n0 is None:",
        "        node = None",
        "    else:",
        *("    " + line for line in _node(op)),
        f"    attach(result, {source}, node)",
        "    return result",
    ]


def _node(op: Op) -> list[str]:
    plan = Plan(op)
    lines = [
        "    node = NodeClass()",
        f"    node.edges = ({''.join(f'n{i}, ' for i in range(len(plan.edges)))})",
        "    node.cold = None",
        "    node.shape = r.shape",
        "    node.dtype = r.dtype",
    ]
    for param in plan.inputs:
        lines += _kept(op, plan, param)
    lines += [f"    node.s_{name} = {name}" for name in plan.options]
    number = {param.name: i for i, param in enumerate(op.inputs)}
    for name in plan.derived:
        owner, _, what = name.rpartition("_")
        value = f"a{number[owner]}.{what}"
        optional = op.inputs[number[owner]].kind == "optional"
        lines.append(
            f"    node.s_{name} = " + (f"None if {owner} is None else {value}" if optional else value)
        )
    for name in plan.outputs:
        lines += [
            f"    node.s_{name} = r",
            f"    node.s_{name}_c = result._cell",
            f"    node.s_{name}_v = 0",
        ]
    return [
        *lines,
        "    frame = getframe(1)",
        "    code = frame.f_code",
        "    if internal[code.co_filename]:",
        "        frame = user_frame(frame)",
        "        code = None if frame is None else frame.f_code",
        "    node.code = code",
        "    node.lasti = 0 if frame is None else frame.f_lasti",
        "    node.seq = next_seq()",
    ]


def _kept(op: Op, plan: Plan, param: Param) -> list[str]:
    name = param.name
    version = f"{name}._cell[0]"
    with_numbers = op.kind == "elementwise" and len(op.inputs) == 2 and op.promote is not None
    if with_numbers and param is op.inputs[1]:
        version = f"None if number else {version}"
    if param.kind == "optional":
        version = f"None if {name} is None else {version}"
    keep = [f"node.s_{name} = {name}", f"node.s_{name}_v = {version}"]
    users = plan.users(name)
    if len(users) == len(plan.edges) and len(users) == 1:
        return ["    " + line for line in keep]
    needed = " or ".join(f"n{i} is not None" for i in users)
    return [
        f"    if {needed}:",
        *("        " + line for line in keep),
        "    else:",
        f"        node.s_{name} = node.s_{name}_v = None",
    ]


__all__ = ["build", "several_outputs", "source_of"]
