"""jvp, jacfwd, hessian and linearize: derivatives that go along with the function."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

from pullback.core.captured import Scope
from pullback.core.tensor import Tensor
from pullback.core.trees.pytree import tree_flatten, tree_unflatten
from pullback.func.reverse_mode import jacrev, refuse_complex
from pullback.operators.create.sizes import zeros_like
from pullback.transforms.arguments import Chosen, name_of, split_aux
from pullback.transforms.basis import basis, split_columns
from pullback.transforms.batched import Batched, batched
from pullback.transforms.mapping import mapped, taken_out
from pullback.transforms.pushing import Pushing
from pullback.transforms.reverse import Recording

__all__ = ["hessian", "jacfwd", "jvp", "linearize"]


def jvp(
    func: Callable[..., Any],
    primals: Any,
    tangents: Any,
    *,
    strict: bool = False,
    has_aux: bool = False,
) -> Any:
    """`(output, tangent)` of `func` at `primals` in the direction `tangents`, both tuples.

    >>> import pullback as torch
    >>> torch.func.jvp(torch.sin, (torch.tensor(0.0),), (torch.tensor(2.0),))
    (tensor(0.), tensor(2.))
    """
    if not isinstance(primals, tuple):
        raise RuntimeError(
            f"jvp({name_of(func)}): primals must be a tuple, got {type(primals).__name__}."
        )
    leaves: Any = primals
    directions, arguments = tangents, _as_they_are
    if not _alike(primals, tangents):
        leaves, spec = _flat("primals", primals)
        directions, other = _flat("tangents", tangents)
        if spec != other:
            raise RuntimeError(
                f"jvp({name_of(func)}): primals and tangents must have the same structure, got "
                f"{spec} and {other}."
            )
        check_directions("jvp", leaves, directions)
        arguments = functools.partial(_structured, spec)
    output, tangent, aux = pushed(
        "jvp", func, arguments, leaves, directions, strict=strict, has_aux=has_aux
    )
    return (output, tangent, aux) if has_aux else (output, tangent)


_as_they_are: Callable[[Any], Any] = tuple


def _structured(spec: Any, leaves: Any) -> Any:
    return tree_unflatten(leaves, spec)


def _alike(primals: tuple[Any, ...], tangents: Any) -> bool:
    """Whether all are plain tensors of real numbers, in pairs of one shape: as most are."""
    if tangents.__class__ is not tuple or len(tangents) != len(primals) or not primals:
        return False
    for primal, tangent in zip(primals, tangents, strict=True):
        if not (primal.__class__ is Tensor is tangent.__class__):
            return False
        a, b = primal._array, tangent._array
        if a.shape != b.shape or a.dtype.kind != "f" or b.dtype.kind != "f":
            return False
    return True


def _flat(what: str, tree: Any) -> tuple[list[Any], Any]:
    leaves, spec = tree_flatten(tree)
    if not leaves:
        raise RuntimeError(f"jvp: {what} must hold at least one Tensor.")
    for leaf in leaves:
        if not isinstance(leaf, Tensor):
            raise RuntimeError(
                f"jvp: {what} must hold only Tensors, found {type(leaf).__name__}; close over "
                "other values."
            )
    return leaves, spec


def check_directions(transform: str, primals: list[Any], tangents: list[Any]) -> None:
    """Each tangent must have its primal's shape, and both must be differentiable."""
    for index, (primal, tangent) in enumerate(zip(primals, tangents, strict=True)):
        for what, one in (("primal", primal), ("tangent", tangent)):
            if not one.dtype.is_differentiable:
                raise ValueError(
                    f"{transform}: {what} {index} is {one.dtype}; it must be floating point or "
                    "complex."
                )
        if tuple(primal.shape) != tuple(tangent.shape):
            raise RuntimeError(
                f"{transform}: tangent {index} has shape {tuple(tangent.shape)}, its primal "
                f"{tuple(primal.shape)}; they must be equal."
            )


def pushed(
    transform: str,
    func: Any,
    arguments: Callable[[list[Any]], Any],
    primals: list[Any],
    tangents: list[Any],
    *,
    strict: bool,
    has_aux: bool,
) -> tuple[Any, Any, Any]:
    """Output, tangent and aux of a function called with `arguments(duals)`."""
    pushing = Pushing(transform, primals, tangents, Scope(func, arguments(primals)))
    with pushing as duals:
        result = func(*arguments(duals))
        output, aux = split_aux(transform, func, result) if has_aux else (result, None)
        if output.__class__ is Tensor:
            tangent = pushing.tangent_of(output)
            if tangent is not None:
                return output, tangent, aux
        outputs, spec = tree_flatten(output)
        if not outputs:
            raise RuntimeError(f"{transform}: {name_of(func)} returned no Tensor to differentiate.")
        made = [_tangent(transform, func, pushing, one, strict=strict) for one in outputs]
    return output, tree_unflatten(made, spec), aux


def _tangent(transform: str, func: Any, pushing: Pushing, output: Any, *, strict: bool) -> Any:
    if not isinstance(output, Tensor):
        raise RuntimeError(
            f"{transform}: {name_of(func)} must return only Tensors, found "
            f"{type(output).__name__}; use has_aux=True for other results."
        )
    tangent = pushing.tangent_of(output)
    if tangent is None and strict:
        raise RuntimeError(
            f"{transform}: an output of {name_of(func)} does not depend on the inputs, which "
            "strict=True forbids."
        )
    return zeros_like(output) if tangent is None else tangent


