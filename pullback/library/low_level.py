"""The lower level: `Library`, `define` and `impl`, under torch's names.

A Library owns what is registered through it. When it is collected or destroyed, its operators,
kernels and rules are taken out again.
"""

from __future__ import annotations

import contextlib
import re
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from pullback.core.device import KINDS
from pullback.library import builtin_kernels, registering, registry
from pullback.library.call import kernels
from pullback.library.call.keys import checked_key, key_of_device
from pullback.library.call.node import set_backward
from pullback.library.overload import OpOverload
from pullback.library.registry import Kernel, Operator
from pullback.library.schema import parse_schema, tags
from pullback.operators.dispatch import dispatch

__all__ = ["Library", "define", "get_kernel", "impl"]

_KINDS = ("DEF", "FRAGMENT", "IMPL")
_NAMELESS = re.compile(r"\s*\(.*\)\s*->.*", re.DOTALL)
_ALIAS_ANALYSIS = ("", "FROM_SCHEMA", "CONSERVATIVE")
# Namespace -> where its one DEF library was made.
_defined: dict[str, Any] = {}


class _Owned:
    """What a Library has registered; outlives it by the moment in which it is undone."""

    def __init__(self, namespace: str, kind: str) -> None:
        self.namespace = namespace
        self.kind = kind
        self.operators: list[Operator] = []
        self.kernels: list[tuple[str, str, Kernel]] = []
        self.rules: list[tuple[Operator, str]] = []
        self.fallbacks: list[str] = []
        self.dispatch_rules: list[tuple[Any, type]] = []
        self.undone = False

    def undo(self) -> None:
        """Take everything out again."""
        if self.undone:
            return
        self.undone = True
        for name, key, kernel in self.kernels:
            _remove_kernel(name, key, kernel)
            builtin_kernels.forget(name, key, kernel.function)
        for operator, attribute in self.rules:
            setattr(operator, attribute, {} if attribute == "autocast" else None)
            set_backward(operator)
            operator.settle()
        for operator in self.operators:
            registry.remove(operator)
        for rule in self.dispatch_rules:
            dispatch.RULES.pop(rule, None)
        for key in self.fallbacks:
            registry.FALLBACKS.pop(key, None)
        if self.kind == "DEF":
            _defined.pop(self.namespace, None)


def _remove_kernel(name: str, key: str, kernel: Kernel) -> None:
    operator = registry.OPERATORS.get(name)
    if operator is not None and operator.kernels.get(key) is kernel:
        del operator.kernels[key]
        operator.settle()
    waiting = registry.WAITING.get(name)
    if waiting is not None and waiting.get(key) is kernel:
        del waiting[key]


