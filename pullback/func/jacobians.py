"""jacobian, which chooses how it is computed; and linear_transpose."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy

from pullback.core.captured import Scope
from pullback.core.tensor import Tensor, wrap
from pullback.core.trees.pytree import tree_flatten, tree_leaves, tree_map, tree_unflatten
from pullback.func.forward_mode import jacfwd, pushed
from pullback.func.holomorphic import complex_inputs, not_holomorphic
from pullback.func.reverse_mode import jacrev
from pullback.func.sparse import sparse_jacobian
from pullback.func.sparsity import SparsityPattern, found_pattern
from pullback.operators.create.sizes import zeros_like
from pullback.transforms.arguments import Chosen, flat_tensors, name_of
from pullback.transforms.basis import basis, split_columns
from pullback.transforms.batched import Batched, batched
from pullback.transforms.mapping import mapped, taken_out
from pullback.transforms.reverse import Recording

__all__ = ["JacobianChoice", "jacobian", "linear_transpose"]

# Below so many input elements the run that looks for a pattern costs more than it can save.
_FEW = 64


class JacobianChoice(NamedTuple):
    """How `jacobian` computes, and why; `print` it.

    >>> import pullback as torch
    >>> print(torch.func.jacobian(torch.sin).explain(torch.zeros(3)))
    forward: 3 input elements, 3 output elements; forward mode takes 3 tangents and keeps no graph.
    """

    mode: str  # "forward", "reverse" or "coloured"
    why: str
    inputs: int
    outputs: int
    pattern: SparsityPattern | None = None

    def __str__(self) -> str:
        return f"{self.mode}: {self.why}"


def jacobian(
    func: Callable[..., Any], argnums: int | tuple[int, ...] = 0, *, holomorphic: bool = False
) -> Callable[..., Any]:
    """The function that gives the Jacobian of `func`, by what takes the fewest passes.

    Forward mode where the inputs have no more elements than the outputs, reverse mode where they
    have more. With one input and one output, both large, it first looks for zeros: where the
    colouring of `jacobian_sparsity` takes less than a quarter of the passes, the entries are
    computed by colours and laid out densely. The result is that of `jacfwd` and `jacrev`.

    The function has a method `explain(*args)` that says which one was chosen, and why: a
    `JacobianChoice`.

    Args:
        func: a function of Tensors; returns a Tensor or a structure of Tensors.
        argnums: which positional arguments the derivatives are taken by.
        holomorphic: for complex inputs, say that `func` is holomorphic; the Jacobian is then that
            of complex derivatives. One more tangent checks it: RuntimeError if it is not so. Real
            inputs may have complex outputs without it.

    >>> import pullback as torch
    >>> jacobian = torch.func.jacobian(lambda x: x.sum() * x)
    >>> jacobian(torch.tensor([1.0, 2.0]))
    tensor([[4., 1.],
            [2., 5.]])
    >>> torch.func.jacobian(lambda x: x.sum()).explain(torch.zeros(5)).mode
    'reverse'
    """

    @functools.wraps(func)
    def computed(*args: Any) -> Any:
        chosen = Chosen("jacobian", argnums, args)
        if complex_inputs("jacobian", func, chosen.leaves, holomorphic=holomorphic):
            return _by_complex_tangents(func, chosen)
        choice, outputs = _choice(func, chosen)
        if any(one.dtype.is_complex for one in outputs):
            return _by_complex_tangents(func, chosen, check=False)
        if choice.pattern is not None:
            made = sparse_jacobian(func, chosen.numbers[0], pattern=choice.pattern)(*args)
            return made.to_dense()
        return (jacfwd if choice.mode == "forward" else jacrev)(func, argnums)(*args)

    def explain(*args: Any) -> JacobianChoice:
        return _choice(func, Chosen("jacobian", argnums, args))[0]

    computed.explain = explain  # type: ignore[attr-defined]  # an attribute of a function
    return computed


def _choice(func: Any, chosen: Chosen) -> tuple[JacobianChoice, list[Any]]:
    """What to do, and the outputs by which it was decided."""
    inputs = sum(leaf.numel() for leaf in chosen.leaves)
    pattern = None
    if _may_be_sparse(chosen, inputs):
        pattern, outputs = _pattern_and_outputs(func, chosen)
    else:
        outputs = tree_leaves(func(*chosen.args))
    for one in outputs:
        if not isinstance(one, Tensor):
            raise RuntimeError(
                f"jacobian: {name_of(func)} must return only Tensors, found {type(one).__name__}."
            )
    total = sum(one.numel() for one in outputs)
    sizes = f"{inputs} input elements, {total} output elements"
    fewest = min(inputs, total)
    if any(one.dtype.is_complex for one in (*chosen.leaves, *outputs)):
        why = f"{sizes}; of complex numbers forward mode gives the derivatives, reverse mode not."
        return JacobianChoice("forward", why, inputs, total), outputs
    if pattern is not None and 4 * pattern.passes < fewest:
        why = (
            f"{sizes}; {pattern.nnz} of {inputs * total} entries can be nonzero, and {pattern.mode}"
            f" mode by colours takes {pattern.passes} passes in place of {fewest}."
        )
        return JacobianChoice("coloured", why, inputs, total, pattern), outputs
    if inputs <= total:
        why = f"{sizes}; forward mode takes {inputs} tangents and keeps no graph."
        return JacobianChoice("forward", why, inputs, total), outputs
    why = f"{sizes}; reverse mode takes {total} cotangents."
    return JacobianChoice("reverse", why, inputs, total), outputs


def _may_be_sparse(chosen: Chosen, inputs: int) -> bool:
    """Whether to look for zeros: a single large tensor of real numbers, as it lies in memory."""
    alone = len(chosen.leaves) == 1 and chosen.specs[0] is None and chosen.single
    leaf = chosen.leaves[0] if chosen.leaves else None
    return alone and inputs > _FEW and leaf.__class__ is Tensor and not leaf.dtype.is_complex


def _pattern_and_outputs(func: Any, chosen: Chosen) -> tuple[SparsityPattern | None, list[Any]]:
    """The pattern, None where there is none to be found, and what the function returned."""
    kept: list[Any] = []

    def keeping(*args: Any) -> Any:
        kept[:] = [func(*args)]
        return kept[0]

    try:
        pattern = found_pattern("jacobian", keeping, chosen)
    except RuntimeError:
        # Several outputs, or tensors that are not followed; the plain ways know what to say.
        return None, tree_leaves(func(*chosen.args))
    return pattern, tree_leaves(kept[0])


def _by_complex_tangents(func: Any, chosen: Chosen, *, check: bool = True) -> Any:
    """Columns by forward mode; `check` that the derivative is complex linear."""
    sizes = [leaf.numel() for leaf in chosen.leaves]
    count = sum(sizes)
    with mapped(count, "error", for_tangents=True) as level:
        inside = [batched(one, 0, level) for one in basis(chosen.leaves, 0, count)]
        output, tangent, _ = pushed(
            "jacobian", func, chosen.replaced, chosen.leaves, inside, strict=False, has_aux=False
        )
        spec = tree_flatten(output)[1]
    columns = [taken_out(one, level) for one in tree_flatten(tangent)[0]]
    if check:
        _check_holomorphic(func, chosen, columns)
    blocks = [
        chosen.structured(split_columns(one.movedim(0, -1), sizes, chosen.leaves))
        for one in columns
    ]
    return tree_unflatten(blocks, spec)


def _check_holomorphic(func: Any, chosen: Chosen, columns: list[Any]) -> None:
    if any(isinstance(one, Batched) for one in (*chosen.leaves, *columns)):
        raise RuntimeError(
            "jacobian: holomorphic=True cannot be checked inside vmap; use jvp there."
        )
    turned = [zeros_like(leaf) + 1j for leaf in chosen.leaves]
    _, tangent, _ = pushed(
        "jacobian", func, chosen.replaced, chosen.leaves, turned, strict=False, has_aux=False
    )
    for one, column in zip(tree_flatten(tangent)[0], columns, strict=True):
        wanted = 1j * column.detach().sum(0)
        scale = float(column.detach().abs().sum(0).max()) if column.numel() else 0.0
        if scale and float((one.detach() - wanted).abs().max()) > 1e-3 * scale:
            raise not_holomorphic("jacobian", func)


# linear_transpose ---------------------------------------------------------------------------------


def linear_transpose(func: Callable[..., Any], *primals: Any) -> Callable[..., Any]:
    """The transpose of a linear function: takes an output's cotangent to one for each primal.

    `func` runs here, at zeros to be recorded and at random to see that it is linear; the transpose
    may be called many times and runs nothing of `func` again. With `linearize` it gives the vjp of
    any function at a point.

    Args:
        func: a function that is linear in all its arguments together; RuntimeError if not.
        primals: Tensors, or structures of Tensors, of the shapes and dtypes that `func` takes;
            their values do not matter.

    Returns:
        A function of one argument, with the structure of the output; it returns a tuple with an
        entry for each primal.

    >>> import pullback as torch
    >>> transposed = torch.func.linear_transpose(lambda x: 2 * x[1:], torch.zeros(3))
    >>> transposed(torch.tensor([1.0, 5.0]))
    (tensor([ 0.,  2., 10.]),)
    >>> output, push = torch.func.linearize(torch.sin, torch.zeros(2))
    >>> torch.func.linear_transpose(push, torch.zeros(2))(torch.tensor([3.0, 4.0]))
    (tensor([3., 4.]),)
    """
    leaves, spec = flat_tensors("linear_transpose", "primals", primals)
    at_zero = tree_map(zeros_like, list(leaves))
    recording = Recording("linear_transpose", at_zero, Scope(func, primals))
    with recording as inputs:
        outputs, out_spec = tree_flatten(func(*tree_unflatten(list(inputs), spec)))
    for one in outputs:
        if not isinstance(one, Tensor) or not one.dtype.is_differentiable:
            raise RuntimeError(
                f"linear_transpose: {name_of(func)} must return floating-point or complex Tensors."
            )

    def transposed(cotangents: Any) -> Any:
        given, given_spec = tree_flatten(cotangents)
        shapes = [tuple(getattr(one, "shape", ())) for one in given]
        if given_spec != out_spec or shapes != [tuple(one.shape) for one in outputs]:
            raise RuntimeError(
                "linear_transpose: the cotangent must have the structure and shapes of the output "
                f"of {name_of(func)}: {[tuple(one.shape) for one in outputs]}, got {shapes}."
            )
        same = [one.to(out.dtype) for one, out in zip(given, outputs, strict=True)]
        return tree_unflatten(recording.gradients(outputs, same, keep=True), spec)

    if not any(isinstance(one, Batched) for one in (*leaves, *outputs)):
        _check_linear(func, leaves, spec, outputs, transposed, out_spec)
    return transposed


def _check_linear(
    func: Any, leaves: list[Any], spec: Any, outputs: list[Any], transposed: Any, out_spec: Any
) -> None:
    """Refuse a function whose product with its own transpose, at random, is not one number."""
    random = numpy.random.default_rng(0)
    given = [_random_like(random, one) for one in leaves]
    weights = [_random_like(random, one) for one in outputs]
    made = tree_leaves(func(*tree_unflatten(list(given), spec)))
    back = tree_leaves(transposed(tree_unflatten(list(weights), out_spec)))
    left, size = _dotted(weights, made)
    right, other = _dotted(back, given)
    precision = max(float(numpy.finfo(one._array.dtype).eps) for one in (*leaves, *outputs))
    at_zero = any(bool((one.detach() != 0).any()) for one in outputs)
    if at_zero or abs(left - right) > precision ** (1 / 3) * max(size, other):
        raise RuntimeError(
            f"linear_transpose: {name_of(func)} is not linear. Use vjp, or linearize it first."
        )


def _random_like(random: numpy.random.Generator, tensor: Any) -> Any:
    made = random.standard_normal(tuple(tensor.shape))
    if tensor.dtype.is_complex:
        made = made + 1j * random.standard_normal(made.shape)
    return wrap(numpy.asarray(made)).to(tensor.dtype)


def _dotted(a: list[Any], b: list[Any]) -> tuple[float, float]:
    """The real inner product of two lists of tensors, and that of their absolute values."""
    pairs = [
        [numpy.asarray(t.detach().resolve_conj()._array, numpy.complex128) for t in pair]
        for pair in zip(a, b, strict=True)
    ]
    total = sum(float((x.conj() * y).real.sum()) for x, y in pairs)
    return total, sum(float(numpy.abs(x * y).sum()) for x, y in pairs)
