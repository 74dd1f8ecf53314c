"""Sizes that vary in a symbolic trace, and questions about numbers that might be symbols."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NoReturn

from pullback.core.listing import only_public as _only_public
from pullback.fx.experimental._symbols import Place, symbols_of
from pullback.operators.tensor.symbols import SymInt

__all__ = [
    *("ShapeEnv", "guard_bool", "guard_int", "guard_or_false", "guard_or_true", "guard_scalar"),
    *("is_concrete_bool", "is_concrete_float", "is_concrete_int", "is_symbolic"),
    *("free_symbols", "fx_placeholder_targets", "fx_placeholder_vals", "guard_size_oblivious"),
    *("has_free_symbols", "is_nested_int"),
    *("statically_known_false", "statically_known_true", "sym_eq"),
]


class ShapeEnv:
    """The sizes of one symbolic trace: which of them vary, and why others stay the number they are.

    `make_fx(tracing_mode="symbolic")` makes one; its graph module has it as `shape_env`. Sizes are
    plain ints all the while: expressions are found by comparing traces at several sizes, so there
    are no symbols of sympy, and what torch's class does with those is not here.

    Example:
        >>> import pullback as torch
        >>> from pullback.fx.experimental.proxy_tensor import make_fx
        >>> def rows(x):
        ...     return sum(x[at] for at in range(x.shape[0]))
        >>> made = make_fx(rows, tracing_mode="symbolic")(torch.ones(3, 5))
        >>> made.shape_env.var_to_val, made.shape_env.var_to_sources
        ({'s1': 5}, {'s1': [(0, 1)]})
        >>> made.shape_env.specialized
        {'s0': 'other operators are called at size 9'}
    """

    def __init__(self) -> None:
        self.var_to_val: dict[str, int] = {}  # what each symbol was in the call that was traced
        self.var_to_sources: dict[str, list[Place]] = {}  # argument's number and dimension
        self.specialized: dict[str, str] = {}  # symbols that stay numbers, and why

    def note(self, shapes: Sequence[tuple[int, ...] | None]) -> None:
        """Give each size of the arguments a symbol."""
        self.var_to_sources = symbols_of(shapes)
        for name, ((number, dim), *_) in self.var_to_sources.items():
            shape = shapes[number]
            assert shape is not None  # symbols are of tensors' sizes
            self.var_to_val[name] = shape[dim]

    def specialize(self, name: str, reason: str) -> None:
        """Let a symbol stay the number that it is."""
        del self.var_to_val[name], self.var_to_sources[name]
        self.specialized[name] = reason

    def __getattr__(self, name: str) -> NoReturn:
        raise AttributeError(
            f"ShapeEnv.{name} is not here: sizes of a trace are ints, not symbols of sympy; "
            "var_to_val, var_to_sources and specialized tell what varies.",
            name=name,
            obj=self,
        )


# Questions about numbers --------------------------------------------------------------------------
# Sizes are ints, never symbols, so the answers are those that torch gives for ints.


def is_symbolic(val: Any) -> bool:
    """Whether a number is a symbol: sizes are ints here, so never.

    >>> from pullback.fx.experimental.symbolic_shapes import is_symbolic
    >>> is_symbolic(3)
    False
    """
    if not isinstance(val, int | float):
        raise AssertionError(f"is_symbolic takes a number, got {type(val).__name__}.")
    return False


def _is_number(a: Any, kind: type, name: str) -> bool:
    if not isinstance(a, kind):
        raise AssertionError(f"{name} takes a number of type {kind.__name__}, got {a!r}.")
    return True


def is_concrete_int(a: int) -> bool:
    """Whether an int is known: they all are.

    >>> from pullback.fx.experimental.symbolic_shapes import is_concrete_int
    >>> is_concrete_int(3)
    True
    """
    return _is_number(a, int, "is_concrete_int")


def is_concrete_float(a: float) -> bool:
    """Whether a float is known: they all are.

    >>> from pullback.fx.experimental.symbolic_shapes import is_concrete_float
    >>> is_concrete_float(0.5)
    True
    """
    return _is_number(a, float, "is_concrete_float")


def is_concrete_bool(a: bool) -> bool:
    """Whether a bool is known: they all are.

    >>> from pullback.fx.experimental.symbolic_shapes import is_concrete_bool
    >>> is_concrete_bool(False)
    True
    """
    return _is_number(a, bool, "is_concrete_bool")


def guard_int(a: int) -> int:
    """The int itself, to be relied on.

    >>> from pullback.fx.experimental.symbolic_shapes import guard_int
    >>> guard_int(3)
    3
    """
    _is_number(a, int, "guard_int")
    return a


def guard_bool(a: bool) -> bool:
    """The bool itself, to be relied on.

    >>> from pullback.fx.experimental.symbolic_shapes import guard_bool
    >>> guard_bool(2 > 1)
    True
    """
    _is_number(a, bool, "guard_bool")
    return a


def guard_scalar(a: Any) -> Any:
    """The number itself, to be relied on.

    >>> from pullback.fx.experimental.symbolic_shapes import guard_scalar
    >>> guard_scalar(0.5)
    0.5
    """
    if not isinstance(a, int | float):
        raise AssertionError(f"guard_scalar takes a number, got {type(a).__name__}.")
    return a


def statically_known_true(x: bool) -> bool:
    """Whether a condition is known to hold.

    >>> from pullback.fx.experimental.symbolic_shapes import statically_known_true
    >>> statically_known_true(3 % 2 == 0)
    False
    """
    _is_number(x, bool, "statically_known_true")
    return x


def statically_known_false(x: bool) -> bool:
    """Whether a condition is known not to hold.

    >>> from pullback.fx.experimental.symbolic_shapes import statically_known_false
    >>> statically_known_false(3 % 2 == 0)
    True
    """
    _is_number(x, bool, "statically_known_false")
    return not x


def guard_or_true(a: bool) -> bool:
    """A condition; true if it could not be known, which does not happen here.

    >>> from pullback.fx.experimental.symbolic_shapes import guard_or_true
    >>> guard_or_true(1 > 2)
    False
    """
    return guard_bool(a)


def guard_or_false(a: bool) -> bool:
    """A condition; false if it could not be known, which does not happen here.

    >>> from pullback.fx.experimental.symbolic_shapes import guard_or_false
    >>> guard_or_false(1 < 2)
    True
    """
    return guard_bool(a)


def guard_size_oblivious(expr: bool) -> bool:
    """What a comparison of sizes gives, where sizes of 0 and 1 need not be told apart.

    >>> from pullback.fx.experimental.symbolic_shapes import guard_size_oblivious
    >>> guard_size_oblivious(3 == 1)
    False
    """
    return guard_bool(expr)


def free_symbols(val: Any) -> set[Any]:
    """The symbols in a number, a tensor or several of them: none, as sizes are ints.

    >>> from pullback.fx.experimental.symbolic_shapes import free_symbols
    >>> free_symbols([3, 4])
    set()
    """
    return set()


def has_free_symbols(val: Any) -> bool:
    """Whether there are symbols in it: there are none, as sizes are ints."""
    return bool(free_symbols(val))


def is_nested_int(s: Any) -> bool:
    """Whether a size is the one of a nested tensor that differs from part to part.

    >>> import pullback as torch
    >>> from pullback.fx.experimental.symbolic_shapes import is_nested_int
    >>> parts = [torch.ones(2, 3), torch.ones(4, 3)]
    >>> nested = torch.nested.nested_tensor(parts, layout=torch.jagged)
    >>> [is_nested_int(size) for size in nested.shape]
    [False, True, False]
    """
    return isinstance(s, SymInt) and not isinstance(s, int)


def fx_placeholder_vals(gm: Any) -> list[Any]:
    """What the inputs of a traced graph were, without data.

    >>> import pullback as torch
    >>> from pullback.fx.experimental.proxy_tensor import make_fx
    >>> from pullback.fx.experimental.symbolic_shapes import fx_placeholder_vals
    >>> made = make_fx(lambda x: x + 1, tracing_mode="fake")(torch.ones(2, 3))
    >>> fx_placeholder_vals(made)
    [FakeTensor(..., size=(2, 3))]
    """
    return [node.meta["val"] for node in gm.graph.nodes if node.op == "placeholder"]


def fx_placeholder_targets(gm: Any) -> list[str]:
    """The names of the inputs of a graph.

    >>> from pullback import fx
    >>> from pullback.fx.experimental.symbolic_shapes import fx_placeholder_targets
    >>> fx_placeholder_targets(fx.symbolic_trace(lambda x, y: x + y))
    ['x', 'y']
    """
    return [node.target for node in gm.graph.nodes if node.op == "placeholder"]


def sym_eq(x: Any, y: Any) -> bool:
    """Whether two numbers, or lists or tuples of numbers, are equal.

    >>> from pullback.fx.experimental.symbolic_shapes import sym_eq
    >>> sym_eq((2, 3), (2, 3)), sym_eq([2, 3], [2])
    (True, False)
    """
    if isinstance(x, tuple | list) and isinstance(y, tuple | list):
        return len(x) == len(y) and all(sym_eq(a, b) for a, b in zip(x, y, strict=True))
    if isinstance(x, int) and isinstance(y, int):
        return x == y
    raise AssertionError(f"sym_eq compares ints, or lists of them, got {x!r} and {y!r}.")


__dir__ = _only_public(globals())