class Library:
    """A set of definitions and kernels in one namespace, which live as long as this object.

    `kind` is "DEF" (the one that owns the namespace), "FRAGMENT" (adds operators to it) or "IMPL"
    (adds kernels only).

    >>> import pullback as torch
    >>> lib = torch.library.Library("doc_low", "FRAGMENT")
    >>> lib.define("plus_one(Tensor x) -> Tensor")
    'plus_one'
    >>> lib.impl("plus_one", lambda x: x + 1, "CPU")
    >>> torch.ops.doc_low.plus_one(torch.zeros(1))
    tensor([1.])
    """

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        if kind not in _KINDS:
            raise ValueError(f"The kind of a Library is one of {', '.join(_KINDS)}, got {kind!r}.")
        if ns == "prim" and kind in ("DEF", "FRAGMENT"):
            raise ValueError(
                "The namespace 'prim' is reserved: operators cannot be defined in it. Choose "
                "another one."
            )
        where = registry.where()
        if kind == "DEF":
            if ns in _defined:
                raise RuntimeError(
                    f"There is a Library of kind DEF for the namespace {ns!r} already, made at "
                    f"{registry.place(_defined[ns])}; a second one is made at "
                    f"{registry.place(where)}. Use FRAGMENT to add operators to it."
                )
            _defined[ns] = where
        self.ns = ns
        self.kind = kind
        self.dispatch_key = checked_key(dispatch_key) if dispatch_key else ""
        self._owned = _Owned(ns, kind)
        self._finalizer = weakref.finalize(self, self._owned.undo)
        self._finalizer.atexit = False

    def __repr__(self) -> str:
        return f"Library(kind={self.kind}, ns={self.ns}, dispatch_key={self.dispatch_key})"

    def define(self, schema: str, alias_analysis: str = "", *, tags: Any = ()) -> str:
        """Define an operator; returns its name."""
        if alias_analysis not in _ALIAS_ANALYSIS:
            raise RuntimeError(
                f"alias_analysis must be one of {', '.join(map(repr, _ALIAS_ANALYSIS))}, got "
                f"{alias_analysis!r}."
            )
        if self.kind == "IMPL":
            raise RuntimeError(
                f"A Library of kind IMPL only adds kernels; define operators of {self.ns!r} with "
                "one of kind DEF or FRAGMENT."
            )
        operator = _define(self.ns, schema, tags)
        self._owned.operators.append(operator)
        return operator.qualname.partition("::")[2]

    def impl(
        self,
        op_name: str | OpOverload,
        fn: Callable[..., Any],
        dispatch_key: str = "",
        *,
        with_keyset: bool = False,
        allow_override: bool = False,
    ) -> None:
        """Register a kernel for an operator of the namespace, defined already or later."""
        if not callable(fn):
            raise TypeError(f"impl: the kernel must be callable, got {type(fn).__name__}.")
        key = checked_key(dispatch_key or self.dispatch_key)
        name = self._full_name(op_name)
        kernel = Kernel(fn, registry.where(), with_keyset)
        builtin = builtin_kernels.use(name, key, fn)
        _add(name, key, kernel, allow_override=allow_override or builtin)
        self._owned.kernels.append((name, key, kernel))

    def _full_name(self, op_name: Any) -> str:
        if isinstance(op_name, OpOverload):
            name = op_name.name()
        elif isinstance(op_name, str):
            name = op_name if "::" in op_name else f"{self.ns}::{op_name}"
        else:
            raise RuntimeError(
                f"impl: the operator must be a name or an OpOverload, got {type(op_name).__name__}."
            )
        if name.partition("::")[0] != self.ns:
            raise RuntimeError(f"impl: {name} is not in the namespace {self.ns!r} of this Library.")
        return name.removesuffix(".default")

    def fallback(
        self, fn: Callable[..., Any], dispatch_key: str = "", *, with_keyset: bool = False
    ) -> None:
        """Register a kernel for all operators that have none for a key; namespace `_` only."""
        if self.ns != "_":
            raise RuntimeError(
                "fallback: a kernel for all operators belongs to no namespace; use a Library of "
                f"the namespace '_', not {self.ns!r}."
            )
        if not callable(fn):
            raise TypeError(f"fallback: the kernel must be callable, got {type(fn).__name__}.")
        key = checked_key(dispatch_key or self.dispatch_key)
        registry.FALLBACKS[key] = Kernel(fn, registry.where(), with_keyset)
        self._owned.fallbacks.append(key)

    def _register_fake(
        self, op_name: Any, fn: Callable[..., Any], _stacklevel: int = 1, *,
        allow_override: bool = False,
    ) -> None:  # fmt: skip
        from pullback.library import functions

        functions.register_fake(
            self._full_name(op_name), fn, lib=self, allow_override=allow_override
        )

    def _register_torch_dispatch_rule(
        self, op_name: Any, torch_dispatch_class: type, fn: Callable[..., Any]
    ) -> None:
        """`fn(mode, func, types, args, kwargs)` answers for an operator in modes of a class."""
        overload = registry.find(self._full_name(op_name), "_register_torch_dispatch_rule").overload
        registering.torch_dispatch(overload, torch_dispatch_class, fn)
        self._owned.dispatch_rules.append((overload, torch_dispatch_class))

    def _ends_with(self, operator: Operator, attribute: str) -> None:
        """Take a rule of an operator away when this Library ends."""
        self._owned.rules.append((operator, attribute))

    def _destroy(self) -> None:
        self._finalizer()


@contextlib.contextmanager
def _scoped_library(*args: Any, **kwargs: Any) -> Iterator[Library]:
    """A Library that is destroyed when the block ends."""
    lib = Library(*args, **kwargs)
    try:
        yield lib
    finally:
        lib._destroy()


def _define(namespace: str, text: str, given_tags: Any) -> Operator:
    schema = parse_schema(text)
    if "::" in schema.name and schema.namespace != namespace:
        raise RuntimeError(
            f"define: the schema names the namespace {schema.namespace!r}, but this is a Library "
            f"of {namespace!r}."
        )
    schema = schema.named(f"{namespace}::{schema.name.rpartition('::')[2]}")
    where = registry.where()
    operator = Operator(schema, kind="define", where=where)
    known = registry.OPERATORS.get(operator.qualname)
    if known is not None:
        raise RuntimeError(
            f"{operator.qualname} is defined twice: at {registry.place(known.where)}, and now at "
            f"{registry.place(where)}. Give one of them another name or overload."
        )
    return registry.add(operator, tags.as_list(given_tags))


def _add(name: str, key: str, kernel: Kernel, *, allow_override: bool) -> None:
    operator = registry.OPERATORS.get(name)
    known = operator.kernels if operator is not None else registry.WAITING.setdefault(name, {})
    if key in known and not allow_override:
        raise RuntimeError(
            f"{name} has a kernel for {key}, registered at {registry.place(known[key].where)}. "
            "Pass allow_override=True to replace it."
        )
    if operator is not None and key == "Meta" and operator.fake is not None:
        raise RuntimeError(
            f"{name} has a fake implementation, registered at "
            f"{registry.place(operator.fake.where)}, which does what a kernel for Meta would."
        )
    known[key] = kernel
    if operator is not None:
        operator.settle()


def add_kernel(lib: Library | None, name: str, key: str, function: Callable[..., Any]) -> None:
    """Register a kernel, for ever or as long as `lib`."""
    if lib is not None:
        lib.impl(name, function, key, allow_override=True)
        return
    _add(name, key, Kernel(function, registry.where()), allow_override=True)


