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
from pullback.core.version import INFERENCE_CELL, MOST_WRITES, UNWRITTEN, shorten
from pullback.core.view import NOWHERE, CreationMeta, View, attach, edge_of
from pullback.operators import declare, inplace, interpret, overlap
from pullback.operators.build_sequence import (
    gives_sequence,
    node_lines,
    parts_line,
    sequence_line,
    takes_sequence,
)
from pullback.operators.build_view import attach_lines
from pullback.operators.declare import REQUIRED, Op, Param
from pullback.operators.nodes import Plan, execute, node_class, several_outputs
from pullback.operators.options import NORMALISE, respelled
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
        "check_writable": overlap.check_writable,
        "check_history_can_change": inplace.check_history_can_change,
        "errors": errors,
        "INFERENCE_CELL": INFERENCE_CELL,
        "shorten": shorten,
        "MULTI_OUTPUT": CreationMeta.MULTI_OUTPUT_NODE,
        "NOWHERE": NOWHERE,
        "SPECIAL": (Leaf, View),
        "explained": interpret.explained,
        "respelled": respelled,
        "REQUIRED": REQUIRED,
        "Tensor": Tensor,
        "UNWRITTEN": UNWRITTEN,
        "new": new,
        "DEFAULT": CreationMeta.DEFAULT,
        "View": View,
        "attach": attach,
        "edge_of": edge_of,
        "fast": fast,
        "get_mode": get_mode,
        "next_seq": next_seq,
        "getframe": origin.getframe,
        "internal": origin.internal,
        "user_frame": origin.user_frame,
        "ndarray": numpy.ndarray,
        # Keeps subclasses: arrays without data stay what they are.
        "asarray": numpy.asanyarray,
        "numpy": numpy,
        "forward": op.forward,
        "ufunc": getattr(numpy, direct) if direct else None,
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
    lines = [f"def written({signature_of(op)}):", *_respelled(op)]
    if takes_sequence(op) or gives_sequence(op):
        return "\n".join([*lines, *_sequence_line(op)])
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
    lines = ["    try:"]
    for i, param in enumerate(op.inputs):
        numbers = param is _maybe_number(op)
        lines += ["        " + line for line in _array_of(i, param, leave, numbers=numbers)]
    return [*lines, "    except AttributeError:", f"        {leave}"]


def _normalised(op: Op) -> list[str]:
    """Dims and shapes brought to one form. Most are right as they are: a call takes 0.1 us."""
    lines = []
    for param in op.params:
        if param.check not in NORMALISE:
            continue
        name = param.name
        inside = f"{name}.__class__ is int and 0 <= {name} < a0.ndim"
        checked = f"as_{param.check}({name}, a0.ndim, {op.name!r})"
        if param.check == "dim":
            lines += [f"    if not ({inside}):", f"        {name} = {checked}"]
        elif param.check == "dims":
            lines += [
                f"    if {name} is not None:",
                f"        {name} = ({name}, ) if {inside} else {checked}",
            ]
        else:
            lines.append(f"    {name} = {checked}")
    return lines


def signature_of(op: Op, *, out: bool = True) -> str:
    """The parameters as they stand in a `def`."""
    spelled = _optional_by_spelling(op) if out else []
    parts = [_parameter(param, spelled) for param in op.params if not param.keyword_only]
    keywords = [_parameter(param, spelled) for param in op.params if param.keyword_only]
    if op.has_out and out:
        keywords.append("out=None")
    if out:
        keywords += [f"{name}=None" for name in op.spellings]
    return ", ".join([*parts, *(["*"] if keywords else []), *keywords])


def _parameter(param: Param, spelled: list[str]) -> str:
    if param.name in spelled:
        return f"{param.name}=REQUIRED"
    return param.name if param.default is REQUIRED else f"{param.name}=default_{param.name}"


def _optional_by_spelling(op: Op) -> list[str]:
    """Required parameters that may stay away, since `axis` is given: `dim`, and those after it."""
    names = [param.name for param in op.params]
    if "axis" not in op.spellings:
        return []
    following = op.params[names.index("dim") :]
    return [p.name for p in following if p.default is REQUIRED and not p.keyword_only]


def _respelled(op: Op) -> list[str]:
    """Leave for `respelled` where NumPy's names are used, or an argument is missing."""
    conditions = [f"{name} is not None" for name in op.spellings]
    if spelled := _optional_by_spelling(op):
        conditions += [f"{name} is REQUIRED" for name in dict.fromkeys((spelled[0], spelled[-1]))]
    if not conditions:
        return []
    args, kwargs = _everything(op).split("), {")
    renamed = "".join(f"'{name}': {name}, " for name in op.spellings)
    return [
        f"    if {' or '.join(conditions)}:",
        f"        return respelled(op, {args}), {{{renamed}{kwargs})",
    ]


def call_text(op: Op, *, out: bool = True) -> str:
    """The arguments of a call that hands all parameters on."""
    parts = [param.name for param in op.params if not param.keyword_only]
    keywords = [param.name for param in op.params if param.keyword_only]
    if op.has_out and out:
        keywords.append("out")
    if out:
        keywords += op.spellings
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
    made = ["    result = new(Tensor)", "    result._array = r"]
    if op.kind == "view":
        return lines + made + _viewed(op)
    lines += ["    if type(r) is not ndarray:", "        r = asarray(r)", *made]
    return lines + _recorded(op)


