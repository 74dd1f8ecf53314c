"""An operator is one declaration: a forward over arrays, and a rule for each differentiable input.

A decorator of this file, named after the operator's kind, turns the declaration into the function
that users call; `function.op` is the declaration. Parameters are told apart by their annotation:

    Array            a tensor                  Array | None    a tensor or nothing
    Arrays           a sequence of tensors     anything else   an option
    Dim, Dims        options that name dimensions (checked, made non-negative, shifted by vmap)
    Shape            an option that is a shape
    int, float, Number (real or not), and the first two `| None`: options that are nothing else

A rule asks for what it needs by parameter name: `g` (the gradient of the output), an input, an
option, `out`, `<input>_shape`, `<input>_dtype`, and if linear `<input>_turned` (whether a matrix
lies in memory column by column); with several outputs `g_<output>` and their names.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from functools import cache
from inspect import Parameter, Signature
from types import FunctionType
from typing import Any, NamedTuple, ParamSpec, TypeAlias, TypeVar

from pullback.core.arrays import Array, Namespace
from pullback.core.home import home_of
from pullback.core.ports import ports
from pullback.core.tensor import Tensor
from pullback.core.writer import theirs
from pullback.operators.choice import choice_of, inline_text
from pullback.operators.conditions import Condition, always
from pullback.operators.dispatch.layers import code_of
from pullback.operators.kernels import Kernel

Arrays: TypeAlias = Sequence[Any]
Dim: TypeAlias = int
Dims: TypeAlias = Any  # None, an int, or a sequence of ints
Shape: TypeAlias = Any  # an int or a sequence of ints
Number: TypeAlias = Any  # of any kind, or a tensor of one that needs no gradient
Rule: TypeAlias = Callable[..., Any]

P = ParamSpec("P")
T = TypeVar("T")

__all__ = [
    "Array",
    "Arrays",
    "Dim",
    "Dims",
    "Namespace",
    "Number",
    "Op",
    "Shape",
    "elementwise",
    "linear",
]

REQUIRED: Any = object()
# What torch's parser takes for an operand besides its own name: NumPy's names.
OPERAND_NAMES = {"input": ("x", "a", "x1"), "other": ("x2",)}
_TENSOR_KINDS = {"Array": "tensor", "Array | None": "optional", "Arrays": "tensors"}
_OPTION_KINDS = {"Dim": "dim", "Dims": "dims", "Shape": "shape"}
# Annotations that alone say which values there are; options.py refuses others. `bool` has `flags`.
_TYPED = frozenset({"int", "float", "Number", "int | None", "float | None"})
# The names of the checks of options.py, see `Param.check`.
CHECKS = frozenset({"dim", "dims", "optional_dim", "required_dims", "shape"})


class Param(NamedTuple):
    """One parameter of an operator."""

    name: str
    kind: str  # tensor, optional, tensors, dim, dims, shape, option
    default: Any
    keyword_only: bool

    @property
    def local(self) -> str:
        """It as a variable of written code, whose own names give way to it."""
        return theirs(self.name)

    @property
    def is_tensor(self) -> bool:
        """Whether tensors are passed here."""
        return self.kind in ("tensor", "optional", "tensors")

    @property
    def check(self) -> str:
        """The check of options.py for it: None is for what has a default."""
        if self.kind == "dim" and self.default is None:
            return "optional_dim"
        return "required_dims" if self.kind == "dims" and self.default is REQUIRED else self.kind


class Op:
    """A declared operator: everything that is known about it, in one place."""

    def __init__(
        self, kind: str, forward: Any, rules: dict[str, Rule], about: dict[str, Any]
    ) -> None:
        self.kind = kind
        # What it means, as declared; and what runs on arrays: that, or the choice among kernels.
        self.meaning = forward
        self.forward = forward
        self.kernels: tuple[Kernel, ...] = ()
        self.rules = rules
        self.name: str = about.pop("name", None) or forward.__name__
        self.params = _params(forward)
        names = [param.name for param in self.params if param.is_tensor]
        if taken := about.keys() & names:
            raise TypeError(
                f"{self.name}: a tensor that has a rule cannot be called {min(taken)!r}, as a "
                "field of the declaration is."
            )
        self.outputs: tuple[str, ...] = tuple(about.pop("outputs", "out").split())
        # Outputs that carry no gradient (indices, masks).
        self.fixed_outputs: frozenset[str] = frozenset(about.pop("fixed", "").split())
        # To which dtype tensor inputs are brought: "same", "float", or None (left as they are).
        self.promote: str | None = about.pop("promote", "same" if kind == "elementwise" else None)
        # Whether vmap may batch an operator of one tensor by shifting its annotated options alone.
        self.shifts: bool = about.pop("shifts", True)
        # Where a Python number may stand for a tensor: at all inputs (True), or at those named.
        given: bool | str = about.pop("numbers", self.promote is not None)
        self.number_names = frozenset(
            given.split() if isinstance(given, str) else names if given else ()
        )
        self.numbers: bool = bool(self.number_names)
        # Whether all of them may be numbers at once: `torch.add(1, 2)`.
        self.of_numbers: bool = about.pop("of_numbers", False)
        # Whether numbers beside half precision stay float32, and only the result is rounded.
        self.wide_numbers: bool = about.pop("wide_numbers", False)
        self.has_out: bool = about.pop("has_out", kind != "view")
        # Whether `out=` must have the dtype of the result, where others convert to a wider one.
        self.exact_out: bool = about.pop("exact_out", False)
        # Whether operands of the in-place form must not be on the memory of its target.
        self.apart: bool = about.pop("apart", False)
        # Whether a result is converted to the dtype of `out=`; else that must be its own. Most
        # elementwise operators do, most others do not, as in torch.
        self.casts_out: bool = about.pop("casts_out", kind == "elementwise")
        # Refuses inputs by what they are before promotion: a function of (op's name, arrays).
        self.check_inputs: Callable[[str, dict[str, Any]], None] | None = about.pop(
            "check_inputs", None
        )
        # All gradients in one pass, where rules would do the same work twice: a function of `edges`
        # (None where no gradient is wanted) and of what the first input's rule asks for. Called on
        # arrays, where that and some other gradient are wanted.
        self.fused_backward: Rule | None = about.pop("fused_backward", None)
        # The forward written over its first input: a function of `out` and the forward's arguments
        # for float32 or float64 operands of one dtype, and Python numbers; see arrays/scaled.py.
        self.out_kernel: Callable[..., None] | None = about.pop("out_kernel", None)
        # The forward for most arguments as an expression of the array `a0` and of options, `$dim`,
        # which the written line has in place of a call. Where NumPy refuses it, the forward runs.
        # It may name what its module can; what is right for NumPy's arrays alone says so, by
        # `ndarray is host_array`. Where a kernel says `inline=True`, it is that.
        self._inline: str | None = about.pop("inline", None)
        # The kernels of its formula, see formula/declare.py; None where the forward is by hand.
        self.formula: Any = about.pop("formula", None)
        self.jvp: Rule | None = about.pop("jvp", None)
        self.batch: Rule | None = about.pop("batch", None)
        # A view whose geometry strides cannot express is replayed, not restrided.
        self.strided: bool = about.pop("strided", True)
        # Where users find it: "" for the top level, else "linalg", "nn.functional", "special" ...
        self.space: str = about.pop("space", "")
        # Whether Tensor gets it as a method, and an in-place form with a trailing underscore.
        self.method: bool = about.pop("method", not self.space and not self.name.startswith("_"))
        self.inplace: bool = about.pop("inplace", kind == "elementwise" and self.method)
        self.node_name: str = about.pop("node", None) or _camel(self.name) + "Backward0"
        # Torch's overload for its calls, in the spelling of library/builtin/names.py. None: its own
        # name and `default`; "": torch has none. And defaults that torch has there and we have not.
        self.aten: str | None = about.pop("aten", None)
        self.aten_defaults: dict[str, Any] = about.pop("aten_defaults", {})
        # How shapes follow without data: "lengths kept" (each length of the result is one of an
        # input's), "like first" (the first input's), "by values" (they do not); "": by trying.
        self.meta: str = about.pop("meta", "")
        if self.meta not in ("", "lengths kept", "like first", "by values"):
            raise TypeError(f"{self.name}: there is no meta={self.meta!r}.")
        # Options that once were positional, as numbers between the tensors: `x.add_(2, y)`. Such
        # calls still work; see `numbers_between`.
        self.once_positional: tuple[str, ...] = tuple(about.pop("once_positional", "").split())
        # What its node does before somebody looks at where it leads: a function of the node.
        self.shows: Callable[[Any], None] | None = about.pop("shows", None)
        # Whether results are of another kind (sparse): then there is no fast path to write.
        self.makes_layout: bool = about.pop("makes_layout", False)
        if about:
            raise TypeError(f"{self.name}: a declaration has no {sorted(about)}.")
        # The parameters that take tensors, and those of them that have a rule, in the order of
        # edges.
        self.inputs = tuple(param for param in self.params if param.is_tensor)
        self.differentiable = tuple(param for param in self.params if param.name in rules)
        self.positional = tuple(param.name for param in self.params if not param.keyword_only)
        self.keywords = frozenset(param.name for param in self.params if param.keyword_only)
        # Options that name dimensions or shapes: checked, and brought to one form.
        self.checked = tuple(param for param in self.params if param.check in CHECKS)
        # Options that are True or False, and nothing that counts as one of them. Of reductions the
        # functions around them look at `keepdim`, and say that dims are given as a tuple.
        self.flags = tuple(
            param
            for param in self.params
            if type(param.default) is bool and param.name != "keepdim"
        )
        # Options that are ints or real numbers by their annotation. What begins with an underscore
        # is called by functions that have looked.
        self.typed: dict[str, str] = (
            {} if self.name.startswith("_") else _annotated(forward, self.params)
        )
        self.has_defaults = any(param.default is not REQUIRED for param in self.params)
        # NumPy's names for what torch calls otherwise, taken too: `x.amax(axis=0, keepdims=True)`.
        known = {param.name for param in self.params}
        self.spellings: dict[str, str] = {
            theirs: ours
            for theirs, ours in (("axis", "dim"), ("keepdims", "keepdim"))
            if ours in known and theirs not in known and not self.name.startswith("_")
        }
        # And those of operands: `torch.sin(x=t)`, `torch.add(x1=a, x2=b)`.
        self.operand_names: dict[str, str] = {
            theirs: param.name
            for param in self.inputs
            for theirs in OPERAND_NAMES.get(param.name, ())
            if param.kind == "tensor" and theirs not in known and not self.name.startswith("_")
        }
        # What rules may call the gradients of the outputs.
        several = tuple(f"g_{name}" for name in self.outputs if name not in self.fixed_outputs)
        self.gradient_names: tuple[str, ...] = ("g",) if len(self.outputs) == 1 else several
        self._check_names()
        self._check_rules()
        self.function: Any = None

    def _check_names(self) -> None:
        """Refuse parameters that rules or nodes could not tell from something else.

        What the written code calls its own does not matter: that gives way.
        """
        inputs = [param.name for param in self.inputs]
        meant = dict.fromkeys(self.outputs, "as a result is")
        meant |= dict.fromkeys(["out"] if self.has_out else [], "as where results go is")
        for end in ("_v", "_c"):  # of slots of a node
            saved = [name + end for name in (*inputs, *self.outputs)]
            meant |= dict.fromkeys(saved, "as a node calls the version of a saved value")
        for param in self.params:
            if why := meant.get(param.name):
                raise TypeError(
                    f"{self.name}: a parameter cannot be called {param.name!r}, {why}; rename it, "
                    "or put a plain function with that name before the operator."
                )

    def _check_rules(self) -> None:
        names = [param.name for param in self.params]
        tensors = [param.name for param in self.inputs]
        known = {*names, *self.outputs, *self.gradient_names, "g"}
        known |= {name + end for name in tensors for end in ("_shape", "_dtype")}
        if self.kind in ("linear", "multilinear"):  # whose rules serve backwards only
            known |= {name + "_turned" for name in tensors}
        for input_name, rule in self.rules.items():
            if input_name not in tensors:
                raise TypeError(
                    f"{self.name}: a rule for {input_name!r}, but tensors are {tensors}."
                )
            if unknown := set(parameters_of(rule)) - known:
                raise TypeError(
                    f"{self.name}: the rule for {input_name!r} asks for {sorted(unknown)}; known "
                    "are "
                    f"{sorted(known)}."
                )

    @property
    def inline(self) -> str:
        """The expression for most arguments, `""` where there is none; see `__init__`."""
        if self._inline is None:
            self._inline = inline_text(self)
        return self._inline

    def add_kernel(self, kernel: Kernel) -> None:
        """Enter one more kernel, after those that there are; see `kernel`."""
        if any(one.name == kernel.name and one.on == kernel.on for one in self.kernels):
            raise TypeError(f"{self.name}: there is a kernel {kernel.name!r} already.")
        if kernel.inline and self._inline is not None:
            raise TypeError(f"{self.name}: it has an expression in line already.")
        self.kernels = (*self.kernels, kernel)
        if kernel.on == "host" and self.forward is self.meaning:
            self.forward = choice_of(self)

    def __repr__(self) -> str:
        return f"<operator {self.name}>"


def parameters_of(rule: Any) -> tuple[str, ...]:
    """Names of a rule's parameters."""
    code = code_of(rule)
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def _params(forward: Any) -> tuple[Param, ...]:
    forward = inspect.unwrap(forward)  # a decorator takes whatever the arithmetic takes
    code, annotations = forward.__code__, forward.__annotations__
    positional = code.co_varnames[1 : code.co_argcount]  # without xp
    keywords = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    defaults = forward.__defaults__ or ()
    filled = dict(zip(positional[len(positional) - len(defaults) :], defaults, strict=True))
    filled.update(forward.__kwdefaults__ or {})
    params = []
    for name in (*positional, *keywords):
        hint = annotations.get(name, "")
        kind = _TENSOR_KINDS.get(hint) or _OPTION_KINDS.get(hint, "option")
        params.append(Param(name, kind, filled.get(name, REQUIRED), name in keywords))
    return tuple(params)


