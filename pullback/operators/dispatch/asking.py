"""Which functions ask their arguments' `__torch_function__`, and how torch spells what it is told.

Functions and arguments are reported as torch does: the sign `/` as `div`, functions that are
Python in torch with every option by name (`relu(x, inplace=False)`), all others with exactly what
the user passed.
"""

from __future__ import annotations

import inspect
import weakref
from collections.abc import Iterable, Mapping
from types import FunctionType
from typing import Any

from pullback.core import overriding
from pullback.core.home import is_in_package, scope_name
from pullback.core.ports import ports
from pullback.core.tensor import Tensor
from pullback.operators.attach import faces
from pullback.operators.attach import names as table
from pullback.operators.declare import QUICK, Op
from pullback.operators.dispatch import attributes, dispatch, intercept
from pullback.operators.dispatch.intercept import replaceable

__all__ = [
    *("WATCH", "asks_as_method", "by_name", "family", "met", "public"),
    *("public_functions", "reported_dunder"),
]

# Not functions of tensors: random state, printing, metadata, copies.
_APART = frozenset(
    f"pullback.operators.{name}"
    for name in (
        "tensor.pickling",
        "random.generator",
        "create.legacy",
        "tensor.memory",
        "tensor.metadata",
        "tensor.printing",
    )
)
# ... but these are, and ask always.
_NAMES = """
    detach get_device is_complex is_conj is_floating_point is_neg is_same_size is_signed numel
"""
_METADATA = frozenset(_NAMES.split())

# Python functions in torch: options are handed over by name, defaults filled in.
_BY_NAME = {
    "pullback": """
        cdist lobpcg lu norm pca_lowrank split stft svd_lowrank tensordot unique unique_consecutive
    """,
    "pullback.nn.functional": """
        adaptive_max_pool1d adaptive_max_pool1d_with_indices adaptive_max_pool2d
        adaptive_max_pool2d_with_indices adaptive_max_pool3d adaptive_max_pool3d_with_indices
        affine_grid alpha_dropout batch_norm binary_cross_entropy binary_cross_entropy_with_logits
        celu cosine_embedding_loss cross_entropy ctc_loss dropout dropout1d dropout2d dropout3d elu
        embedding embedding_bag feature_alpha_dropout fold fractional_max_pool2d
        fractional_max_pool2d_with_indices fractional_max_pool3d fractional_max_pool3d_with_indices
        gaussian_nll_loss glu grid_sample group_norm gumbel_softmax hardsigmoid hardswish hardtanh
        hinge_embedding_loss huber_loss instance_norm interpolate kl_div l1_loss layer_norm
        leaky_relu linear_cross_entropy local_response_norm log_softmax lp_pool1d lp_pool2d
        lp_pool3d margin_ranking_loss max_pool1d max_pool1d_with_indices max_pool2d
        max_pool2d_with_indices max_pool3d max_pool3d_with_indices max_unpool1d max_unpool2d
        max_unpool3d mish mse_loss multi_head_attention_forward multi_margin_loss
        multilabel_margin_loss multilabel_soft_margin_loss nll_loss normalize pad poisson_nll_loss
        relu relu6 rms_norm rrelu selu silu smooth_l1_loss soft_margin_loss softmax softmin
        threshold triplet_margin_loss triplet_margin_with_distance_loss unfold
    """,
}
# Which one function is here with its namesake in `torch` itself, that is not Python.
_NATIVE_TOO = frozenset(("celu", "group_norm", "layer_norm", "rms_norm", "selu", "threshold"))
# Options that F's functions do not have in torch; the C functions below them do.
_NOT_NAMED = frozenset({"cudnn_enable", "cudnn_enabled"})

