"""What the function transforms ask of their arguments: argnums, pytrees, (output, aux)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from pullback.core.tensor import Tensor
from pullback.core.trees.pytree import TreeSpec, tree_flatten, tree_leaves, tree_unflatten
from pullback.transforms.batched import Batched

__all__ = ["Chosen", "flat_tensors", "name_of", "split_aux"]


def name_of(function: Any) -> str:
    """How to call a function in an error."""
    return getattr(function, "__name__", None) or repr(function)


def checked_argnums(transform: str, argnums: Any, count: int) -> tuple[int, ...]:
    """`argnums` as non-negative ints; refused where they do not name positional arguments."""
    numbers = argnums if isinstance(argnums, tuple) else (argnums,)
    if not numbers:
        raise RuntimeError(f"{transform}: argnums is an empty tuple; name at least one argument.")
    for number in numbers:
        if not isinstance(number, int) or isinstance(number, bool):
            raise RuntimeError(
                f"{transform}: argnums must be an int or a tuple of ints, got {argnums!r}."
            )
        if not -count <= number < count:
            raise RuntimeError(
                f"{transform}: argnums={argnums!r}, but the function was called with {count} "
                "positional "
                "arguments."
            )
    chosen = tuple([number % count for number in numbers])
    if len(set(chosen)) != len(chosen):
        raise RuntimeError(f"{transform}: argnums={argnums!r} names an argument twice.")
    return chosen


def flat_tensors(transform: str, what: str, tree: Any) -> tuple[list[Any], TreeSpec]:
    """The leaves of a pytree that must all be tensors, and its structure."""
    leaves, spec = tree_flatten(tree)
    for leaf in leaves:
        if not isinstance(leaf, Tensor):
            raise ValueError(
                f"{transform}: {what} must hold only Tensors, found {type(leaf).__name__}. Choose "
                "the arguments to differentiate by argnums, or take that value out of them."
            )
    return leaves, spec


class Chosen:
    """The arguments that argnums chooses, taken apart, and how to call the function with others."""

    def __init__(self, transform: str, argnums: Any, args: Sequence[Any]) -> None:
        self.args = list(args)
        self.single = not isinstance(argnums, tuple)
        known = type(argnums) is int and 0 <= argnums < len(args)
        self.numbers = (argnums,) if known else checked_argnums(transform, argnums, len(args))
        self.leaves: list[Any] = []
        self.specs: list[TreeSpec | None] = []  # None: the argument is a tensor
        for number in self.numbers:
            one = args[number]
            if one.__class__ is Tensor or one.__class__ is Batched:
                self.leaves.append(one)
                self.specs.append(None)
                continue
            leaves, spec = flat_tensors(transform, f"argument {number}", args[number])
            self.leaves += leaves
            self.specs.append(spec)

    def replaced(self, leaves: Sequence[Any]) -> list[Any]:
        """All positional arguments, with `leaves` in the chosen ones."""
        args = list(self.args)
        if len(self.specs) == 1 and self.specs[0] is None:
            args[self.numbers[0]] = leaves[0]
            return args
        for number, tree in zip(self.numbers, self._trees(leaves), strict=True):
            args[number] = tree
        return args

    def structured(self, leaves: Sequence[Any]) -> Any:
        """One value per leaf, in the structure of the chosen argument, or a tuple of them."""
        if self.single and self.specs[0] is None:
            return leaves[0]
        trees = self._trees(leaves)
        return trees[0] if self.single else tuple(trees)

    def _trees(self, leaves: Sequence[Any]) -> list[Any]:
        trees: list[Any] = []
        start = 0
        for spec in self.specs:
            if spec is None:
                trees.append(leaves[start])
                start += 1
                continue
            trees.append(tree_unflatten(leaves[start : start + spec.num_leaves], spec))
            start += spec.num_leaves
        return trees


def split_aux(transform: str, function: Callable[..., Any], result: Any) -> Any:
    """(output, aux) as the function returned it."""
    if not isinstance(result, tuple) or len(result) != 2:
        got = f"a tuple of {len(result)}" if isinstance(result, tuple) else type(result).__name__
        raise RuntimeError(
            f"{transform}: with has_aux=True, {name_of(function)} must return (output, aux), got "
            f"{got}."
        )
    for leaf in tree_leaves(result[1]):
        if not isinstance(leaf, Tensor):
            raise RuntimeError(
                f"{transform}: the auxiliary output of {name_of(function)} must hold only Tensors, "
                f"found {type(leaf).__name__}. Write other values to something outside."
            )
    return result