def _annotated(forward: Any, params: tuple[Param, ...]) -> dict[str, str]:
    """The options whose annotation alone says what they are."""
    hints = inspect.unwrap(forward).__annotations__
    options = [param.name for param in params if param.kind == "option"]
    return {name: hints[name] for name in options if hints.get(name) in _TYPED}


def _camel(name: str) -> str:
    return "".join(part.capitalize() for part in name.split("_") if part)


# The table of all declarations, by qualified name; filled as the families are imported.
OPERATORS: dict[str, Op] = {}


def stub(*args: Any, **kwargs: Any) -> Any:
    """The code of a function until its first call, which writes it; see `unwritten`."""
    return build_now()(*args, **kwargs)  # type: ignore[name-defined]  # noqa: F821 (in the scope it runs in)


def unwritten(op: Op, called: str, **about: Any) -> Any:
    """A function of an operator whose code is written on its first call.

    It keeps its identity, so every reference taken before (methods, from-imports) becomes fast too.
    """
    scope: dict[str, Any] = {"__name__": home_of(op.forward)}
    function = FunctionType(stub.__code__, scope, called)
    scope["build_now"] = lambda: ports.build(function, op, called, **about)
    function.__module__ = op.forward.__module__
    function.__qualname__ = called
    function.__signature__ = _signature(op, out=not about.get("inplace"))  # type: ignore[attr-defined]  # inspect's name
    return function


