"""Writes, on an operator's first call, the function that one would write by hand.

The written function is a straight line for the plain case: tensors on NumPy arrays of one dtype,
grad mode on or off and nothing else active. Whatever differs (numbers beyond float32 and float64,
mixed dtypes, transforms, hooks, `out=`, subclasses that take over) leaves it for `interpret.call`.
The code object is put into the function that users already hold, so nothing needs to be swapped.
`pullback show NAME` prints what was written.
"""

from __future__ import annotations

from typing import Any

import numpy

from pullback.core import arrays, errors, origin
from pullback.core.mode import fast, get_mode
from pullback.core.node import Leaf, next_seq
from pullback.core.tensor import Tensor, new
from pullback.core.version import INFERENCE_CELL, UNWRITTEN
from pullback.core.view import View, attach, edge_of
from pullback.operators import declare, inplace, interpret
from pullback.operators.declare import REQUIRED, Op, Param
from pullback.operators.nodes import Plan, execute, node_class, several_outputs
from pullback.operators.options import NORMALISE
from pullback.operators.specialise import array_call
from pullback.operators.written import finished


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
    finished(function, op, op.name)
    return function


def _scope(op: Op) -> dict[str, Any]:
    direct = array_call(op)
    return {
        "op": op,
        "call": interpret.call,
        "call_inplace": inplace.call_inplace,
        "check_fit": inplace.check_fit,
        "old_value": inplace.old_value,
        "rebase": inplace.rebase,
        "has_overlap": inplace.has_overlap,
        "check_history_can_change": inplace.check_history_can_change,
        "errors": errors,
        "INFERENCE_CELL": INFERENCE_CELL,
        "SPECIAL": (Leaf, View),
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
        # Whether the array function's result has the dtype of its inputs.
        "fits": direct is not None and "?" not in {t[-1] for t in getattr(numpy, direct).types[1:]},
        "F32": arrays.F32,
        "F64": arrays.F64,
        "numbers32": arrays.numbers32,
        "numbers64": arrays.numbers64,
        "number_array": arrays.number_array,
        "NodeClass": node_class(op) if op.rules else None,
        **{f"as_{kind}": check for kind, check in NORMALISE.items()},
        **{f"default_{p.name}": p.default for p in op.params if p.default is not REQUIRED},
    }


def build_inplace(op: Op, name: str) -> Any:
    """Write the operator's in-place form."""
    scope = {"__name__": op.forward.__module__, "called": name, **_scope(op)}
    execute(inplace_source_of(op), scope, f"{origin.GENERATED}{name}>")
    return scope["written"]


def source_of(op: Op) -> str:
    """The Python source of the operator's function."""
    lines = [f"def written({signature_of(op)}):"]
    if not _has_straight_line(op):
        return "\n".join([*lines, f"    return call(op, {_everything(op)})"])
    return "\n".join([*lines, *_straight_line(op)])


def _has_straight_line(op: Op) -> bool:
    return (
        all(param.kind != "tensors" for param in op.params)
        and op.outputs != ("*",)
        and (op.kind != "view" or (op.strided and len(op.outputs) == 1))
    )


def _arrays(op: Op, leave: str) -> list[str]:
    with_numbers = op.kind == "elementwise" and len(op.inputs) == 2 and op.promote is not None
    lines = ["    try:"]
    for i, param in enumerate(op.inputs):
        lines += [
            "        " + line for line in _array_of(i, param, leave, with_numbers=with_numbers)
        ]
    return [*lines, "    except AttributeError:", f"        {leave}"]


def _normalised(op: Op) -> list[str]:
    return [
        f"    {param.name} = as_{param.kind}({param.name}, a0.ndim, {op.name!r})"
        for param in op.params
        if param.kind in NORMALISE
    ]


def signature_of(op: Op, *, out: bool = True) -> str:
    """The parameters as they stand in a `def`."""
    parts = [_parameter(param) for param in op.params if not param.keyword_only]
    keywords = [_parameter(param) for param in op.params if param.keyword_only]
    if op.has_out and out:
        keywords.append("out=None")
    return ", ".join([*parts, *(["*"] if keywords else []), *keywords])


def _parameter(param: Param) -> str:
    return param.name if param.default is REQUIRED else f"{param.name}=default_{param.name}"


def call_text(op: Op, *, out: bool = True) -> str:
    """The arguments of a call that hands all parameters on."""
    parts = [param.name for param in op.params if not param.keyword_only]
    keywords = [param.name for param in op.params if param.keyword_only]
    if op.has_out and out:
        keywords.append("out")
    return ", ".join([*parts, *(f"{name}={name}" for name in keywords)])