# What a sign is reported as; the others (`__rsub__`, `__floordiv__` ...) as themselves.
_REPORTED_DUNDERS = {
    **{f"__{name}__": name for name in ("add", "sub", "mul", "pow", "matmul")},
    **{f"__{name}__": name for name in ("eq", "ne", "lt", "le", "gt", "ge", "abs", "neg")},
    **{f"__i{name}__": f"{name}_" for name in ("add", "sub", "mul", "pow")},
    "__truediv__": "div",
    "__itruediv__": "div_",
    "__div__": "div",
    "__idiv__": "div_",
    "__radd__": "add",
    "__rmul__": "mul",
    "__mod__": "remainder",
    "__imod__": "remainder_",
    "__rand__": "bitwise_and",
    "__ror__": "bitwise_or",
    "__rxor__": "bitwise_xor",
    "__invert__": "bitwise_not",
    "__pos__": "positive",
}
_DUNDERS = (
    *_REPORTED_DUNDERS,
    *("__rsub__", "__rtruediv__", "__rdiv__", "__floordiv__", "__rfloordiv__", "__rmod__"),
    *("__rpow__", "__rmatmul__", "__and__", "__or__", "__xor__", "__lshift__", "__rshift__"),
    *("__rlshift__", "__rrshift__", "__iand__", "__ior__", "__ixor__", "__ilshift__"),
    *("__irshift__", "__ifloordiv__", "__getitem__", "__setitem__"),
)

_NAMESPACES: list[tuple[Mapping[str, Any], tuple[str, ...] | None]] = []
_reported: dict[FunctionType, str] = {}  # sign -> the method that it is
_by_name: dict[FunctionType, inspect.Signature | None] = {}


def public(namespace: Mapping[str, Any], names: Iterable[str] | None = None) -> None:
    """Let the public functions of a module ask; `names` where not all of its globals are."""
    _NAMESPACES.append((namespace, None if names is None else tuple(names)))
    functions = list(_functions(*_NAMESPACES[-1]))
    for name in _BY_NAME.get(scope_name(namespace), "").split():
        if isinstance(function := namespace.get(name), FunctionType):
            _by_name[function] = None
    _always(functions)


def _always(functions: Iterable[FunctionType]) -> None:
    composed = [f for f in functions if replaceable(f) and f not in QUICK]
    intercept.always(f for f in composed if f.__code__.co_name not in ("stub", "written"))
    intercept.loaded()


def family(module: Any, name: str) -> None:
    """The same for a family of operators that has just been loaded."""
    named = [own for _, own in faces.pairs(table.FUNCTIONS.get(name, ""))]
    public(vars(module), named)
    methods_attached()
    for each in _BY_NAME["pullback"].split():
        if each in named and isinstance(function := vars(module).get(each), FunctionType):
            _by_name[function] = None


def _functions(namespace: Mapping[str, Any], names: tuple[str, ...] | None) -> Iterable[Any]:
    for name in list(namespace) if names is None else names:  # others may be loading names
        value = namespace.get(name)
        if isinstance(value, FunctionType) and (name[0] != "_" or name in _DUNDERS):
            own = scope_name(value.__globals__)
            ours = is_in_package(own, "operators") or own == scope_name(namespace)
            if (ours and own not in _APART) or name in _METADATA:
                yield value


def asks_as_method(name: str, method: Any) -> bool:
    """Whether an attribute of Tensor is a function of operators, loaded or not."""
    if name[0] == "_" and name not in _DUNDERS:
        return False
    if not isinstance(method, FunctionType):
        return hasattr(method, "family")  # which is loaded when the method is first used
    own = scope_name(method.__globals__)
    return is_in_package(own, "operators") and own not in _APART


def reported_dunder(name: str) -> str:
    """As what a sign is reported: `__add__` as `add`; other methods as they are called."""
    return _REPORTED_DUNDERS.get(name, name)


def by_name(function: Any) -> bool:
    """Whether it is Python in torch, so that options are reported by name."""
    return function in _by_name


def _is_python(function: Any) -> bool:
    """Whether torch has it in Python alone, where its parser does not take NumPy's names."""
    return function in _by_name and function.__name__ not in _NATIVE_TOO


def public_functions() -> list[FunctionType]:
    """Every public function and method that is loaded, once."""
    methods = (vars(Tensor), None)
    found = {f: None for places in (*_NAMESPACES, methods) for f in _functions(*places)}
    return list(found)


WATCH = intercept.Watched(public_functions)
# Those without a fast path, which would find out by itself that a tensor's class overrides calls.
COMPOSED = intercept.Watched(lambda: [f for f in public_functions() if _is_composed(f)])


def _is_composed(function: FunctionType) -> bool:
    return replaceable(function) and "build_now" not in function.__globals__


def asks(function: FunctionType) -> bool:
    """Whether a function asks by itself: a declared operator, or a composition of them."""
    return "build_now" in function.__globals__ or function in _asking_functions()


