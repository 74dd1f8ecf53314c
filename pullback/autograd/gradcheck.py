"""gradcheck and gradgradcheck: a function's derivatives by backward against finite differences.

Arguments and what they mean; the checks themselves are in check/derivatives.py.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy

from pullback.core import origin
from pullback.core.dtype import OF_NUMBERS
from pullback.core.tensor import Tensor, wrap

if TYPE_CHECKING:
    from pullback.autograd.check.jacobians import Part

__all__ = [
    "GradcheckError",
    "get_analytical_jacobian",
    "get_numerical_jacobian",
    "gradcheck",
    "gradgradcheck",
]


class GradcheckError(RuntimeError):
    """A derivative does not agree with finite differences, or does not behave as one should."""


def gradcheck(
    func: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """True if the gradients of `func` agree with central differences; else GradcheckError.

    Inputs should be float64 or complex128: in single precision, rounding errors dominate.
    Elements are moved in place by `eps`, and back, while `func` runs. `fast_mode` compares a random
    projection of each Jacobian, two evaluations where the full check takes two per element.

    For fractions and other exact numbers the gradients must equal those of dual numbers, to the
    last digit; only `raise_exception` has a meaning there. For long floats, such as mpmath's,
    choose `eps`, `atol` and `rtol` to match their precision.

    >>> import pullback as torch
    >>> x = torch.tensor([0.5, 1.0], dtype=torch.float64, requires_grad=True)
    >>> torch.autograd.gradcheck(torch.sin, x)
    True
    """
    _require(
        check_forward_ad or check_backward_ad,
        "gradcheck has nothing to do: check_forward_ad and check_backward_ad are both False.",
    )
    _require(
        check_backward_ad or not check_batched_grad,
        "check_batched_grad=True batches the backward pass: it needs check_backward_ad=True.",
    )
    _require(
        check_forward_ad or not check_batched_forward_grad,
        "check_batched_forward_grad=True batches forward mode: it needs check_forward_ad=True.",
    )
    from pullback.autograd.check.derivatives import Asked, Check, tupled  # loaded by who checks

    if _of_numbers(inputs):
        from pullback.autograd.check.exact import mismatch

        if wrong := mismatch(func, inputs, eps, atol, rtol):
            if raise_exception:
                raise GradcheckError(f"gradcheck: {wrong}.")
            return False
        return True
    check = Check(
        func, tupled(inputs), eps, atol, rtol, nondet_tol, bool(masked), check_grad_dtypes
    )
    asked = Asked(
        backward=check_backward_ad,
        forward=check_forward_ad,
        batched=check_batched_grad,
        batched_forward=check_batched_forward_grad,
        undefined=check_undefined_grad,
        fast=fast_mode,
    )
    try:
        check.run(asked)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-3,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """`gradcheck` of the gradients of `func`, as functions of its inputs and of `grad_outputs`.

    Without `grad_outputs`, random ones in [-1, 1] are taken, the same in every call.

    >>> import pullback as torch
    >>> x = torch.tensor([0.5, 1.0], dtype=torch.float64, requires_grad=True)
    >>> torch.autograd.gradgradcheck(torch.sin, x)
    True
    """
    _require(
        check_fwd_over_rev or check_rev_over_rev,
        "gradgradcheck has nothing to do: check_fwd_over_rev and check_rev_over_rev are False.",
    )
    _require(
        check_rev_over_rev or not check_undefined_grad,
        "check_undefined_grad=True concerns backward: it needs check_rev_over_rev=True.",
    )
    _require(
        check_rev_over_rev or not check_batched_grad,
        "check_batched_grad=True batches the backward pass: it needs check_rev_over_rev=True.",
    )
    from pullback.autograd.check.derivatives import differentiable, is_checked, tupled

    tensors = tupled(inputs)
    if grad_outputs is None:
        outputs = differentiable(tupled(func(*tensors)))
        given = _random_gradients(outputs, strided=gen_non_contig_grad_outputs)
    else:
        given = tupled(grad_outputs)
    everything = (*tensors, *given)
    return gradcheck(
        _gradients_of(func, len(tensors), [is_checked(one) for one in everything]),
        everything,
        eps=eps,
        atol=atol,
        rtol=rtol,
        raise_exception=raise_exception,
        nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad,
        check_grad_dtypes=check_grad_dtypes,
        check_batched_grad=check_batched_grad,
        check_forward_ad=check_fwd_over_rev,
        check_backward_ad=check_rev_over_rev,
        fast_mode=fast_mode,
        masked=masked,
    )


def _gradients_of(
    func: Callable[..., Any], count: int, checked: list[bool]
) -> Callable[..., tuple[Tensor, ...]]:
    """The gradients of `func` as a function of its `count` inputs and its outputs' gradients.

    Forward mode passes inputs without history; those that are `checked` must require grad again.
    """
    from pullback.autograd.check.derivatives import differentiable, is_checked, tupled
    from pullback.engine.backward import grad  # loads with the first pass

    def gradients(*args: Any) -> tuple[Tensor, ...]:
        args = tuple(
            one.requires_grad_() if wanted and not one.requires_grad else one
            for one, wanted in zip(args, checked, strict=True)
        )
        outputs = differentiable(tupled(func(*args[:count])))
        wanted = [one for one in args[:count] if is_checked(one)]
        found = grad(outputs, wanted, args[count:], create_graph=True, allow_unused=True)
        return tuple(g for g in found if g is not None)

    return gradients


def _random_gradients(outputs: Sequence[Tensor], *, strided: bool) -> tuple[Tensor, ...]:
    draw = numpy.random.default_rng(0)  # a generator of its own: the user's is left alone
    made = []
    for output in outputs:
        shape, dtype = output._array.shape, output._array.dtype
        shape = (*shape[:-1], 2 * shape[-1]) if strided and shape else shape
        values = draw.uniform(-1, 1, shape)
        if dtype.char == OF_NUMBERS:  # short ones
            values = numpy.round(8 * values) / 8
        if dtype.kind == "c":
            values = values + 1j * draw.uniform(-1, 1, shape)
        array = numpy.asarray(values).astype(dtype)
        made.append(wrap(array[..., ::2] if strided and shape else array).requires_grad_())
    return tuple(made)


# Arguments ----------------------------------------------------------------------------------------


def _of_numbers(inputs: Any) -> bool:
    """Whether an input is of fractions or other numbers: core/numbers."""
    given = inputs if isinstance(inputs, tuple | list) else (inputs,)
    return any(isinstance(one, Tensor) and one._array.dtype.char == OF_NUMBERS for one in given)


def _require(claim: bool, message: str) -> None:
    # AssertionError is what torch raises here; `assert` would vanish under -O.
    if not claim:
        raise AssertionError(message)


# Old names ----------------------------------------------------------------------------------------


def get_numerical_jacobian(
    fn: Callable[[Any], Any],
    inputs: Any,
    target: Any = None,
    eps: float = 1e-3,
    grad_out: float = 1.0,
) -> tuple[Tensor, ...]:
    """Jacobians of the first output of `fn(inputs)` by central differences. Deprecated.

    Args:
        fn: Function to differentiate.
        inputs: Its arguments.
        target: Inputs to differentiate with respect to; all of them if not given.
        eps: Step of the difference.
        grad_out: Accepted for 1.0 only.
    """
    from pullback.autograd.check import jacobians
    from pullback.autograd.check.derivatives import is_checked, tensors_of, tupled

    _deprecated("get_numerical_jacobian", grad_out)

    def outputs() -> list[Tensor]:
        return tensors_of(tupled(fn(inputs)))[:1]

    parts = _real_parts(outputs(), "get_numerical_jacobian")
    towards = tupled(inputs if target is None else target)
    wanted = [one for one in towards if is_checked(one)]
    return tuple(wrap(jacobians.numerical(outputs, parts, one, eps)[0]) for one in wanted)


def get_analytical_jacobian(
    inputs: Any, output: Tensor, nondet_tol: float = 0.0, grad_out: float = 1.0
) -> tuple[tuple[Tensor, ...], bool, bool, bool]:
    """Jacobians by backward; whether they are repeatable, well shaped, well typed. Deprecated.

    Args:
        inputs: Inputs to differentiate with respect to.
        output: Result of the function for them.
        nondet_tol: Largest difference between two backward passes that counts as repeatable.
        grad_out: Accepted for 1.0 only.
    """
    from pullback.autograd.check import jacobians
    from pullback.autograd.check.derivatives import is_checked, tupled

    _deprecated("get_analytical_jacobian", grad_out)
    (part,) = _real_parts([output], "get_analytical_jacobian")
    wanted = [one for one in tupled(inputs) if is_checked(one)]
    first = jacobians.analytical(output, part, wanted)
    second = jacobians.analytical(output, part, wanted)
    gaps = [numpy.abs(a - b).max(initial=0) for a, b in zip(first, second, strict=True)]
    found = jacobians.pulled_back(output, wanted, numpy.ones(output._array.shape))
    pairs = [(g, one) for g, one in zip(found, wanted, strict=True) if g is not None]
    return (
        tuple(wrap(jacobian) for jacobian in first),
        all(gap <= nondet_tol for gap in gaps),
        all(g.shape == one.shape for g, one in pairs),
        all(g.dtype is one.dtype for g, one in pairs),
    )


def _real_parts(outputs: list[Tensor], name: str) -> list[Part]:
    from pullback.autograd.check.jacobians import parts_of

    if any(output.dtype.is_complex for output in outputs):
        raise ValueError(
            f"{name} takes real outputs only; check the real and imaginary parts apart."
        )
    return parts_of(outputs)


def _deprecated(name: str, grad_out: float) -> None:
    warnings.warn(
        f"{name} is kept for old programs; use autograd.gradcheck or autograd.functional.jacobian.",
        FutureWarning,
        stacklevel=origin.stacklevel(),
    )
    if grad_out != 1.0:
        raise ValueError(
            f"{name} takes no other grad_out than 1.0; multiply the result by {grad_out}."
        )