def _signature(op: Op, *, out: bool) -> Signature:
    """What `help` shows, also before the code with these parameters is written."""
    out = op.has_out and out
    # Most operators take tensors alone, under a few names.
    return (_new_signature if op.has_defaults else _known_signature)(op.params, out)


def _new_signature(params: tuple[Param, ...], out: bool) -> Signature:
    parameters = [
        Parameter(
            param.name,
            Parameter.KEYWORD_ONLY if param.keyword_only else Parameter.POSITIONAL_OR_KEYWORD,
            default=Parameter.empty if param.default is REQUIRED else param.default,
        )
        for param in params  # keyword-only ones come last, as in a `def`
    ]
    if out:
        parameters.append(Parameter("out", Parameter.KEYWORD_ONLY, default=None))
    return Signature(parameters, __validate_parameters__=False)


_known_signature = cache(_new_signature)


def _declare(kind: str, forward: Any, rules: dict[str, Rule], about: dict[str, Any]) -> Any:
    op = Op(kind, forward, rules, about)
    function = unwritten(op, op.name)
    function.__doc__ = forward.__doc__
    function.op = op  # how everything else finds the declaration
    op.function = function
    _enter(op)
    return function


def _enter(op: Op) -> None:
    """Put it in the table; a module that is loaded again may replace its own."""
    key = f"{op.space}.{op.name}" if op.space else op.name
    known = OPERATORS.get(key)
    if known is not None and home_of(known.forward) != home_of(op.forward):
        raise TypeError(
            f"There is an operator {key!r} in {home_of(known.forward)} already; give the one in "
            f"{home_of(op.forward)} another name."
        )
    OPERATORS[key] = op


