"""Built-in operators as overload objects: `pullback.ops.aten.<name>.<overload>`.

They are what dispatch modes are given. An overload runs the public function of its name, so calling
it does all that calling the function does; parts of operators that torch does not have stand in the
namespace `pullback` under the names of their declarations.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from importlib import import_module
from typing import Any, NamedTuple

import numpy

import pullback
from pullback.core.dtype import from_numpy_dtype
from pullback.core.home import is_ours
from pullback.core.mode import get_mode
from pullback.core.ports import ports
from pullback.core.tensor import Tensor
from pullback.library.builtin.adjoints import WRITTEN
from pullback.library.builtin.calls import CALLS, RUNS, Call
from pullback.library.builtin.names import OVERLOADS
from pullback.library.builtin.schema import other_names, schema_of, torchs_schemas
from pullback.library.builtin.tags import tags_of
from pullback.library.overload import OpNamespace, OpOverload, OpOverloadPacket
from pullback.library.registry import _packets
from pullback.library.schema import parse_schema
from pullback.operators.declare import OPERATORS, Op
from pullback.operators.dispatch import dispatch
from pullback.operators.pointwise.foreach import FUNCTIONS as FOREACH

__all__ = ["namespace", "overload_of"]

_UNDERSCORED = frozenset(
    {
        *("_cdist_forward", "_conj", "_dirichlet_grad", "_prelu_kernel", "_sample_dirichlet"),
        *("_standard_gamma", "_standard_gamma_grad", "_unsafe_view"),
    }
)
_MODULES = (("special_", "special"), ("linalg_", "linalg"), ("fft_", "fft"))


# Names and what runs them ------------------------------------------------------------------------


def _function(name: str) -> Callable[..., Any] | None:
    """The public function behind one of torch's names."""
    if name in RUNS:
        return RUNS[name]
    if name in WRITTEN:
        return WRITTEN[name][1]
    if name.startswith("_foreach_"):
        return FOREACH.get(name)
    if name.startswith("_") and name not in _UNDERSCORED:
        return None
    for prefix, module in _MODULES:
        if name.startswith(prefix):
            found = getattr(getattr(pullback, module), name.removeprefix(prefix), None)
            return found if callable(found) else None
    for place in (pullback, Tensor, pullback.nn.functional):
        found = getattr(place, name, None)
        if callable(found) and not isinstance(found, type):
            public: Callable[..., Any] = found
            return public
    return _declared(name)


def _declared(name: str) -> Callable[..., Any] | None:
    """A declared operator that is spelled so and has no public function."""
    for op in list(OPERATORS.values()):
        if op.aten and op.aten.partition(".")[0] == name:
            function: Callable[..., Any] = op.function
            return function
    declared = OPERATORS.get(name)
    return None if declared is None else declared.function


def is_known(name: str) -> bool:
    """Whether torch has an operator of this name that is here too."""
    return _aten(name) is not None


def declared(name: str) -> Callable[..., Any] | None:
    """The declared operator behind one of torch's names, or behind its in-place form."""
    _function(name)  # which loads its family
    return _declared(name) or _declared(name.removesuffix("_"))


def _written(name: str, overload: str) -> tuple[str, Callable[..., Any]] | None:
    """Schema and function of an overload that adjoints.py has."""
    key = f"{name}.{overload}"
    return WRITTEN.get(key) or (WRITTEN.get(name) if overload == "default" else None)