# Without a Library --------------------------------------------------------------------------------


def _checked_qualname(qualname: str) -> str:
    if not isinstance(qualname, str):
        raise ValueError(
            f"define: the name must be a str such as 'ns::op', got {type(qualname).__name__}."
        )
    parts = qualname.split("::")
    if len(parts) != 2 or not all(parts):
        raise ValueError(f"define: the name must be written 'ns::op', got {qualname!r}.")
    return qualname


def define(qualname: Any, schema: Any, alias_analysis: str = "", *, lib: Any = None,
           tags: Any = ()) -> Any:  # fmt: skip
    """Define an operator by name and schema; `define(lib, schema)` is the old form, a decorator.

    >>> import pullback as torch
    >>> torch.library.define("doc::minus", "(Tensor x, Tensor y) -> Tensor")
    >>> torch.library.impl("doc::minus", "default", lambda x, y: x - y)  # doctest: +ELLIPSIS
    <function ...>
    >>> torch.ops.doc.minus(torch.ones(1), torch.ones(1))
    tensor([0.])
    """
    if isinstance(qualname, Library):
        return _define_decorator(qualname, schema, alias_analysis)
    name = _checked_qualname(qualname)
    if not isinstance(schema, str) or not _NAMELESS.fullmatch(schema):
        raise ValueError(
            f"define: the schema of {name} must start at the parenthesis and have an arrow, as in "
            f"'(Tensor x) -> Tensor', got {schema!r}."
        )
    space, _, op = name.partition("::")
    if lib is not None:
        lib.define(f"{op}{schema}", alias_analysis, tags=tags)
    else:
        _define(space, f"{op}{schema}", tags)
    return None


def _define_decorator(lib: Library, schema: str, alias_analysis: str) -> Any:
    """`@define(lib, "op(Tensor x) -> Tensor")`: the function is the composite kernel."""

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        name = lib.define(schema, alias_analysis)
        lib.impl(name, function)
        return function

    return decorate


def impl(qualname: Any, types: Any = "", func: Any = None, *, lib: Any = None) -> Any:
    """Register a kernel: for types of devices, for "default", or under a dispatch key.

    `impl(lib, name, key="")` is the old form, a decorator.

    >>> import pullback as torch
    >>> torch.library.define("doc::fivefold", "(Tensor x) -> Tensor")
    >>> @torch.library.impl("doc::fivefold", "cpu")
    ... def _(x):
    ...     return x * 5
    >>> torch.ops.doc.fivefold(torch.ones(1))
    tensor([5.])
    """
    if isinstance(qualname, Library):
        library, name, key = qualname, types, func or ""

        def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
            library.impl(name, function, key)
            return function

        return decorate

    keys = _keys(types)

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for key in keys:
            if lib is None:
                name = _checked_qualname(qualname)
                builtin = builtin_kernels.use(name, key, function)
                _add(name, key, Kernel(function, registry.where()), allow_override=builtin)
            else:
                lib.impl(qualname, function, key)
        return function

    return register if func is None else register(func)


def _keys(types: str | Sequence[str]) -> list[str]:
    listed = [types] if isinstance(types, str) else list(types)
    return [key_of_device(one) if one in KINDS else checked_key(one) for one in listed]


class _SafeKernel:
    """A kernel as `get_kernel` gives it."""

    def __init__(self, operator: Operator, key: str) -> None:
        self._operator = operator
        self._key = key

    def call_boxed(self, keyset: Any, /, *args: Any, **kwargs: Any) -> Any:
        """Run the kernel that is registered now."""
        found = _found(self._operator, self._key)
        if found.with_keyset:
            return found.function(keyset, *args, **kwargs)
        return found.function(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<kernel of {self._operator.qualname} for {self._key}>"


def _found(operator: Operator, key: str) -> Kernel:
    kernel = kernels.registered(operator, key)
    if kernel is not None:
        return kernel
    if key in ("CPU", "CUDA", "Meta"):
        return kernels.of_device(operator, key.lower()).kernel
    raise RuntimeError(
        f"get_kernel: {operator.qualname} has no kernel for {key}; it has kernels for "
        f"{', '.join(operator.kernels) or 'none'}."
    )


def get_kernel(op: Any, dispatch_key: Any) -> _SafeKernel:
    """The kernel of an operator under a key, to be run with `call_boxed(keyset, *args)`.

    >>> import pullback as torch
    >>> torch.library.define("doc::sixfold", "(Tensor x) -> Tensor")
    >>> torch.library.impl("doc::sixfold", "cpu", lambda x: x * 6)  # doctest: +ELLIPSIS
    <function ...>
    >>> torch.library.get_kernel("doc::sixfold", "CPU").call_boxed(None, torch.ones(1))
    tensor([6.])
    """
    operator = registry.find(op, "get_kernel")
    key = checked_key(dispatch_key) if isinstance(dispatch_key, str) else str(dispatch_key)
    _found(operator, key)
    return _SafeKernel(operator, key)