def _everything(op: Op, *, out: bool = True) -> str:
    args = "".join(f"{param.name}, " for param in op.params if not param.keyword_only)
    kwargs = "".join(f"'{param.name}': {param.name}, " for param in op.params if param.keyword_only)
    if op.has_out and out:
        kwargs += "'out': out"
    return f"({args}), {{{kwargs}}}"


def _straight_line(op: Op) -> list[str]:
    leave = f"return call(op, {_everything(op)})"
    lines = _arrays(op, leave)
    lines += ["    mode = get_mode()", "    plain = fast.plain"]
    lines += [f"    if {_not_plain(op)}:", f"        {leave}"]
    lines += _normalised(op)
    lines += _computed(op)
    if len(op.outputs) > 1:
        return lines + _several(op)
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


def inplace_source_of(op: Op) -> str:
    """The Python source of the in-place form."""
    lines = [f"def written({signature_of(op, out=False)}):"]
    leave = f"return call_inplace(op, called, {_everything(op, out=False)})"
    starts_with_target = bool(op.differentiable) and op.differentiable[0] == op.inputs[0]
    if not _has_straight_line(op) or len(op.outputs) > 1 or not starts_with_target:
        return "\n".join([*lines, f"    {leave}"])
    target = op.inputs[0].name
    edges = [f"n{i}" for i in range(len(op.differentiable))]
    lines += [
        *_arrays(op, leave),
        "    mode = get_mode()",
        "    plain = fast.plain",
        f"    cell = {target}._cell",
        f"    if {_not_plain(op, out=False)} or cell is INFERENCE_CELL:",
        f"        {leave}",
        *_normalised(op),
        "    if a0.base is not None and has_overlap(a0):",
        "        raise errors.overlapping_write(called)",
        "    tracked = False",
        "    if mode is plain and a0.dtype.kind in 'fcV':",
        *("    " + line for line in _edges(op)),
        f"        if {' or '.join(f'{edge} is not None' for edge in edges)}:",
        "            tracked = True",
        f"            if {target}._node.__class__ in SPECIAL:",
        f"                check_history_can_change(called, {target})",
        *("            " + line for line in _before_write(op)),
        *_written(op),
        "    if cell is UNWRITTEN:",
        f"        cell = {target}._cell = [0]",
        "    cell[0] += 1",
        *_frame(),
        "    if code is not None:",
        "        cell.append((called, code, frame.f_lasti))",
        "        if len(cell) > 9:",
        "            del cell[1]",
        "    if tracked:",
        f"        result = {target}",
        "        r = a0",
        *([f"        {target} = old"] if _saves_target(op) else []),
        *("    " + line for line in _node(op, framed=True)),
        "        rebase(result, node)",
        "        return result",
        f"    return {target}",
    ]
    return "\n".join(lines)


def _saves_target(op: Op) -> bool:
    return any(param is op.inputs[0] for param in Plan(op).inputs)


def _before_write(op: Op) -> list[str]:
    """Keep the old value if a rule asks for it, and the versions that other inputs have by now."""
    plan, lines = Plan(op), []
    for param in plan.inputs:
        needed = " or ".join(f"n{i} is not None" for i in plan.users(param.name))
        if param is op.inputs[0]:
            lines.append(f"old = old_value({param.name}, n0) if {needed} else None")
        else:
            lines.append(f"v_{param.name} = {_version(op, param)}")
    return lines


def _written(op: Op) -> list[str]:
    """Compute into the target itself where one array function does it, else write afterwards."""
    direct = array_call(op)
    general = _call(op)[0]
    shown = ", ".join(f"'{param.name}': a{i}" for i, param in enumerate(op.inputs))
    options = [param for param in op.params if not param.is_tensor]
    lines = ["    try:"]
    after = [f"        r = {general}", "        r = asarray(r)"]
    after += [f"        check_fit(called, {op.inputs[0].name}, r)", "        a0[...] = r"]
    if direct:
        arguments = ", ".join(f"a{i}" for i in range(len(op.inputs)))
        # A result of another dtype (comparisons) does not go into the target directly.
        usual = " and ".join(["fits", *(f"{p.name} == default_{p.name}" for p in options)])
        lines += [f"        if {usual}:", f"            kernel({arguments}, a0)", "        else:"]
        lines += ["    " + line for line in after]
    else:
        lines += after
    return [
        *lines,
        "    except (ValueError, TypeError) as error:",
        f"        raise explained(op, {{{shown}}}, error, a0) from None",
    ]


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


def _not_plain(op: Op, *, out: bool = True) -> str:
    # In inference mode and under transforms `mode` is neither of the two.
    conditions = ["(mode is not plain and mode is not fast.no_grad)"]
    if op.has_out and out:
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