class BuiltinOverload(OpOverload):
    """An overload that takes arguments under torch's names, whatever its function's are."""

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Run the function."""
        if kwargs:
            kwargs = {self._renamed.get(name, name): value for name, value in kwargs.items()}
        return self._op(*args, **kwargs)

    @property
    def _renamed(self) -> dict[str, str]:
        """Torch's names of positional arguments -> the function's names at the same places."""
        try:
            found = self.__dict__["_names"]
        except KeyError:
            found = self.__dict__["_names"] = other_names(self._schema, self._op)
        known: dict[str, str] = found
        return known


class BuiltinPacket(OpOverloadPacket):
    """All overloads of a built-in name; called, it runs the public function."""

    def __init__(self, namespace: str, name: str, run: Callable[..., Any]) -> None:
        super().__init__(namespace, name, run.__doc__)
        self._run = run

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Run the function, which tells its overloads apart itself."""
        if "self" in kwargs:
            return self._chosen(args, kwargs)(*args, **kwargs)
        return self._run(*args, **kwargs)

    def _chosen(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> OpOverload:
        return next(iter(self._overloads.values()))

    def _with(self, overload: str) -> OpOverload:
        """The overload of this name, added where it is an `out` form."""
        if overload not in self._overloads:
            builtin = self.namespace == "aten"
            text, run = _written(self._opname, overload) or ("", self._run)
            run = RUNS.get(f"{self._opname}.{overload}", run)
            text = (builtin and torchs_schemas().get(f"{self._opname}.{overload}")) or text
            if text:
                schema = parse_schema(text.replace(".default", ""))
            else:
                schema = schema_of(self.namespace, self._opname, overload, self._run)
            tags = tags_of(self._opname, overload) if builtin else ()
            self._add(BuiltinOverload(self, schema, run, tags=tags, doc=run.__doc__))
        return self._overloads[overload]


@cache
def _aten(name: str) -> BuiltinPacket | None:
    run = _function(name)
    if run is None:
        return None
    packet = BuiltinPacket("aten", name, run)
    base = name.removesuffix("_") if hasattr(Tensor, name) else name
    overloads = OVERLOADS.get(name) or OVERLOADS.get(base) or ("default",)
    for overload in overloads:
        packet._with(overload)
    if getattr(getattr(run, "op", None), "has_out", False):
        packet._with("out")
    return packet


@cache
def _own(name: str) -> BuiltinPacket | None:
    for key, op in list(OPERATORS.items()):
        if _own_name(key) == name:
            packet = BuiltinPacket("pullback", name, op.function)
            packet._with("default")
            return packet
    return None


def _own_name(key: str) -> str:
    return key.replace(".", "_").replace("-", "_")


def _found(space: str, builtin: Callable[[str], OpOverloadPacket | None]) -> OpNamespace:
    """A namespace of built-in operators, to which users may have added theirs."""
    return OpNamespace(space, lambda name: builtin(name) or _packets.get(f"{space}::{name}"))


@cache
def _prim(name: str) -> BuiltinPacket | None:
    """What a class is asked for that tells its tensors' device and layout itself."""
    if name not in ("device", "layout"):
        return None
    packet = BuiltinPacket("prim", name, vars(Tensor)[name].__get__)
    packet._with("default")
    return packet


@cache
def _prims(name: str) -> BuiltinPacket | None:
    """An operator of torch's references, which are functions of `pullback._prims` here."""
    module = import_module("pullback._prims")
    run = None if name.startswith("_") else getattr(module, name, None)
    own = is_ours(run, "_prims", "torch_names._prims")
    if not (own or name in module._SAME or name in module._RENAMED):
        return None
    assert run is not None  # it has a name there
    packet = BuiltinPacket("prims", name, run)
    packet._with("default")
    return packet


def _of_functions(name: str) -> Any:
    """Operators that take functions, found when first asked for."""
    from pullback.library.builtin.higher_order import higher_order

    return higher_order(name)


_NAMESPACES = {
    "aten": _found("aten", _aten),
    "higher_order": OpNamespace("higher_order", _of_functions),
    "prim": _found("prim", _prim),
    "prims": _found("prims", _prims),
    "pullback": _found("pullback", _own),
}


def namespace(name: str = "aten") -> OpNamespace:
    """Built-in operators under torch's names ("aten"), or those that are ours alone ("pullback").

    >>> from pullback.library.builtin.overloads import namespace
    >>> namespace().add.Tensor
    <OpOverload(op='aten.add', overload='Tensor')>
    """
    return _NAMESPACES[name]


# From a call to its overload ---------------------------------------------------------------------

_keys: dict[int, str] = {}


def _key_of(op: Op) -> str:
    """The name of a declaration; in-place forms that write directly have a copy of it."""
    declared = op.function.op if op.function is not None else op
    if id(declared) not in _keys:
        _keys.update({id(one): key for key, one in list(OPERATORS.items())})
    return _keys.get(id(declared), op.name)


def overload_of(op: Op, called: str, bound: dict[str, Any]) -> dispatch.Spelled:
    """The overload that stands for a call of an operator, and the arguments it takes."""
    try:
        usual = _usual[op, called]
    except KeyError:
        usual = _usual[op, called] = _usual_spelling(op, called)
    if usual is None or bound.get("out") is not None:
        return _closely(op, called, bound)
    for name, default in usual.unspelled:
        if bound[name] is not default:
            return _closely(op, called, bound)
    overload = usual.overload
    if usual.deciding and not isinstance(bound[usual.deciding], Tensor):
        overload = usual.otherwise
    if usual.as_given:
        return overload, tuple([bound[name] for name in usual.names]), {}, None
    args, kwargs = _arguments(op, usual.names, usual.keywords, bound)
    return overload, args, kwargs, None


def has_overload_of_torch(key: str) -> bool:
    """Whether handlers below autograd get a declared operator as an overload that torch has too."""
    return key in CALLS or _spelling(key) is not None


def _usual_overload(op: Op) -> tuple[Any, Any, str] | None:
    """The overloads for calls whose arguments are handed over as they are, and what decides."""
    key = (op, op.name)
    if key not in _usual:
        _usual[key] = _usual_spelling(*key)
    usual = _usual[key]
    if usual is None or not usual.as_given or usual.unspelled or usual.names != op.positional:
        return None
    return usual.overload, usual.otherwise, usual.deciding


class _Usual(NamedTuple):
    """The spelling of an operator's calls, worked out once."""

    overload: OpOverload
    otherwise: OpOverload  # where no tensor is passed for `deciding`
    deciding: str
    names: tuple[str, ...]
    keywords: tuple[str, ...]
    as_given: bool  # arguments are handed over as they are: all are tensors
    unspelled: tuple[tuple[str, Any], ...]  # options that must stand at these defaults


_usual: dict[tuple[Op, str], _Usual | None] = {}


def _usual_spelling(op: Op, called: str) -> _Usual | None:
    """None for calls that are spelled in ways of their own."""
    key = _key_of(op)
    spelling = None if key in CALLS else _spelling(key)
    if spelling is None or key == "sort.stable" or any(p.name == "fill" for p in op.params):
        return None
    packet = _aten(_name_called(op, called, spelling.name))
    if packet is None:
        return None
    names = op.positional if spelling.names is None else tuple(spelling.names)
    keywords = spelling.keywords
    if keywords is None:
        keywords = [param.name for param in op.params if param.keyword_only]
    own = packet._with(spelling.overload)
    other = packet._with(spelling.otherwise) if spelling.deciding else own
    as_given = all(param.is_tensor and not param.keyword_only for param in op.params)
    as_given = as_given and not op.has_defaults
    unspelled = tuple(
        (param.name, param.default)
        for param in op.params
        if key.endswith(".full") and param.kind in ("dim", "dims")
    )
    return _Usual(own, other, spelling.deciding, names, tuple(keywords), as_given, unspelled)


def _name_called(op: Op, called: str, name: str) -> str:
    """Torch's name of a call: that of the operator, or of its in-place form."""
    if called == op.name:  # comparisons are declared once more for their in-place forms
        return called if called == f"{name}_" else name
    if hasattr(Tensor, called):
        return called
    return name if name.endswith("_") else f"{name}_"


def _closely(op: Op, called: str, bound: dict[str, Any]) -> dispatch.Spelled:
    key = _key_of(op)
    out = bound.get("out")
    if "fill" in bound and called.endswith("_"):
        key = "fill"
    call = _spelled(key, op, bound)
    if call is None:
        packet = _own(_own_name(key))
        args, kwargs = _arguments(op, list(op.positional), None, bound)
        overload = "default"
    else:
        packet = _aten(_name_called(op, called, call.name))
        overload, args, kwargs = call.overload, call.args, dict(call.kwargs)
    if packet is None:
        raise RuntimeError(f"{key}: no overload object is known for this operator.")
    if out is not None:
        overload, kwargs = "out", {**kwargs, "out": out}
    return packet._with(overload), args, kwargs, None if call is None else call.finish


def _spelled(key: str, op: Op, bound: dict[str, Any]) -> Call | None:
    """A call in torch's spelling; None for what torch does not have."""
    if key in CALLS:
        return CALLS[key](bound)
    spelling = _spelling(key)
    if spelling is None:
        return None
    if key.endswith(".full") and _names_dims(op, bound):
        # The operator over everything, as vmap calls it: over all but the batch.
        return _spelled(key.removesuffix(".full"), op, bound)
    overload = spelling.overload
    if spelling.deciding and not isinstance(bound[spelling.deciding], Tensor):
        overload = spelling.otherwise
    names = list(op.positional) if spelling.names is None else spelling.names
    args, kwargs = _arguments(op, names, spelling.keywords, bound)
    if key == "sort.stable":
        kwargs["stable"] = True
    return Call(spelling.name, overload, args, kwargs)


def _names_dims(op: Op, bound: dict[str, Any]) -> bool:
    named = (param for param in op.params if param.kind in ("dim", "dims"))
    return any(not dispatch.is_default(bound[param.name], param.default) for param in named)


class _Spelling(NamedTuple):
    """A line of the table of spellings, taken apart."""

    name: str
    overload: str
    otherwise: str  # the overload where no tensor is passed for `deciding`
    deciding: str
    names: list[str] | None  # of the positional arguments; None: as declared
    keywords: list[str] | None


@cache
def _spelling(key: str) -> _Spelling | None:
    op = OPERATORS.get(key)
    spelling = None if op is None else op.aten
    if spelling == "" or (spelling is None and key.startswith("_")):
        return None
    spelling = spelling or f"{_torch_name(key)}.default"
    head, _, listed = spelling.partition("(")
    name, _, overload = head.partition(".")
    overload, _, deciding = overload.partition(":")
    overload, _, otherwise = overload.partition("|")
    positional, _, keywords = listed.rstrip(")").partition("*")
    names = (positional.split(), keywords.split()) if listed else (None, None)
    return _Spelling(name, overload, otherwise, deciding, *names)


def _torch_name(key: str) -> str:
    for prefix, module in _MODULES:
        if key.startswith(f"{module}."):
            return prefix + key.removeprefix(f"{module}.")
    return key.removeprefix("nn.functional.")


def _arguments(
    op: Op, names: Sequence[str], keywords: Sequence[str] | None, bound: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional arguments without trailing defaults, and keywords that differ from theirs."""
    kinds, defaults = _kinds_and_defaults(op)
    if keywords is None:
        keywords = [param.name for param in op.params if param.keyword_only]
    count = len(names)
    while count and dispatch.is_default(bound[names[count - 1]], defaults[names[count - 1]]):
        count -= 1
    args = tuple([_shown(op, kinds[name], bound[name]) for name in names[:count]])
    kwargs = {}
    for name in keywords:
        value = bound[name]
        if value is not defaults[name] and not dispatch.is_default(value, defaults[name]):
            kwargs[name] = _shown(op, kinds[name], value)
    return args, kwargs


@cache
def _kinds_and_defaults(op: Op) -> tuple[dict[str, str], dict[str, Any]]:
    kinds = {param.name: param.kind for param in op.params}
    return kinds, {param.name: param.default for param in op.params} | op.aten_defaults


_ONE_DIM = frozenset({"prod", "argmax", "argmin"})


def _shown(op: Op, kind: str, value: Any) -> Any:
    """An option as torch's overloads take it: lists of dimensions, and dtypes of ours."""
    if kind == "tensor":
        return value
    if kind == "dims" and isinstance(value, int) and op.name not in _ONE_DIM:
        return [value]
    if kind in ("dims", "shape") and isinstance(value, tuple):
        return list(value)
    return from_numpy_dtype(value) if isinstance(value, numpy.dtype) else value


def _lift_fresh(input: Tensor) -> Tensor:
    """A tensor of given numbers, as the modes that are left make one of it."""
    return _answered_below("lift_fresh", input) if get_mode().dispatch else input


# Their declarations are not asked for by name.
RUNS.update(
    lift_fresh=_lift_fresh,
    lift_fresh_copy=lambda input: input.clone(),
    log_sigmoid=OPERATORS["nn.functional.logsigmoid"].function,
    detach=lambda input: input.detach(),
    _local_scalar_dense=lambda input: input.item(),
    sym_size=lambda input: list(Tensor.shape.__get__(input)),
    sym_stride=lambda input: list(Tensor.stride(input)),
    sym_numel=lambda input: Tensor.numel(input),
    sym_storage_offset=lambda input: Tensor.storage_offset(input),
)


def _detached_below(tensor: Tensor) -> Tensor:
    """detach() as the class of a tensor answers it."""
    made: Tensor = _answered_below("detach", tensor)
    if not isinstance(made, Tensor):
        return made  # as a class may want it
    return made._alias() if made is tensor or made._node is not None else made


def _answered_below(name: str, *args: Any, space: str = "aten") -> Any:
    """What handlers below autograd make of a function that is no declared operator."""
    packet = _aten(name) if space == "aten" else _prim(name)
    assert packet is not None, name
    return dispatch.hand_over(packet._with("default"), args, {})


ports.fill(usual_overload=_usual_overload)
ports.fill(overload_of=overload_of, detached_below=_detached_below, answered_below=_answered_below)
