"""`opcheck`: runs a user's operator on sample arguments and says which of its promises it breaks.

Four promises: the schema (what is written, what shares memory), the fake implementation (shapes,
strides and dtypes), autograd in the place where it belongs, and the same results and gradients when
other parts of the library run the operator.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy

from pullback import func
from pullback.autograd.grad_mode import no_grad
from pullback.core.device import META
from pullback.core.tensor import Tensor, wrap
from pullback.core.trees.pytree import tree_flatten, tree_map, tree_unflatten
from pullback.engine.backward import grad
from pullback.library.call.alias_check import shares_memory
from pullback.library.call.fake import sizes
from pullback.library.call.fallback import WarnNotImplemented
from pullback.library.overload import OpOverload, OpOverloadPacket
from pullback.operators.random.generator import get_rng_state, set_rng_state

__all__ = ["OpCheckError", "opcheck"]


class OpCheckError(Exception):
    """An operator failed one of the tests of `opcheck`."""


class _Given(NamedTuple):
    """What to call, with what, and how near results must be."""

    op: OpOverload
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    atol: float | None
    rtol: float | None

    def copied(self) -> _Given:
        """The same with tensors of its own; those that shared memory no longer do."""
        args, kwargs = tree_map(_copied, (tuple(self.args), dict(self.kwargs)))
        return self._replace(args=args, kwargs=kwargs)

    def call(self) -> Any:
        return self.op(*self.args, **self.kwargs)

    def tensors(self) -> list[Tensor]:
        return _tensors((self.args, self.kwargs))


def _copied(value: Any) -> Any:
    if not isinstance(value, Tensor):
        return value
    copy = wrap(value._array.copy(order="K"))
    return copy.requires_grad_() if value.requires_grad else copy


def _tensors(values: Any) -> list[Tensor]:
    return [one for one in tree_flatten(values)[0] if isinstance(one, Tensor)]


def opcheck(
    op: Any,
    args: Sequence[Any],
    kwargs: dict[str, Any] | None = None,
    *,
    test_utils: str | Sequence[str] = (
        "test_schema",
        "test_autograd_registration",
        "test_faketensor",
        "test_aot_dispatch_dynamic",
    ),
    raise_exception: bool = True,
    atol: float | None = None,
    rtol: float | None = None,
) -> dict[str, Any]:
    """Test an operator on sample arguments: its schema, its fake, its autograd.

    The arguments are copied, so nothing happens to them, and the state of the random numbers is put
    back. `test_aot_dispatch_static` and `test_aot_dispatch_dynamic` compare an ordinary run with
    one through `func.functionalize` and `func.vjp`: results, written arguments and gradients.

    Args:
        op: What `custom_op` returned, an overload, or a packet with one overload.
        args: Its positional arguments.
        kwargs: Its keyword arguments.
        test_utils: Which tests to run, one name or several.
        raise_exception: Raise `OpCheckError` at the first failure; otherwise collect them.
        atol: Absolute tolerance of comparisons, together with `rtol`.
        rtol: Relative tolerance.

    Returns:
        For each test "SUCCESS", or the exception that tells what is wrong.

    Example:
        >>> import pullback as torch
        >>> @torch.library.custom_op("opcheck_example::twice", mutates_args=())
        ... def twice(x: torch.Tensor) -> torch.Tensor:
        ...     return x * 2
        >>> @twice.register_fake
        ... def _(x):
        ...     return torch.empty_like(x)
        >>> torch.library.opcheck(twice, (torch.ones(2),), test_utils="test_faketensor")
        {'test_faketensor': 'SUCCESS'}
    """
    if (atol is None) != (rtol is None):
        raise ValueError("opcheck: atol and rtol belong together; give both or neither.")
    names = (test_utils,) if isinstance(test_utils, str) else tuple(test_utils)
    if unknown := [name for name in names if name not in _TESTS]:
        raise ValueError(
            f"opcheck: there is no test {unknown[0]!r}; the tests are {', '.join(_TESTS)}."
        )
    given = _Given(_overload(op), tuple(args), dict(kwargs or {}), atol, rtol)
    state = get_rng_state()
    results: dict[str, Any] = {}
    try:
        for name in names:
            set_rng_state(state)
            results[name] = _outcome(name, given, raise_exception=raise_exception)
    finally:
        set_rng_state(state)
    return results


def _outcome(name: str, given: _Given, *, raise_exception: bool) -> Any:
    try:
        _TESTS[name](given)
    except Exception as error:
        if raise_exception:
            raise OpCheckError(f"opcheck of {given.op}: {name} failed: {error}") from error
        return error
    return "SUCCESS"


def _overload(op: Any) -> OpOverload:
    found = getattr(op, "_opoverload", op)
    if isinstance(found, OpOverloadPacket):
        if len(found.overloads()) != 1:
            raise ValueError(
                f"opcheck: {found} has the overloads {', '.join(found.overloads())}; name one."
            )
        found = getattr(found, found.overloads()[0])
    if not isinstance(found, OpOverload):
        raise ValueError(
            "opcheck: op must be what custom_op returned, or an operator such as "
            f"torch.ops.aten.sin.default, got {op!r} of type {type(op).__name__}."
        )
    return found


# The schema --------------------------------------------------------------------------------------


def _test_schema(given: _Given) -> None:
    given = given.copied()
    before = [(tensor, tensor._array.copy(order="K")) for tensor in given.tensors()]
    result = given.call()
    written = _written(given)
    for tensor, values in before:
        name = _name_of(given, tensor)
        if id(tensor) not in written and _differs(tensor._array, values):
            raise RuntimeError(
                f"the argument {name} was written, but the schema does not say so: declare it in "
                f"mutates_args, or copy it first. The schema is {given.op._schema}."
            )
    _check_aliases(given, result)


def _differs(array: Any, before: Any) -> bool:
    if array.shape != before.shape:
        return True
    same = array == before
    if array.dtype.kind in "fcV":
        same |= (array != array) & (before != before)  # NaN where NaN was
    return not bool(same.all())


def _declared(given: _Given) -> list[tuple[Any, Any]]:
    """Each argument of the schema with the value that was passed for it."""
    arguments = given.op._schema.arguments
    pairs = list(zip(arguments, given.args, strict=False))
    pairs += [(one, given.kwargs[one.name]) for one in arguments if one.name in given.kwargs]
    return pairs


def _written(given: _Given) -> set[int]:
    return {
        id(tensor)
        for argument, value in _declared(given)
        if argument.is_write
        for tensor in _tensors(value)
    }


def _name_of(given: _Given, tensor: Tensor) -> str:
    for argument, value in _declared(given):
        if any(one is tensor for one in _tensors(value)):
            return repr(argument.name)
    return "(unknown)"


def _check_aliases(given: _Given, result: Any) -> None:
    schema = given.op._schema
    listed = result if isinstance(result, tuple) else (result,)
    fresh: list[Tensor] = []
    for number, value in enumerate(listed):
        declared = number < len(schema.returns) and schema.returns[number].alias_info is not None
        for tensor in [] if declared else _tensors(value):
            for other in given.tensors():
                if shares_memory(tensor._array, other._array):
                    raise RuntimeError(
                        f"result {number} shares memory with the argument "
                        f"{_name_of(given, other)}, but the schema does not say so: return a clone."
                    )
            if any(shares_memory(tensor._array, other._array) for other in fresh):
                raise RuntimeError(
                    f"result {number} shares memory with another result: return a clone."
                )
            fresh.append(tensor)


# The fake ----------------------------------------------------------------------------------------


def _test_faketensor(given: _Given) -> None:
    given = given.copied()
    args, kwargs = tree_map(_without_data, (given.args, given.kwargs))
    unknown = _UnknownSizes()
    before = sizes.get()
    try:
        sizes.set(unknown.new)
        with no_grad():
            fake = given.op(*args, **kwargs)
            real = given.call()
    finally:
        sizes.set(before)
    fakes, reals = _tensors(fake), _tensors(real)
    if len(fakes) != len(reals):
        raise RuntimeError(
            f"the fake implementation gives {len(fakes)} tensors, the operator {len(reals)}."
        )
    for number, (one, other) in enumerate(zip(fakes, reals, strict=True)):
        if one.device is not META:
            raise RuntimeError(
                f"the fake implementation gives a tensor on {one.device} as result {number}; make "
                "it from its arguments, as in torch.empty_like(x) or x.new_empty(size)."
            )
        shape = unknown.filled_in(tuple(one.shape), tuple(other.shape), number)
        strides = one.stride()
        if shape != tuple(one.shape):  # they are known only now
            strides = wrap(numpy.empty(shape)).stride() if one.is_contiguous() else other.stride()
        pairs = (
            ("shape", shape, tuple(other.shape)),
            ("dtype", one.dtype, other.dtype),
            ("stride", strides, other.stride()),
            ("layout", one.layout, other.layout),
        )
        for what, a, b in pairs:
            if a != b and not (what == "stride" and other.numel() <= 1):
                raise RuntimeError(
                    f"result {number} has {what} {_plain(b)}, but the fake implementation says "
                    f"{_plain(a)}."
                )


class _UnknownSizes:
    """Sizes that depend on data: numbers that nobody has, and what each turned out to be."""

    def __init__(self) -> None:
        self._bounds: dict[int, tuple[int, int | None]] = {}
        self._found: dict[int, int] = {}

    def new(self, least: int, most: int | None) -> int:
        """A number to stand for a size."""
        made = 100_003 + len(self._bounds)
        self._bounds[made] = (least, most)
        return made

    def filled_in(
        self, fake: tuple[int, ...], real: tuple[int, ...], number: int
    ) -> tuple[int, ...]:
        """The shape with the real sizes in the place of unknown ones, held against their bounds."""
        if len(fake) != len(real):
            return fake
        made = []
        for one, size in zip(fake, real, strict=True):
            if one not in self._bounds:
                made.append(one)
                continue
            least, most = self._bounds[one]
            if size < least or (most is not None and size > most):
                raise RuntimeError(
                    f"result {number} has the size {size}, but the fake implementation says that "
                    f"it is at least {least}" + ("." if most is None else f" and at most {most}.")
                )
            made.append(self._found.setdefault(one, size))
        return tuple(made)


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, tuple) else value


def _without_data(value: Any) -> Any:
    if not isinstance(value, Tensor):
        return value
    moved = value.detach().to("meta")
    return moved.requires_grad_() if value.requires_grad else moved


# Autograd ----------------------------------------------------------------------------------------


def _test_autograd_registration(given: _Given) -> None:
    given = given.copied()
    operator = getattr(given.op, "_operator", None)
    if operator is None or operator.is_composite or operator.formula is not None:
        return
    if operator.kind != "define" or any(key.startswith("Autograd") for key in operator.kernels):
        return
    if not any(tensor.requires_grad for tensor in given.tensors()):
        return
    for result in _tensors(given.call()):
        if result.requires_grad and not isinstance(result.grad_fn, WarnNotImplemented):
            raise AssertionError(
                f"the result carries the history of {type(result.grad_fn).__name__}, which was "
                f"recorded inside a kernel registered for {', '.join(operator.kernels)}. "
                "Transforms and modes do not see that. Register the formula with "
                "register_autograd, or the kernel for the key Autograd or "
                "CompositeImplicitAutograd."
            )


def _test_aot_dispatch(given: _Given) -> None:
    _test_autograd_registration(given)
    state = get_rng_state()
    eager = given.copied()
    results = eager.call()
    set_rng_state(state)  # both runs draw the same random numbers
    captured = given.copied()
    flat, spec = tree_flatten((captured.args, captured.kwargs))
    chosen = [
        number
        for number, one in enumerate(flat)
        if isinstance(one, Tensor) and one.requires_grad and not given.op._schema.is_mutable
    ]

    def run(*tensors: Tensor) -> Any:
        for number, tensor in zip(chosen, tensors, strict=True):
            flat[number] = tensor
        args, kwargs = tree_unflatten(flat, spec)
        return func.functionalize(lambda: given.op(*args, **kwargs))()

    if not chosen:
        with no_grad():
            again = run()
        _compare(given, "result", _tensors(results), _tensors(again))
        _compare(given, "written argument", eager.tensors(), _tensors(flat))
        return
    again, pull = func.vjp(lambda *tensors: tuple(_tensors(run(*tensors))), *_picked(flat, chosen))
    _compare(given, "result", _tensors(results), list(again))
    seeds = tuple(wrap(numpy.ones_like(one._array)) for one in again)
    ours = pull(seeds)
    mine = [one for one in _tensors((eager.args, eager.kwargs)) if one.requires_grad]
    carrying = [one for one in _tensors(results) if one.requires_grad]
    if not carrying:
        return
    weights = [wrap(numpy.ones_like(one._array)) for one in carrying]
    gradients = grad(carrying, mine, weights, allow_unused=True, materialize_grads=True)
    _compare(given, "gradient", list(gradients), list(ours))


def _picked(flat: list[Any], chosen: list[int]) -> list[Tensor]:
    return [flat[number].detach() for number in chosen]


def _compare(given: _Given, what: str, eager: list[Tensor], other: list[Tensor]) -> None:
    if len(eager) != len(other):
        raise RuntimeError(f"eager gives {len(eager)} tensors ({what}), captured {len(other)}.")
    for number, (one, two) in enumerate(zip(eager, other, strict=True)):
        a, b = one._array, two._array
        if a.shape != b.shape or a.dtype != b.dtype:
            raise RuntimeError(
                f"{what} {number} has shape {a.shape} and dtype {one.dtype} in an ordinary run, "
                f"{b.shape} and {two.dtype} through func.vjp and functionalize."
            )
        rtol, atol = _tolerances(given, a)
        if not numpy.allclose(a, b, rtol, atol, equal_nan=True):
            raise RuntimeError(
                f"{what} {number} differs between an ordinary run and one through func.vjp and "
                f"functionalize by up to {numpy.abs(a - b).max()}."
            )


def _tolerances(given: _Given, array: Any) -> tuple[float, float]:
    if given.rtol is not None and given.atol is not None:
        return given.rtol, given.atol
    if array.dtype.kind not in "fc":
        return 0.0, 0.0
    precision = float(numpy.finfo(array.dtype).eps)
    return precision**0.75, precision**0.75


_TESTS: dict[str, Callable[[_Given], None]] = {
    "test_schema": _test_schema,
    "test_autograd_registration": _test_autograd_registration,
    "test_faketensor": _test_faketensor,
    "test_aot_dispatch_static": _test_aot_dispatch,
    "test_aot_dispatch_dynamic": _test_aot_dispatch,
}
