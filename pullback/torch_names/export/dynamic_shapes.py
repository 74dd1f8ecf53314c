"""Which sizes of an exported program may vary: `Dim`, and what users write with it."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, ClassVar, NamedTuple

from pullback.core.listing import only_public as _only_public
from pullback.core.tensor import Tensor
from pullback.core.trees import pytree

__all__ = ["AUTO", "DYNAMIC", "STATIC", "Constraint", "Dim", "DimHint", "Varying", "dims"]

UNBOUNDED = (1 << 63) - 1


class DimHint:
    """`Dim.AUTO`, `Dim.DYNAMIC` or `Dim.STATIC`: whether a size varies, without a name for it.

    Args:
        kind: "AUTO", "DYNAMIC" or "STATIC".
    """

    def __init__(self, kind: str, min: int | None = None, max: int | None = None) -> None:
        self.kind, self.min, self.max = kind, min, max

    def __call__(self, min: int | None = None, max: int | None = None) -> DimHint:
        """The same with bounds."""
        if self.kind == "STATIC":
            raise TypeError("Dim.STATIC takes no bounds: the size is the one of the example.")
        return DimHint(self.kind, min, max)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DimHint):
            return NotImplemented
        return (self.kind, self.min, self.max) == (other.kind, other.min, other.max)

    def __hash__(self) -> int:
        return hash((self.kind, self.min, self.max))

    def __repr__(self) -> str:
        bounds = [f"{k}={v}" for k, v in (("min", self.min), ("max", self.max)) if v is not None]
        return f"DimHint({', '.join([self.kind, *bounds])})"


AUTO, DYNAMIC, STATIC = DimHint("AUTO"), DimHint("DYNAMIC"), DimHint("STATIC")


class Dim:
    """A size that varies between bounds; two dimensions with one `Dim` vary together.

    `Dim.AUTO` lets a size vary where the function allows it, `Dim.DYNAMIC` demands it, and
    `Dim.STATIC` is a size that stays.

    Example:
        >>> from pullback.export import Dim
        >>> Dim("batch", max=64)
        Dim('batch', min=0, max=64)
    """

    AUTO: ClassVar[DimHint] = AUTO
    DYNAMIC: ClassVar[DimHint] = DYNAMIC
    STATIC: ClassVar[DimHint] = STATIC

    def __init__(self, name: str, *, min: int | None = None, max: int | None = None) -> None:
        if not name.isidentifier():
            raise AssertionError(f"Dim: the name must be an identifier, got {name!r}.")
        self.__name__ = name
        self.min = 0 if min is None else min
        self.max = UNBOUNDED if max is None else max
        if self.max <= self.min:
            raise AssertionError(f"Dim {name!r}: max={self.max} is not above min={self.min}.")

    def _refused(self, *args: Any) -> Any:
        raise NotImplementedError(
            f"Dim {self.__name__!r}: sizes that are expressions of others are not supported; "
            "use Dim.DYNAMIC for the second one."
        )

    __add__ = __radd__ = __sub__ = __mul__ = __rmul__ = _refused

    def __repr__(self) -> str:
        bounds = [] if self.min == 0 and self.max == UNBOUNDED else [f"min={self.min}"]
        bounds += [] if self.max == UNBOUNDED else [f"max={self.max}"]
        return f"Dim({', '.join([repr(self.__name__), *bounds])})"


Constraint = Dim  # torch's class of what it finds out; here what users wrote


def dims(*names: str, min: int | None = None, max: int | None = None) -> tuple[Dim, ...]:
    """Several dimensions with the same bounds.

    >>> from pullback.export import dims
    >>> dims("height", "width", max=1024)
    (Dim('height', min=0, max=1024), Dim('width', min=0, max=1024))
    """
    return tuple(Dim(name, min=min, max=max) for name in names)


class Varying(NamedTuple):
    """A size that varies: its bounds, where it stands, and whether it must.

    Args:
        least: Smallest size.
        most: Largest size.
        places: Pairs of the flat position of an argument and a dimension of it.
        demanded: Whether it is an error if the size turns out constant.
    """

    name: str
    least: int
    most: int
    places: list[tuple[int, int]]  # number of the input among the leaves, dimension
    demanded: bool


def varying(
    forward: Any, args: tuple[Any, ...], kwargs: Mapping[str, Any], wanted: Any
) -> list[Varying]:
    """The sizes that `dynamic_shapes` lets vary, in the order of the inputs."""
    if wanted is None:
        return []
    given = list(kwargs)
    if isinstance(wanted, Mapping):
        names = _argument_names(forward, args, given)
        if set(wanted) != set(names):
            raise ValueError(
                f"dynamic_shapes: the keys must be the names of the arguments, {names}, got "
                f"{list(wanted)}."
            )
        listed = [wanted[name] for name in names]
    else:
        listed = list(wanted)
        if len(listed) != len(args) + len(given):
            raise ValueError(
                f"dynamic_shapes: {len(listed)} entries for {len(args) + len(given)} arguments."
            )
    found: dict[Any, Varying] = {}
    number = 0
    for value, spec in zip((*args, *kwargs.values()), listed, strict=True):
        leaves = pytree.tree_flatten(value)[0]
        for leaf, one in zip(leaves, _specs_of(value, spec, len(leaves)), strict=True):
            _add(found, number, leaf, one)
            number += 1
    return list(found.values())


def _argument_names(forward: Any, args: tuple[Any, ...], given: list[str]) -> list[str]:
    bound = inspect.signature(forward).bind(*args, **dict.fromkeys(given)).arguments
    names = []
    for name in bound:
        kind = inspect.signature(forward).parameters[name].kind
        if kind is inspect.Parameter.VAR_KEYWORD:
            names += list(bound[name])
        else:
            names.append(name)
    # *args is one entry for all of them.
    return names


def _specs_of(value: Any, spec: Any, count: int) -> list[Any]:
    """What is said of each leaf of an argument."""
    if isinstance(value, Tensor) or spec is None:
        return [spec] * count
    if isinstance(value, Mapping) and isinstance(spec, Mapping):
        pairs = [(one, spec.get(key)) for key, one in value.items()]
    elif isinstance(value, tuple | list) and isinstance(spec, tuple | list):
        if len(value) != len(spec):
            raise ValueError(f"dynamic_shapes: {len(spec)} entries for {len(value)} parts.")
        pairs = list(zip(value, spec, strict=True))
    else:
        raise ValueError(
            f"dynamic_shapes: {spec!r} is said of {type(value).__name__}; write it as the argument "
            "nests, or None."
        )
    found: list[Any] = []
    for part, one in pairs:
        found += _specs_of(part, one, len(pytree.tree_flatten(part)[0]))
    return found


def _add(found: dict[Any, Varying], number: int, leaf: Any, spec: Any) -> None:
    if spec is None or not isinstance(leaf, Tensor):
        return
    pairs = spec.items() if isinstance(spec, Mapping) else enumerate(spec)
    for dim, one in pairs:
        if not -leaf.ndim <= dim < leaf.ndim:
            raise ValueError(f"dynamic_shapes: dimension {dim} of a tensor with {leaf.ndim}.")
        dim %= leaf.ndim
        size = leaf.shape[dim]
        if one is None or one == STATIC:
            continue
        if isinstance(one, int):
            if one != size:
                raise ValueError(f"dynamic_shapes: size {one} for an example of size {size}.")
            continue
        made = _named(one, number, dim)
        if not made.least <= size <= made.most:
            raise ValueError(
                f"dynamic_shapes: the example has size {size}, which is not between {made.least} "
                f"and {made.most} ({made.name})."
            )
        key = made.name
        if key in found:
            found[key].places.append((number, dim))
        else:
            found[key] = made


def _named(one: Any, number: int, dim: int) -> Varying:
    if isinstance(one, Dim):
        return Varying(one.__name__, one.min, one.max, [(number, dim)], demanded=True)
    if isinstance(one, DimHint):
        least = 0 if one.min is None else one.min
        most = UNBOUNDED if one.max is None else one.max
        name = f"s{number}_{dim}"
        return Varying(name, least, most, [(number, dim)], demanded=one.kind == "DYNAMIC")
    raise TypeError(f"dynamic_shapes: a Dim, an int or None, got {type(one).__name__}.")


__dir__ = _only_public(globals())
