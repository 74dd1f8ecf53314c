"""`script`: keeps programs as Python, in the classes that TorchScript's users know."""

from __future__ import annotations

import copy
import inspect
import textwrap
from collections.abc import Callable
from typing import Any, NamedTuple

from pullback.core.home import home_of
from pullback.nn.modules.module import Module

__all__ = [
    "Attribute",
    "CompilationUnit",
    "RecursiveScriptModule",
    "ScriptFunction",
    "ScriptModule",
    "interface",
    "script",
    "script_method",
]


class Attribute(NamedTuple):
    """A value of a script module with its type; modules of pullback take the value."""

    value: Any
    type: Any


def _source(function: Any) -> str:
    try:
        return textwrap.dedent(inspect.getsource(inspect.unwrap(function)))
    except (OSError, TypeError):
        return ""


def _no_graph(what: str) -> NotImplementedError:
    return NotImplementedError(
        f"{what} has no TorchScript graph: it runs as Python. `torch.fx.symbolic_trace` gives a "
        "graph, `.code` the source."
    )


class ScriptFunction:
    """A function that went through `script` or `trace`; calling it runs it."""

    def __init__(self, function: Callable[..., Any], code: str | None = None) -> None:
        self.__wrapped__ = function
        self.__name__ = self.name = getattr(function, "__name__", "forward").strip("<>")
        self.__qualname__ = getattr(function, "__qualname__", self.__name__)
        self.__doc__ = function.__doc__
        self.__module__ = getattr(function, "__module__", None) or ""
        self._code = code

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.__wrapped__(*args, **kwargs)

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        return self if instance is None else self.__wrapped__.__get__(instance, owner)

    @property
    def code(self) -> str:
        """The source."""
        return _source(self.__wrapped__) if self._code is None else self._code

    @property
    def qualified_name(self) -> str:
        """Torch's spelling of where it is defined."""
        return f"__torch__.{self.name}"

    @property
    def graph(self) -> Any:
        """Not there: the function runs as Python."""
        raise _no_graph(self.name)

    inlined_graph = graph

    def graph_for(self, *args: Any, **kwargs: Any) -> Any:
        """Not there: the function runs as Python."""
        raise _no_graph(self.name)

    def save(self, f: Any, _extra_files: dict[str, Any] | None = None) -> None:
        """Write it to a file, for `jit.load`."""
        from pullback.jit._serialization import save

        save(self, f, _extra_files)

    def __reduce__(self) -> Any:
        return type(self), (self.__wrapped__, self._code)


class ScriptModule(Module):
    """The base of modules that went through `script`; may be subclassed, with `script_method`.

    Example:
        >>> import pullback as torch
        >>> class Twice(torch.jit.ScriptModule):
        ...     @torch.jit.script_method
        ...     def forward(self, x):
        ...         return x + x
        >>> Twice()(torch.tensor(2.0))
        tensor(4.)
    """

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value.value if isinstance(value, Attribute) else value)

    @property
    def code(self) -> str:
        """The source of forward."""
        return _source(type(self).forward)

    @property
    def graph(self) -> Any:
        """Not there: the module runs as Python."""
        raise _no_graph(type(self).__name__)

    inlined_graph = graph

    @property
    def original_name(self) -> str:
        """The name of the class that was scripted."""
        return type(self).__name__

    def save(self, f: Any, _extra_files: dict[str, Any] | None = None) -> None:
        """Write the module to a file, for `jit.load`."""
        from pullback.jit._serialization import save

        save(self, f, _extra_files)

    def save_to_buffer(self, _extra_files: dict[str, Any] | None = None) -> bytes:
        """The file that `save` writes, as bytes."""
        import io

        buffer = io.BytesIO()
        self.save(buffer, _extra_files)
        return buffer.getvalue()


def script_method(fn: Any) -> Any:
    """Mark a method of a ScriptModule as compiled; it runs as Python."""
    return fn


class RecursiveScriptModule(ScriptModule):
    """A module that went through `script`, its submodules too; parameters are those it had."""

    _original: Any = None  # the class it had

    @property
    def original_name(self) -> str:
        """The name of the class that was scripted."""
        return str(self._original.__name__)

    def extra_repr(self) -> str:
        """The class it had."""
        return f"original_name={self.original_name}"

    def _get_name(self) -> str:
        return "RecursiveScriptModule"

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        rebuild, args = self.__reduce__()
        made = memo[id(self)] = rebuild(*copy.deepcopy(args, memo))
        return made

    def __reduce__(self) -> Any:
        if getattr(self._original, "_graph_module_impl", False):  # its class is its own
            return _scripted, self._original.__reduce__(self)
        kind = type(self).__mro__[1]  # see `of_kind`
        return rebuilt, (kind, self._original, dict(self.__dict__))


def _scripted(rebuild: Callable[..., Module], args: tuple[Any, ...]) -> Any:
    """A script module of a graph module, from its pickle."""
    return script(rebuild(*args))


_made: dict[tuple[type, type], type] = {}


def of_kind(kind: type, original: type) -> type:
    """A class that is both: `kind` before the module's own."""
    known = _made.get((kind, original))
    if known is None:
        body = {"_original": original, "__module__": kind.__module__}
        known = _made[kind, original] = type(kind.__name__, (kind, original), body)
    return known


def rebuilt(kind: type, original: type, state: dict[str, Any]) -> Any:
    """A script module from its pickle."""
    made: Any = object.__new__(of_kind(kind, original))
    made.__dict__.update(state)
    return made


def converted(module: Module, kind: type) -> Any:
    """A module of the same tables, hooks and attributes, of another kind."""
    if isinstance(module, ScriptModule):
        return module
    state = dict(module.__dict__)
    for name in ("_parameters", "_buffers", "_modules"):
        state[name] = type(state[name])(state[name])
    for name, inner in state["_modules"].items():
        if inner is not None:
            state["_modules"][name] = converted(inner, RecursiveScriptModule)
    return rebuilt(kind, type(module), state)


def script(
    obj: Any,
    optimize: Any = None,
    _frames_up: int = 0,
    _rcb: Any = None,
    example_inputs: Any = None,
) -> Any:
    """Accept a function, module or class as TorchScript would; it goes on to run as Python.

    Nothing is compiled and nothing is refused: `torch.compile` is for speed. A module comes back as
    a ScriptModule that shares its parameters, a function as a ScriptFunction, a class as itself.

    Example:
        >>> import pullback as torch
        >>> @torch.jit.script
        ... def double(x: torch.Tensor):
        ...     return x * 2
        >>> double(torch.tensor(2.0))
        tensor(4.)
    """
    if isinstance(obj, ScriptModule | ScriptFunction | type):
        return obj
    if isinstance(obj, Module):
        return converted(obj, RecursiveScriptModule)
    if isinstance(obj, list | dict):
        return obj
    if inspect.isroutine(obj) or (callable(obj) and hasattr(obj, "__code__")):
        return ScriptFunction(obj)
    if home_of(type(obj)) == "builtins":
        raise TypeError(f"script() takes functions, modules and classes, not {type(obj).__name__}.")
    return obj


def interface(obj: type) -> type:
    """Mark a class as an interface of modules."""
    if not inspect.isclass(obj):
        raise RuntimeError("interface() is for classes.")
    return obj


class CompilationUnit:
    """Not there: TorchScript's own source text is not compiled."""

    def __init__(self, lang: str | None = None, _frames_up: int = 0) -> None:
        if lang is not None:
            raise NotImplementedError(
                "CompilationUnit: TorchScript source is not compiled; write functions in Python."
            )