def _call(op: Op) -> tuple[str, str]:
    """The forward as a call with all options, and as the array function it is at their defaults."""
    arguments = ", ".join(f"a{i}" for i in range(len(op.inputs)))
    options = [param for param in op.params if not param.is_tensor]
    named = []
    number = iter(range(len(op.inputs)))
    for param in op.params:
        value = f"a{next(number)}" if param.is_tensor else param.name
        named.append(f"{param.name}={value}" if param.keyword_only else value)
    general = f"forward(numpy, {', '.join(named)})"
    if not array_call(op):
        return general, general
    unusual = " or ".join(f"{p.name} != default_{p.name}" for p in options)
    return general, (
        f"{general} if {unusual} else kernel({arguments})" if unusual else f"kernel({arguments})"
    )


def _computed(op: Op) -> list[str]:
    call = _call(op)[1]
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
            f"    if n{i} is not None and n{i}._special:",
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


def _several(op: Op) -> list[str]:
    """Wrap and record several outputs."""
    plan = Plan(op)
    numbers = range(len(op.outputs))
    lines = [f"    {', '.join(f'r{i}' for i in numbers)} = r"]
    for i, name in enumerate(op.outputs):
        lines += [
            f"    if type(r{i}) is not ndarray:",
            f"        r{i} = asarray(r{i})",
            f"    result{i} = new(Tensor)",
            f"    result{i}._array = r{i}",
            f"    result{i}._node = None",
            f"    result{i}._cell = {'[0]' if name in plan.outputs and op.rules else 'UNWRITTEN'}",
        ]
    finished = f"return ({', '.join(f'result{i}' for i in numbers)})"
    if not op.rules:
        return [*lines, f"    {finished}"]
    untracked = " and ".join(f"n{i} is None" for i in range(len(plan.edges)))
    lines += [
        *("    if mode is not plain:", f"        {finished}"),
        *_edges(op),
        *(f"    if {untracked}:", f"        {finished}"),
        *_node(op),
    ]
    if several_outputs(op):
        sizes = ", ".join(f"(r{i}.shape, r{i}.dtype)" for i in numbers)
        lines.append(f"    node._g_sizes = ({sizes})")
    for i, name in enumerate(op.outputs):
        if name not in op.fixed_outputs:
            edge = f"node._output({i})" if several_outputs(op) else "node"
            lines += [f"    if r{i}.dtype.kind in 'fcV':", f"        result{i}._node = {edge}"]
    return [*lines, f"    {finished}"]


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


def _frame() -> list[str]:
    return [
        "    frame = getframe(1)",
        "    code = frame.f_code",
        "    if internal[code.co_filename]:",
        "        frame = user_frame(frame)",
        "        code = None if frame is None else frame.f_code",
    ]


def _node(op: Op, *, framed: bool = False) -> list[str]:
    plan = Plan(op)
    several = len(op.outputs) > 1
    first = "r0" if several else "r"
    lines = [
        "    node = NodeClass()",
        f"    node._edges = ({''.join(f'n{i}, ' for i in range(len(plan.edges)))})",
        "    node._cold = None",
        f"    node._g_shape = {first}.shape",
        f"    node._g_dtype = {first}.dtype",
    ]
    for param in plan.inputs:
        lines += _kept(op, plan, param, inplace=framed)
    lines += [f"    node.s_{name} = {name}" for name in plan.options]
    number = {param.name: i for i, param in enumerate(op.inputs)}
    for name in plan.derived:
        owner, _, what = name.rpartition("_")
        value = f"a{number[owner]}.{what}"
        optional = op.inputs[number[owner]].kind == "optional"
        lines.append(
            f"    node.s_{name} = "
            + (f"None if {owner} is None else {value}" if optional else value)
        )
    for name in plan.outputs:
        i = op.outputs.index(name) if several else ""
        lines += [
            f"    node.s_{name} = r{i}",
            f"    node.s_{name}_c = result{i}._cell",
            f"    node.s_{name}_v = result{i}._cell[0]",
        ]
    return [
        *lines,
        *([] if framed else _frame()),
        "    node._code = code",
        "    node._lasti = 0 if frame is None else frame.f_lasti",
        "    node._seq = next_seq()",
    ]


def _version(op: Op, param: Param) -> str:
    with_numbers = op.kind == "elementwise" and len(op.inputs) == 2 and op.promote is not None
    if with_numbers and param is op.inputs[1]:
        return f"None if number else {param.name}._cell[0]"
    if param.kind == "optional":
        return f"None if {param.name} is None else {param.name}._cell[0]"
    return f"{param.name}._cell[0]"


def _kept(op: Op, plan: Plan, param: Param, *, inplace: bool) -> list[str]:
    name = param.name
    version = _version(op, param)
    if inplace:
        version = "0" if param is op.inputs[0] else f"v_{name}"
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


declare.builder = build
inplace.builder = build_inplace
