"""The arguments with which a traced program is called: proxies, and what is given beforehand."""

from __future__ import annotations

import inspect
import operator
import warnings
from typing import TYPE_CHECKING, Any

from pullback.core.home import is_ours
from pullback.core.trees import pytree
from pullback.fx._asserting import _assert, assert_is_none
from pullback.fx._codegen import PyTreeInfo, _PyTreeCodeGen
from pullback.fx.proxy import Proxy

if TYPE_CHECKING:
    from pullback.fx._symbolic_trace import Tracer

__all__ = ["PH", "PHBase", "PHWithMeta", "RootArguments"]


class PHBase:
    """Stands in `concrete_args` for a value that is to be traced."""

    def __repr__(self) -> str:
        return "PH"


PH = PHBase()


class PHWithMeta(PHBase):
    """A `PH` that gives its node's meta data."""

    def __init__(self, ph_key: str | None = None) -> None:
        super().__init__()
        self.ph_key = ph_key


def annotations_of(function: Any) -> dict[str, Any]:
    """A function's annotations, which become the types of nodes; not those of the package's own."""
    if is_ours(function):
        return {}
    return getattr(function, "__annotations__", {})


class RootArguments:
    """Makes placeholders for the arguments of the function that is traced."""

    def __init__(self, tracer: Tracer, function: Any, is_module: bool, concrete: Any) -> None:
        self.tracer, self.function, self.is_module = tracer, function, is_module
        self.code = inspect.unwrap(function).__code__
        count = self.code.co_argcount + self.code.co_kwonlyargcount
        self.names = list(self.code.co_varnames[:count])
        if is_module:
            if not self.names:
                raise RuntimeError("forward() of the module takes no `self`.")
            self.names = self.names[1:]
        if isinstance(concrete, tuple):
            if len(concrete) != len(self.names):
                raise RuntimeError(
                    f"{len(concrete)} concrete arguments are given, the traced function takes "
                    f"{len(self.names)}."
                )
            concrete = dict(zip(self.names, concrete, strict=True))
        self.concrete: dict[str, Any] = concrete or {}
        self.numbered = 0

    def made(self) -> tuple[Any, list[Any]]:
        """The function to be run, and its arguments."""
        first = [self.tracer.root] if self.is_module else []
        flags = self.code.co_flags
        extra = list(self.code.co_varnames[len(self.names) + self.is_module :])
        args: list[Any] = [self._argument(name) for name in self.names]
        by_name = self.names[len(self.names) - self.code.co_kwonlyargcount :]
        if self.code.co_kwonlyargcount or flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS):
            return self._with_stars(first, args, by_name, extra)
        nested = any(not self._is_leaf(value) for value in self.concrete.values())
        if nested:
            return self._nested(first, args)
        return self.function, [*first, *args]

    def _with_stars(
        self, first: list[Any], args: list[Any], by_name: list[str], extra: list[str]
    ) -> tuple[Any, list[Any]]:
        flags = self.code.co_flags
        plain = args[: len(args) - len(by_name)]
        named = dict(zip(by_name, args[len(plain) :], strict=True))
        stars: list[Any] = []
        if flags & inspect.CO_VARARGS:
            stars.append(self.tracer._proxy_placeholder(f"*{extra.pop(0)}", (), None))
        if flags & inspect.CO_VARKEYWORDS:
            stars.append(self.tracer._proxy_placeholder(f"**{extra.pop(0)}", (), None))
        # Inside, `args` is the proxy itself: its length is not known.
        function = _starless(self.function) if stars else self.function
        if not stars:
            return lambda *given: function(*given, **named), [*first, *plain]
        return function, [*first, *plain, *named.values(), *stars]

    def _argument(self, name: str) -> Any:
        if name in self.concrete:
            return pytree.tree_map(lambda leaf: self._concrete(name, leaf), self.concrete[name])
        return self.tracer._proxy_placeholder(name, self._default(name), self._type(name))

    def _default(self, name: str) -> tuple[Any, ...]:
        param = inspect.signature(self.function).parameters[name]
        return () if param.default is param.empty else (param.default,)

    def _type(self, name: str) -> Any:
        return annotations_of(self.function).get(name)

    def _concrete(self, name: str, value: Any) -> Any:
        """A placeholder for one value given beforehand, and a check that later calls pass it."""
        self.numbered += 1
        nested = not self._is_leaf(self.concrete[name])
        default = () if nested else self._default(name)
        proxy = self.tracer._proxy_placeholder(f"{name}_{self.numbered}", default, None)
        if isinstance(value, PHBase):
            if isinstance(value, PHWithMeta):
                proxy.node.meta["ph_key"] = value.ph_key
            return proxy
        message = f"{name} was {value!r} when the program was traced, and must stay so"
        create = self.tracer.create_proxy
        if isinstance(value, bool | int | float | str) and not isinstance(value, Proxy):
            equal = create("call_function", operator.eq, (proxy, value), {})
            create("call_function", _assert, (equal, message), {})
        elif value is None:
            create("call_function", assert_is_none, (proxy, message), {})
        else:
            warnings.warn(f"{message}; its type allows no check of that.", stacklevel=2)
        return value

    @staticmethod
    def _is_leaf(value: Any) -> bool:
        leaves, _ = pytree.tree_flatten(value)
        return len(leaves) == 1 and leaves[0] is value

    def _nested(self, first: list[Any], args: list[Any]) -> tuple[Any, list[Any]]:
        """As `made`, where arguments are containers: flat inside, nested for the caller."""
        given = [self.concrete.get(name, PH) for name in self.names]
        in_spec = pytree.tree_flatten(given)[1]
        codegen = _PyTreeCodeGen(PyTreeInfo(list(self.names), in_spec, None))
        self.tracer.graph._codegen = codegen

        def run(*args: Any) -> Any:
            flat, spec = pytree.tree_flatten(self.function(*args))
            codegen.pytree_info = codegen.pytree_info._replace(out_spec=spec)
            return flat

        return run, [*first, *args]


def _starless(function: Any) -> Any:
    """The function with `*args` and `**kwargs` as plain arguments, to be given proxies."""
    from types import FunctionType

    code = inspect.unwrap(function).__code__
    stars = bool(code.co_flags & inspect.CO_VARARGS) + bool(code.co_flags & inspect.CO_VARKEYWORDS)
    plain = code.replace(
        co_argcount=code.co_argcount + code.co_kwonlyargcount + stars,
        co_kwonlyargcount=0,
        co_flags=code.co_flags & ~inspect.CO_VARARGS & ~inspect.CO_VARKEYWORDS,
    )
    return FunctionType(plain, function.__globals__, function.__name__, None, function.__closure__)