def _asking_functions() -> set[FunctionType]:
    """The public functions, found anew when more of them are loaded."""
    count = len(vars(Tensor)) + sum(len(space) for space, _ in _NAMESPACES)
    if _found[0][0] != count:
        _found[0] = count, set(public_functions())
    return _found[0][1]


_found: list[tuple[int, set[FunctionType]]] = [(0, set())]


def _arrived(cls: type) -> None:
    """The first tensor of a class is made."""
    if cls._overrides & overriding.FUNCTIONS:  # type: ignore[attr-defined]  # a class of tensors
        entry = ("class", id(cls))
        COMPOSED.begin(entry)
        weakref.finalize(cls, COMPOSED.end, entry).atexit = False
        handler = getattr(cls.__torch_function__, "__func__", None)  # type: ignore[attr-defined]  # a class of tensors
        if handler is not Tensor.__torch_function__.__func__ and cls._asks_for_attributes:  # type: ignore[attr-defined]  # a class of tensors
            _by_name.setdefault(vars(Tensor)["backward"], None)
            attributes.take_over(cls)
    if cls._overrides & overriding.DISPATCH:  # type: ignore[attr-defined]  # a class of tensors
        ports.class_answers(cls)


overriding.arrivals.append(_arrived)


def methods_attached() -> None:
    """Tensor has more methods now: note what signs are reported as."""
    methods = vars(Tensor)
    for sign, name in _REPORTED_DUNDERS.items():
        function = methods.get(sign)
        if isinstance(function, FunctionType) and function is not methods.get(name):
            _reported[function] = name
    intercept.loaded()


# Spelling ---------------------------------------------------------------------------------------


def _spelled(
    function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    if function in _reported:
        return getattr(Tensor, _reported[function]), args, kwargs
    if function in _by_name:
        return function, *_named(function, args, kwargs)
    if function.__name__ == "einsum" and len(args) == 2 and isinstance(args[1], tuple | list):
        return function, (args[0], *args[1]), kwargs  # a list of operands is taken apart
    return function, args, kwargs


def _named(
    function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """What has a default by name, the rest by position."""
    signature = _by_name[function]
    if signature is None:
        signature = _by_name[function] = inspect.signature(function)
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError:  # which the function itself explains
        return args, kwargs
    bound.apply_defaults()
    positional: list[Any] = []
    named: dict[str, Any] = {}
    for name, value in bound.arguments.items():
        param = signature.parameters[name]
        if param.kind is param.VAR_POSITIONAL:
            positional += value
        elif param.kind is param.VAR_KEYWORD:
            named |= value
        elif param.default is param.empty and param.kind is not param.KEYWORD_ONLY:
            positional.append(value)
        elif name not in _NOT_NAMED or value != param.default:
            named[name] = value
    return tuple(positional), named


ports.fill(spelled=_spelled, is_python=_is_python)


# The first time -----------------------------------------------------------------------------------


def met(
    op: Op, args: tuple[Any, ...], kwargs: dict[str, Any], out: Any = None, *, called: str = ""
) -> tuple[bool, Any]:
    """An operator met an argument that overrides calls: let it take the call that the user made.

    While its class lives every public function asks, with what the user passed. This once the
    operator asks, as the function that it is to users.
    """
    if not _noted(args, kwargs):
        return False, None
    asked = dispatch.with_functions(dispatch.guests(args, kwargs, out))
    answer = dispatch.overridden(op, args, kwargs, out, asked, called=called)
    return answer is not NotImplemented, answer


_met: weakref.WeakSet[type] = weakref.WeakSet()
ports.fill(met=met)


def _noted(args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Whether an argument overrides calls; every function asks while its class lives."""
    types = dispatch.types_of(args, kwargs)
    for one in types:
        if one not in _met:
            _met.add(one)
            entry = ("class", id(one))
            WATCH.begin(entry)
            weakref.finalize(one, WATCH.end, entry).atexit = False
    return bool(types)


def met_by(method: str, args: tuple[Any, ...]) -> tuple[bool, Any]:
    """As `met`, for a sign, or a method of Tensor that is no operator."""
    if not _noted(args, {}):
        return False, None
    return dispatch.overloaded(getattr(Tensor, _REPORTED_DUNDERS.get(method, method)), args, {})


ports.fill(met_by=met_by)