def kernel(
    *functions: Callable[..., Any], when: Condition = always, **about: Any
) -> Callable[[T], T]:
    """Make a function of arrays a kernel of these operators, after those that they have.

    It takes parameters of the operator, `xp` and facts (`input_shape`, `input_size`) by name, and
    runs where its condition holds; `kernels.Kernel` has what else there is to say `about` it.
    """

    def enter(function: Any) -> Any:
        for one in functions:
            op: Op = one.op  # type: ignore[attr-defined]  # a declared operator has it
            op.add_kernel(Kernel(op, function, when, **about))
        return function

    return enter


# Plain functions of operators that are methods of Tensor too, by method name.
METHODS: dict[str, Callable[..., Any]] = {}


def method(function: Callable[P, T]) -> Callable[P, T]:
    """Make a plain function of operators a method of Tensor as well."""
    METHODS[function.__name__] = function
    return function


# Plain functions that no guard stands before (dispatch/guards.py).
QUICK: set[Callable[..., Any]] = set()


def quick(function: Callable[P, T]) -> Callable[P, T]:
    """Spare a plain function its guard, which would cost it most.

    It takes no tensors, or else an operator of its own name meets what it does not know, and asks
    as the same function.
    """
    QUICK.add(function)
    return function


def elementwise(**declared: Any) -> Callable[[Callable[..., Array]], Callable[..., Tensor]]:
    """Each output element depends on the input elements at its place; inputs broadcast."""
    return _decorator("elementwise", declared)


