"""vjp, jvp, jacobian, hessian, vhp and hvp of functions of tensors, called with the point at once.

The older functional interface: tensors and tuples of tensors only, derivatives by backward passes.
`pullback.func` has the newer one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy

from pullback.autograd.grad_mode import enable_grad
from pullback.autograd.symmetry import is_symmetric
from pullback.core.listing import only_public as _only_public
from pullback.core.nesting import refuse_inside
from pullback.core.tensor import Tensor, wrap
from pullback.engine.backward import grad
from pullback.operators.create.sizes import ones_like, zeros_like
from pullback.operators.shape.joining import stack
from pullback.operators.shape.reshaping import reshape, view_as
from pullback.transforms.basis import basis, split_columns
from pullback.transforms.batched import batched
from pullback.transforms.mapping import mapped, taken_out
from pullback.transforms.pushing import Pushing
from pullback.transforms.reverse import Recording

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]


class _Asked(NamedTuple):
    """Which function was called, and what it was asked for."""

    function: str
    create_graph: bool
    strict: bool


# Arguments ----------------------------------------------------------------------------------------


def _as_tuple(value: Any, what: str, function: str) -> tuple[bool, tuple[Any, ...]]:
    """Whether a tuple was given, and the tensors as a tuple."""
    if isinstance(value, tuple):
        for index, one in enumerate(value):
            if not isinstance(one, Tensor):
                raise TypeError(
                    f"{function}: {what} must be a Tensor or a tuple of Tensors, but element "
                    f"{index} of the tuple is a {type(one).__name__}."
                )
        return True, value
    if not isinstance(value, Tensor):
        raise TypeError(
            f"{function}: {what} must be a Tensor or a tuple of Tensors, got "
            f"{type(value).__name__}."
        )
    return False, (value,)


def _entered(inputs: tuple[Any, ...], *, create_graph: bool) -> tuple[Any, ...]:
    """Fresh tensors in place of the inputs, so that the same tensor elsewhere is a constant."""
    refuse_inside("autograd.functional", "Use the functions of pullback.func there.")
    return tuple(
        view_as(one, one)
        if create_graph and one.requires_grad
        else one.detach().requires_grad_(True)
        for one in inputs
    )


def _left(value: Any, *, create_graph: bool) -> Any:
    """Results for the user: with their history, or without."""
    if isinstance(value, tuple):
        return tuple(_left(one, create_graph=create_graph) for one in value)
    return value if create_graph else value.detach()


def _direction(v: Any, like: tuple[Any, ...], what: str, function: str) -> tuple[Any, ...]:
    """The vector to multiply with; 1 for a single number if none is given."""
    if v is None:
        if len(like) != 1 or like[0]._array.size != 1:
            raise RuntimeError(
                f"{function}: v may only be left away where there is a single {what} of one "
                f"element; give one vector for each {what}, of its shape."
            )
        return (ones_like(like[0]),)
    vectors = _as_tuple(v, "v", function)[1]
    if len(vectors) != len(like):
        raise RuntimeError(
            f"{function}: v has {len(vectors)} tensors, but there are {len(like)} {what}s; give "
            "one each."
        )
    for index, (one, model) in enumerate(zip(vectors, like, strict=True)):
        if one._array.shape != model._array.shape:
            raise RuntimeError(
                f"{function}: v[{index}] has shape {tuple(one.shape)}, the {what} "
                f"{tuple(model.shape)}; they must be equal."
            )
    return vectors


def _structured(values: Sequence[Any], *, is_tuple: bool) -> Any:
    return tuple(values) if is_tuple else values[0]


# Gradients ----------------------------------------------------------------------------------------


def _check_requires_grad(outputs: tuple[Any, ...], function: str) -> None:
    for index, one in enumerate(outputs):
        if not one.requires_grad:
            raise RuntimeError(
                f"{function}: output {index} does not require gradients: it does not depend on the "
                "inputs, which strict=True forbids."
            )


def _outputs(
    func: Callable[..., Any], inputs: tuple[Any, ...], asked: _Asked
) -> tuple[bool, tuple[Any, ...]]:
    """Whether `func` gives several results, and those; with `strict` all depend on the inputs."""
    many, outputs = _as_tuple(func(*inputs), "the result of func", asked.function)
    if asked.strict:
        _check_requires_grad(outputs, asked.function)
    return many, outputs


def _gradients(
    outputs: tuple[Any, ...], inputs: tuple[Any, ...], seeds: Sequence[Any], *, create_graph: bool
) -> tuple[Any, ...]:
    """Gradients, None where there are none; outputs without history are left out."""
    for one in outputs:
        if not one.requires_grad:
            pairs = [(one, g) for one, g in zip(outputs, seeds, strict=True) if one.requires_grad]
            if not pairs:
                return (None,) * len(inputs)
            outputs, seeds = zip(*pairs, strict=True)
            break
    gradients: tuple[Any, ...] = grad(
        outputs, inputs, seeds, retain_graph=True, create_graph=create_graph, allow_unused=True
    )
    return gradients


def _filled(
    gradients: Sequence[Any], inputs: Sequence[Any], asked: _Asked, said: str = "the output"
) -> tuple[Any, ...]:
    """Zeros for missing gradients; with `strict` they are refused, and so are constant ones."""
    made = []
    for index, (g, one) in enumerate(zip(gradients, inputs, strict=True)):
        if g is None:
            if asked.strict:
                raise RuntimeError(
                    f"{asked.function}: {said} is independent of input {index}, which strict=True "
                    "forbids."
                )
            g = zeros_like(one)
        elif asked.strict and asked.create_graph and not g.requires_grad:
            raise RuntimeError(
                f"{asked.function}: the derivative with respect to input {index} is independent of "
                "the inputs, which strict=True forbids with create_graph=True."
            )
        made.append(g)
    return tuple(made)


# First order --------------------------------------------------------------------------------------


def vjp(
    func: Callable[..., Any],
    inputs: Any,
    v: Any = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """The outputs of `func`, and `v` times its Jacobian.

    >>> import pullback as torch
    >>> torch.autograd.functional.vjp(torch.exp, torch.zeros(2), torch.ones(2))
    (tensor([1., 1.]), tensor([1., 1.]))
    """
    asked = _Asked("vjp", create_graph, strict)
    with enable_grad():
        many_inputs, given = _as_tuple(inputs, "inputs", "vjp")
        entered = _entered(given, create_graph=create_graph)
        many_outputs, outputs = _outputs(func, entered, asked)
        vectors = _direction(v, outputs, "output", "vjp")
        gradients = _gradients(outputs, entered, vectors, create_graph=create_graph)
        made = _filled(gradients, entered, asked)
    return (
        _left(_structured(outputs, is_tuple=many_outputs), create_graph=create_graph),
        _left(_structured(made, is_tuple=many_inputs), create_graph=create_graph),
    )


def jvp(
    func: Callable[..., Any],
    inputs: Any,
    v: Any = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """The outputs of `func`, and its Jacobian times `v`, by two backward passes.

    >>> import pullback as torch
    >>> torch.autograd.functional.jvp(torch.exp, torch.zeros(2), torch.ones(2))
    (tensor([1., 1.]), tensor([1., 1.]))
    """
    asked = _Asked("jvp", create_graph, strict)
    with enable_grad():
        _, given = _as_tuple(inputs, "inputs", "jvp")
        entered = _entered(given, create_graph=create_graph)
        vectors = _direction(v, entered, "input", "jvp")
        many_outputs, outputs = _outputs(func, entered, asked)
        made = _transposed(outputs, entered, vectors, asked)
    return (
        _left(_structured(outputs, is_tuple=many_outputs), create_graph=create_graph),
        _left(_structured(made, is_tuple=many_outputs), create_graph=create_graph),
    )


def _transposed(
    outputs: tuple[Any, ...], inputs: tuple[Any, ...], vectors: tuple[Any, ...], asked: _Asked
) -> tuple[Any, ...]:
    """Jacobian times `vectors`: the transpose of the backward pass, which is linear."""
    probes = tuple(zeros_like(one).requires_grad_(True) for one in outputs)
    gradients = _gradients(outputs, inputs, probes, create_graph=True)
    filled = _filled(gradients, inputs, asked._replace(create_graph=False))
    products = _gradients(filled, probes, vectors, create_graph=asked.create_graph)
    return _filled(products, probes, asked)


# Jacobian -----------------------------------------------------------------------------------------


def jacobian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """The Jacobian of `func`: blocks of shape `output.shape + input.shape`, in tuples as they are.

    `vectorize=True` computes all rows at once.

    >>> import pullback as torch
    >>> torch.autograd.functional.jacobian(torch.exp, torch.zeros(2))
    tensor([[1., 0.],
            [0., 1.]])
    """
    _check_strategy("jacobian", strategy)
    if vectorize and strict:
        raise RuntimeError("jacobian: strict=True cannot be checked with vectorize=True.")
    asked = _Asked("jacobian", create_graph, strict)
    with enable_grad():
        many_inputs, given = _as_tuple(inputs, "inputs", "jacobian")
        if strategy == "forward-mode":
            if create_graph:
                raise NotImplementedError(
                    "jacobian: create_graph=True is not possible with strategy='forward-mode'; use "
                    "the reverse one."
                )
            if not vectorize:
                raise NotImplementedError("jacobian: strategy='forward-mode' needs vectorize=True.")
            many_outputs, blocks = _forward_blocks(func, given)
        else:
            entered = _entered(given, create_graph=create_graph)
            many_outputs, outputs = _outputs(func, entered, asked)
            blocks = tuple(_rows(one, entered, asked, vectorize=vectorize) for one in outputs)
    result = tuple(_structured(row, is_tuple=many_inputs) for row in blocks)
    return _left(_structured(result, is_tuple=many_outputs), create_graph=create_graph)


def _check_strategy(function: str, strategy: str) -> None:
    if strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError(
            f"{function}: the strategy must be 'reverse-mode' or 'forward-mode', got {strategy!r}."
        )


def _rows(
    output: Any, inputs: tuple[Any, ...], asked: _Asked, *, vectorize: bool
) -> tuple[Any, ...]:
    """The blocks of one output."""
    size = output._array.size
    units = numpy.eye(size, dtype=output._array.dtype).reshape((size, *output._array.shape))
    if not size or not output.requires_grad:
        return tuple(one.new_zeros((*output.shape, *one.shape)) for one in inputs)
    if vectorize:
        gradients = grad(
            output, inputs, wrap(units), retain_graph=True, create_graph=asked.create_graph,
            allow_unused=True, is_grads_batched=True,
        )  # fmt: skip
        return tuple(
            one.new_zeros((*output.shape, *one.shape))
            if g is None
            else reshape(g, (*output.shape, *one.shape))
            for g, one in zip(gradients, inputs, strict=True)
        )
    rows = []
    for unit in units:
        gradients = _gradients((output,), inputs, [wrap(unit)], create_graph=asked.create_graph)
        rows.append(_filled(gradients, inputs, asked, "an output"))
    return tuple(
        reshape(stack(column), (*output.shape, *one.shape))
        for column, one in zip(zip(*rows, strict=True), inputs, strict=True)
    )


def _forward_blocks(
    func: Callable[..., Any], inputs: tuple[Any, ...]
) -> tuple[bool, tuple[tuple[Any, ...], ...]]:
    """Blocks of all outputs, from one run with a tangent for each element of the inputs."""
    refuse_inside("autograd.functional", "Use the functions of pullback.func there.")
    sizes = [one._array.size for one in inputs]
    total = sum(sizes)
    with mapped(total, for_tangents=True) as level:
        inside = [batched(one, 0, level) for one in basis(inputs, 0, total)]
        pushing = Pushing("jacobian", [one.detach() for one in inputs], inside)
        with pushing as duals:
            many, outputs = _as_tuple(func(*duals), "the result of func", "jacobian")
            tangents = [pushing.tangent_or_zeros(one) for one in outputs]
    columns = [taken_out(one, level, out.ndim) for out, one in zip(outputs, tangents, strict=True)]
    return many, tuple(tuple(split_columns(one, sizes, inputs)) for one in columns)


# Second order -------------------------------------------------------------------------------------


def _one_number(value: Any, function: str) -> Any:
    many, outputs = _as_tuple(value, "the result of func", function)
    if many:
        raise RuntimeError(f"{function}: func must return a single Tensor, got a tuple.")
    if outputs[0]._array.size != 1:
        raise RuntimeError(
            f"{function}: func must return a Tensor with a single element, got shape "
            f"{tuple(outputs[0].shape)}."
        )
    return outputs[0]


def hessian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """The Hessian of `func`, which returns one number; a tuple of tuples for a tuple of inputs.

    >>> import pullback as torch
    >>> torch.autograd.functional.hessian(lambda x: (x ** 3).sum(), torch.ones(2))
    tensor([[6., 0.],
            [0., 6.]])
    """
    many, given = _as_tuple(inputs, "inputs", "hessian")
    _check_strategy("hessian", outer_jacobian_strategy)
    forward = outer_jacobian_strategy == "forward-mode"

    def gradient(*points: Any) -> tuple[Any, ...]:
        # Forward over reverse: the points carry tangents, and need a history of their own.
        recording = Recording("hessian", points) if forward else None
        own = tuple(recording.inputs) if recording else points
        value = _one_number(func(*own), "hessian")
        if strict:
            _check_requires_grad((value,), "hessian")
        made = _gradients((value,), own, [ones_like(value)], create_graph=True)
        return _filled(made, own, _Asked("hessian", create_graph=False, strict=strict))

    blocks = jacobian(
        gradient, given, create_graph, strict, vectorize, strategy=outer_jacobian_strategy
    )
    return blocks if many else blocks[0][0]


def _second_order(func: Callable[..., Any], inputs: Any, v: Any, asked: _Asked) -> tuple[Any, Any]:
    """The value, and the product of the gradients' Jacobian with `v`, from the side that is asked.

    Of a symmetric one from the left, which takes a pass less.
    """
    function, create_graph, strict = asked
    with enable_grad():
        many, entered, output, gradients = _first_order(func, inputs, asked)
        left = function == "vhp" or (
            not (create_graph or strict) and is_symmetric((output, *gradients), entered)
        )
        product = _from_the_left if left else _transposed
        made = product(gradients, entered, _direction(v, entered, "input", function), asked)
    return (
        _left(output, create_graph=create_graph),
        _left(_structured(made, is_tuple=many), create_graph=create_graph),
    )


def vhp(
    func: Callable[..., Any],
    inputs: Any,
    v: Any = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """The value of `func`, and `v` times its Hessian.

    >>> import pullback as torch
    >>> torch.autograd.functional.vhp(lambda x: (x ** 3).sum(), torch.ones(2), torch.ones(2))
    (tensor(2.), tensor([6., 6.]))
    """
    return _second_order(func, inputs, v, _Asked("vhp", create_graph, strict))


def _from_the_left(
    gradients: tuple[Any, ...], entered: tuple[Any, ...], vectors: tuple[Any, ...], asked: _Asked
) -> tuple[Any, ...]:
    """`vectors` times the Jacobian of the gradients."""
    products = _gradients(gradients, entered, vectors, create_graph=asked.create_graph)
    return _filled(products, entered, asked, "the gradient of the output")


def hvp(
    func: Callable[..., Any],
    inputs: Any,
    v: Any = None,
    create_graph: bool = False,
    strict: bool = False,
) -> tuple[Any, Any]:
    """The value of `func`, and its Hessian times `v`.

    One more pass than `vhp` takes, unless the Hessian is sure to be symmetric: without custom
    Functions and hooks, `create_graph` and `strict`.

    >>> import pullback as torch
    >>> torch.autograd.functional.hvp(lambda x: (x ** 3).sum(), torch.ones(2), torch.ones(2))
    (tensor(2.), tensor([6., 6.]))
    """
    return _second_order(func, inputs, v, _Asked("hvp", create_graph, strict))


def _first_order(
    func: Callable[..., Any], inputs: Any, asked: _Asked
) -> tuple[bool, tuple[Any, ...], Any, tuple[Any, ...]]:
    """The value and the gradient, recorded."""
    many, given = _as_tuple(inputs, "inputs", asked.function)
    entered = _entered(given, create_graph=asked.create_graph)
    output = _one_number(func(*entered), asked.function)
    if asked.strict:
        _check_requires_grad((output,), asked.function)
    gradients = _gradients((output,), entered, [ones_like(output)], create_graph=True)
    filled = _filled(gradients, entered, asked._replace(create_graph=True))
    return many, entered, output, filled


def _construct_standard_basis_for(tensors: Any, tensor_numels: Any) -> tuple[Tensor, ...]:
    """The identity of the space of all tensors together, its columns split among them.

    >>> import pullback as torch
    >>> from pullback.autograd.functional import _construct_standard_basis_for
    >>> _construct_standard_basis_for([torch.ones(1), torch.ones(1)], [1, 1])
    (tensor([[1.],
            [0.]]), tensor([[0.],
            [1.]]))
    """
    if len(tensors) != len(tensor_numels) or not tensors:
        raise ValueError("One number of elements for each of one or more tensors is needed.")
    total, start, made = sum(tensor_numels), 0, []
    for tensor, count in zip(tensors, tensor_numels, strict=True):
        made.append(tensor.new_zeros(total, count))
        made[-1][start : start + count].fill_diagonal_(1)
        start += count
    return tuple(made)


# Torch's inner names, which libraries with derivatives of their own build upon -------------------


def _grad_preprocess(inputs: Any, create_graph: bool, need_graph: bool) -> tuple[Any, ...]:
    """Fresh tensors for the inputs: with a gradient where one is needed, else cut off."""
    fresh = _entered(tuple(inputs), create_graph=create_graph)
    return fresh if need_graph or create_graph else tuple(one.detach() for one in fresh)


def _grad_postprocess(inputs: Any, create_graph: bool) -> Any:
    """Results, for the user: without their history unless it is asked for."""
    return _left(inputs, create_graph=create_graph)


def _tuple_postprocess(res: Any, to_unpack: Any) -> Any:
    """The values, or the one value where none but a tensor was given (twice, for two levels)."""
    if isinstance(to_unpack, tuple):
        outer, inner = to_unpack
        rows = res if inner else tuple(row[0] for row in res)
        return rows if outer else rows[0]
    return res if to_unpack else res[0]


__dir__ = _only_public(globals())