def _sequence_line(op: Op) -> list[str]:
    leave = f"return call(op, {_everything(op)})"
    if takes_sequence(op):
        node = node_lines(op, "tuple(edges)", "r.shape", "r.dtype", _frame())
        call = _call(op)[0].replace("a0", "arrays", 1)
        return sequence_line(op, leave, call, node)
    node = node_lines(op, "(edge,)", "a0.shape", "a0.dtype", _frame())
    return parts_line(op, leave, _normalised(op), _call(op)[0], node)


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
        *_memory_checked(op),
        "    tracked = False",
        "    if mode is plain and a0.dtype.kind in 'fcV':",
        *("    " + line for line in _edges(op, leave)),
        f"        if {' or '.join(f'{edge} is not None' for edge in edges)}:",
        "            tracked = True",
        f"            if {target}._node.__class__ in SPECIAL:",
        f"                check_history_can_change(called, {target})",
        *("            " + line for line in _before_write(op)),
        *_written(op),
        "    if cell.__class__ is tuple:",
        f"        cell = {target}._cell = [*cell]",
        "    cell[0] += 1",
        *_frame(),
        "    if code is not None:",
        "        cell.append((called, code, frame.f_lasti))",
        f"        if len(cell) > {MOST_WRITES}:",
        "            shorten(cell)",
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


def _memory_checked(op: Op) -> list[str]:
    """Only views are expanded; operands of which none is a view do not overlap in part."""
    sources = op.inputs[1:] if op.kind == "elementwise" else []
    given = [
        f"(a{i} is not None and a{i}.base is not None)"
        if param.kind == "optional"
        else f"a{i}.base is not None"
        for i, param in enumerate(sources, 1)
    ]
    arguments = ", ".join(f"a{i}" for i in range(len(sources) + 1))
    return [
        f"    if {' or '.join(['a0.base is not None', *given])}:",
        f"        check_writable(called, {arguments})",
    ]


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
        lines += [f"        if {usual}:", f"            ufunc({arguments}, a0)", "        else:"]
        lines += ["    " + line for line in after]
    else:
        lines += after
    return [
        *lines,
        "    except (ValueError, TypeError) as error:",
        f"        raise explained(op, {{{shown}}}, error, a0) from None",
    ]


def _maybe_number(op: Op) -> Param | None:
    """The input that may be a Python number without leaving the straight line."""
    if op.promote is not None:
        return op.inputs[1] if op.kind == "elementwise" and len(op.inputs) == 2 else None
    last = op.inputs[-1]
    allowed = op.numbers and len(op.inputs) > 1 and last.kind == "tensor" and last.name in op.rules
    return last if allowed else None


def _array_of(i: int, param: Param, leave: str, *, numbers: bool) -> list[str]:
    take = f"a{i} = {param.name}._array"
    if param.kind == "optional":
        return [f"a{i} = None if {param.name} is None else {param.name}._array"]
    if not numbers:
        return [take]
    # A number takes the dtype of the other operand if that is float32 or float64.
    return [
        f"kind = type({param.name})",
        "is_number = kind is float or kind is int",
        "if is_number:",
        "    d0 = a0.dtype",
        f"    a{i} = numbers64.get({param.name}) if d0 is F64 else numbers32.get({param.name})",
        f"    if a{i} is None or (d0 is not F64 and d0 is not F32):",
        "        if d0 is not F64 and d0 is not F32:",
        f"            {leave}",
        f"        a{i} = number_array({param.name}, d0)",
        "else:",
        f"    {take}",
    ]


def _not_plain(op: Op, *, out: bool = True) -> str:
    # In inference mode and under transforms `mode` is neither of the two.
    conditions = ["(mode is not plain and mode is not fast.no_grad)"]
    if op.kind == "view":
        conditions = ["mode is not plain"]  # views made under no_grad are of a kind of their own
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
        f"{general} if {unusual} else ufunc({arguments})" if unusual else f"ufunc({arguments})"
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


def _edges(op: Op, leave: str) -> list[str]:
    # An input that leads nowhere needs no values of the others: `interpret` sorts that out.
    careful = len(op.differentiable) > 1 and bool(Plan(op).inputs)
    lines = []
    for i, param in enumerate(op.differentiable):
        lines += [
            f"    n{i} = {_node_of(op, param)}",
            f"    if n{i} is not None and n{i}._special:",
            f"        n{i} = n{i}() or edge_of({param.name})",
        ]
        if careful:
            lines += [f"        if n{i} is NOWHERE:", f"            {leave}"]
    return lines


def _node_of(op: Op, param: Param) -> str:
    if param.kind == "optional":
        return f"None if {param.name} is None else {param.name}._node"
    if param is _maybe_number(op):
        return f"None if is_number else {param.name}._node"
    return f"{param.name}._node"


def _recorded(op: Op) -> list[str]:
    if not op.rules:
        return [
            "    result._cell = UNWRITTEN",
            "    result._node = None",
            "    return result",
        ]
    edges = [f"n{i}" for i in range(len(op.differentiable))]
    untracked = " and ".join(f"{edge} is None" for edge in edges)
    return [
        "    if mode is not plain:",
        "        result._cell = fast.unrecorded",
        "        result._node = None",
        "        return result",
        *_edges(op, f"return call(op, {_everything(op)})"),
        f"    if {untracked}:",
        "        result._cell = UNWRITTEN",
        "        result._node = None",
        "        return result",
        f"    result._cell = {'[0]' if Plan(op).outputs else 'UNWRITTEN'}",
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
        "    if mode is not plain:",
        f"        {' = '.join(f'result{i}._cell' for i in numbers)} = fast.unrecorded",
        f"        {finished}",
        *_edges(op, f"return call(op, {_everything(op)})"),
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
    return [
        *_edges(op, f"return call(op, {_everything(op)})"),
        "    if n0 is None:",
        "        node = None",
        "    else:",
        *("    " + line for line in _node(op)),
        *attach_lines(op.inputs[0].name),
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
        "    node = new(NodeClass)",
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
    if param is _maybe_number(op):
        return f"None if is_number else {param.name}._cell[0]"
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