def linear(**declared: Any) -> Callable[[Callable[..., Array]], Callable[..., Tensor]]:
    """Linear in its one tensor: the tangent goes through the operator itself."""
    return _decorator("linear", declared)


def multilinear(**declared: Any) -> Callable[[Callable[..., Array]], Callable[..., Tensor]]:
    """Linear in each tensor: the tangent has one term per input."""
    return _decorator("multilinear", declared)


def view(**declared: Any) -> Callable[[Callable[..., Array]], Callable[..., Tensor]]:
    """Linear, and the result shares the memory of its one tensor."""
    return _decorator("view", declared)


def primitive(**declared: Any) -> Callable[[Callable[..., Array]], Callable[..., Any]]:
    """Anything else; forward mode needs `jvp=`."""
    return _decorator("primitive", declared)


_ABOUT = (
    *("name", "outputs", "fixed", "promote", "has_out", "jvp", "batch", "strided", "node"),
    *("space", "method", "inplace", "numbers", "shifts", "check_inputs", "fused_backward"),
    *("aten", "aten_defaults", "meta", "wide_numbers", "of_numbers"),
    *(
        "apart",
        "exact_out",
        "casts_out",
        "out_kernel",
        "makes_layout",
        "once_positional",
        "shows",
        "inline",
    ),
    "formula",
)


def _decorator(kind: str, declared: dict[str, Any]) -> Callable[[Any], Any]:
    about = {name: declared.pop(name) for name in _ABOUT if name in declared}
    return lambda forward: _declare(kind, forward, declared, about)