# jacfwd -------------------------------------------------------------------------------------------


def jacfwd(
    func: Callable[..., Any],
    argnums: int | tuple[int, ...] = 0,
    has_aux: bool = False,
    *,
    randomness: str = "error",
) -> Callable[..., Any]:
    """A function that computes the Jacobian of `func` in one pass, a tangent per input element.

    >>> import pullback as torch
    >>> torch.func.jacfwd(torch.sin)(torch.zeros(2))
    tensor([[1., 0.],
            [0., 1.]])
    """

    @functools.wraps(func)
    def jacobian(*args: Any) -> Any:
        chosen = Chosen("jacfwd", argnums, args)
        refuse_complex("jacfwd", "inputs", chosen.leaves)
        sizes = [math.prod(leaf._array.shape) for leaf in chosen.leaves]
        directions = basis(chosen.leaves, 0, sum(sizes))
        # Numbers drawn for each tangent are batches that `func` itself sees.
        drawn_apart = randomness == "different"
        with mapped(sum(sizes), randomness, for_tangents=not drawn_apart) as level:
            inside = [batched(one, 0, level) for one in directions]
            output, tangent, aux = pushed(
                "jacfwd",
                func,
                chosen.replaced,
                chosen.leaves,
                inside,
                strict=False,
                has_aux=has_aux,
            )
            # Inside: an output may itself be a batch, by numbers that were drawn for each tangent.
            alone = output.__class__ is Tensor or output.__class__ is Batched
            outputs, spec = ([output], None) if alone else tree_flatten(output)
            refuse_complex("jacfwd", "outputs", outputs)
        blocks = []
        for one in [tangent] if alone else tree_flatten(tangent)[0]:
            column = taken_out(one, level, one_ndim(one))
            blocks.append(chosen.structured(split_columns(column, sizes, chosen.leaves)))
        result = blocks[0] if spec is None else tree_unflatten(blocks, spec)
        return (result, aux) if has_aux else result

    return jacobian


def one_ndim(tensor: Any) -> int:
    """The number of dimensions of one example; of its batch it is one more."""
    value = getattr(tensor, "value", None)
    return int(tensor.ndim if value is None else value.ndim - 1)


def hessian(func: Callable[..., Any], argnums: int | tuple[int, ...] = 0) -> Callable[..., Any]:
    """A function that computes the Hessian of `func`, by forward over reverse mode.

    >>> import pullback as torch
    >>> torch.func.hessian(lambda x: (x ** 3).sum())(torch.ones(2))
    tensor([[6., 0.],
            [0., 6.]])
    """
    return jacfwd(jacrev(func, argnums), argnums)


# linearize ----------------------------------------------------------------------------------------


def linearize(func: Callable[..., Any], *primals: Any) -> tuple[Any, Callable[..., Any]]:
    """`(output, jvp_fn)`: the derivative of `func` at `primals` as a linear function.

    `jvp_fn(*tangents)` runs nothing of `func` again: it transposes the recorded backward pass.

    >>> import pullback as torch
    >>> output, jvp_fn = torch.func.linearize(torch.sin, torch.tensor(0.0))
    >>> jvp_fn(torch.tensor(2.0))
    tensor(2.)
    """
    chosen = Chosen("linearize", tuple(range(len(primals))), primals)
    recording = Recording("linearize", chosen.leaves, Scope(func, primals))
    with recording as inputs:
        output = func(*chosen.replaced(inputs))
    leaves, spec = tree_flatten(output)
    places = [number for number, leaf in enumerate(leaves) if _carries(leaf)]
    outputs = [leaves[number] for number in places]
    # The backward pass is linear in its cotangents: recorded once, its own transpose is the jvp.
    probe = Recording("linearize", [one.new_zeros(one.shape) for one in outputs])
    with probe as cotangents:
        gradients = recording.gradients(outputs, cotangents, keep=True)

    def jvp_fn(*tangents: Any) -> Any:
        directions = _checked_like(tangents, primals)
        made = probe.gradients(gradients, directions, keep=True)
        filled = [zeros_like(leaf) if isinstance(leaf, Tensor) else leaf for leaf in leaves]
        for number, one in zip(places, made, strict=True):
            filled[number] = one
        return tree_unflatten(filled, spec)

    return tree_unflatten([recording.released(leaf) for leaf in leaves], spec), jvp_fn


def _carries(leaf: Any) -> bool:
    return isinstance(leaf, Tensor) and leaf.dtype.is_differentiable


def _checked_like(tangents: tuple[Any, ...], primals: tuple[Any, ...]) -> list[Any]:
    given, spec = tree_flatten(tangents)
    leaves, wanted = tree_flatten(primals)
    if spec != wanted:
        raise RuntimeError(
            f"jvp_fn of linearize: the tangents have the structure {spec}, the primals {wanted}; "
            "they must be equal."
        )
    for number, (tangent, primal) in enumerate(zip(given, leaves, strict=True)):
        for what in ("shape", "dtype", "device"):
            if getattr(tangent, what, None) != getattr(primal, what):
                raise RuntimeError(
                    f"jvp_fn of linearize: leaf {number} of the tangents has {what} "
                    f"{getattr(tangent, what, None)}, its primal {getattr(primal, what)}; they "
                    "must be equal."
                )
    return given
