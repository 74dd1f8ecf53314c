"""Sample inputs of every operator, for our tests and for yours.

    for sample in samples_for("logsumexp"):
        out = logsumexp(sample.input, *sample.args, **sample.kwargs)

The tables are beside this, a file for each family and a line for each operator. An operator goes by
the name under which a module with torch's names has it: "add", "linalg.norm", "nn.functional.gelu",
"Tensor.expand". With `module=` the same samples come as tensors of another such module.
"""

from __future__ import annotations

import inspect
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy

from pullback.core.arrays import Array
from pullback.core.dtype import dtype as Dtype  # noqa: N812 (samples_for has an argument `dtype`)
from pullback.core.dtype import float64, named_dtype
from pullback.core.tensor import Tensor, wrap
from pullback.testing.cases import LAYOUTS, Case, Draw, DtypeName, Entry, Fixed
from pullback.testing.coverage import supports
from pullback.testing.samples_conv import CONV
from pullback.testing.samples_copies import COPIES, WINDOWS
from pullback.testing.samples_creation import CREATION
from pullback.testing.samples_fft import FOURIER, MASKED
from pullback.testing.samples_indexing import INDEXING
from pullback.testing.samples_linalg import MATRICES
from pullback.testing.samples_loss import LOSSES
from pullback.testing.samples_nn import NN
from pullback.testing.samples_pointwise import POINTWISE
from pullback.testing.samples_products import PRODUCTS
from pullback.testing.samples_reduction import REDUCTION
from pullback.testing.samples_shape import SHAPE
from pullback.testing.samples_special import SPECIAL_FUNCTIONS

__all__ = ["SAMPLES", "SampleInput", "resolve", "samples_for", "tensors_in"]

SAMPLES: dict[str, Entry] = {
    **POINTWISE,
    **SPECIAL_FUNCTIONS,
    **REDUCTION,
    **SHAPE,
    **INDEXING,
    **PRODUCTS,
    **NN,
    **CREATION,
    **CONV,
    **MATRICES,
    **FOURIER,
    **MASKED,
    **LOSSES,
    **COPIES,
    **WINDOWS,
}


@dataclass(frozen=True)
class SampleInput:
    """Arguments of one call: `function(sample.input, *sample.args, **sample.kwargs)`.

    >>> import pullback as torch
    >>> sample = torch.testing.SampleInput(torch.tensor([1.0, 2.0]), (0,), {"keepdim": True})
    >>> sample.call(torch.sum)
    tensor([3.])
    """

    input: Any
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    layout: str = "contiguous"
    # Whether finite differences make sense here: no kink, tie, pole, NaN or shared memory.
    smooth: bool = True

    def call(self, function: Callable[..., Any]) -> Any:
        """The function's result for these arguments."""
        return function(self.input, *self.args, **self.kwargs)

    def bound(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function of the differentiable tensors alone, as gradcheck wants it.

        >>> from pullback.autograd import gradcheck
        >>> from pullback.operators.pointwise.arithmetic import mul
        >>> sample = next(samples_for("mul"))
        >>> gradcheck(sample.bound(mul), sample.differentiable)
        True
        """

        def call(*tensors: Any) -> Any:
            given = iter(tensors)

            def replaced(value: Any) -> Any:
                if isinstance(value, tuple | list):
                    return type(value)(replaced(item) for item in value)
                return next(given) if getattr(value, "requires_grad", False) else value

            args = [replaced(value) for value in (self.input, *self.args)]
            kwargs = {key: replaced(value) for key, value in self.kwargs.items()}
            return function(*args, **kwargs)

        return call

    @property
    def tensors(self) -> list[Any]:
        """Every tensor among the arguments, those in lists included, in order."""
        return list(tensors_in((self.input, self.args, list(self.kwargs.values()))))

    @property
    def differentiable(self) -> list[Any]:
        """The tensors that require grad."""
        return [tensor for tensor in self.tensors if tensor.requires_grad]

    def __repr__(self) -> str:
        shown = [_shown(value) for value in (self.input, *self.args)]
        shown += [f"{name}={_shown(value)}" for name, value in self.kwargs.items()]
        return f"<sample ({', '.join(shown)}) {self.layout}>"


def samples_for(
    operator: Any,
    dtype: Dtype = float64,
    seed: int = 0,
    requires_grad: bool = True,
    *,
    module: Any = None,
    layout: str | None = None,
) -> Iterator[SampleInput]:
    """Sample inputs of an operator, given by its name or as the function; fresh tensors each time.

    First typical calls, broadcasting, 0-d, empty, options; then the first one again in other memory
    layouts. With `layout`, a name of `cases.LAYOUTS`, all calls in that one, whether they make
    sense there or not. None for a complex dtype that the operator does not take.

    >>> [tuple(sample.input.shape) for sample in samples_for("sin")][:3]
    [(2, 3), (), (0, 3)]
    """
    name = operator if isinstance(operator, str) else name_of(operator)
    if name not in SAMPLES:
        raise KeyError(
            f"There are no sample inputs for {name!r}; add a line to its family's table."
        )
    if dtype.is_complex and not supports(name, "complex"):
        return
    table_line = SAMPLES[name]
    convert = _converter(module)
    cases = list(_cases(table_line, dtype, name, seed))
    for one in cases:
        yield _sample(one, layout or "contiguous", convert, requires_grad=requires_grad)
    for other in table_line.layouts if cases and layout is None else ():
        yield _sample(cases[0], other, convert, requires_grad=requires_grad)


def name_of(function: Any) -> str:
    """The public name of an operator's function."""
    op = getattr(function, "op", None)
    if op is not None:
        return f"{op.space}.{op.name}" if op.space else str(op.name)
    return str(function.__name__)


def resolve(module: Any, name: str) -> Callable[..., Any] | None:
    """The function of this name in a module with torch's names, or None where it has none.

    >>> import pullback as torch
    >>> torch.testing.resolve(torch, "linalg.norm") is torch.linalg.norm
    True
    >>> torch.testing.resolve(torch, "Tensor.add")(torch.ones(1), 2)
    tensor([3.])
    """
    if name.startswith("Tensor."):
        attribute = name.removeprefix("Tensor.")
        if not hasattr(module.Tensor, attribute):
            return None
        # Whether a method, a property, or a slot of Python's: what the instance gives, decides.
        return lambda input, *args, **kwargs: _of_instance(input, attribute, args, kwargs)
    found: Callable[..., Any] | None = module
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def _of_instance(input: Any, attribute: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    value = getattr(input, attribute)
    return value(*args, **kwargs) if inspect.isroutine(value) else value


def _cases(line: Entry, dtype: Dtype, name: str, seed: int) -> Iterator[Case]:
    # By name, so that an operator's samples stay the same when others join the table.
    draw = Draw(dtype.numpy, zlib.crc32(name.encode()) + seed)
    for one in line.cases(draw):
        if not (one.real and dtype.is_complex):
            yield one


def _sample(
    one: Case, layout: str, convert: Callable[..., Any], *, requires_grad: bool
) -> SampleInput:
    lay_out = LAYOUTS[layout]

    def made(value: Any) -> Any:
        if isinstance(value, Fixed):
            return convert(lay_out(value.array), requires_grad=False)
        if isinstance(value, numpy.ndarray):
            grad = requires_grad and value.dtype.kind in "fc"
            return convert(lay_out(value), requires_grad=grad)
        if isinstance(value, DtypeName):
            return convert(value, requires_grad=False)
        if isinstance(value, tuple | list):
            return type(value)(made(item) for item in value)
        return value

    first, *rest = (made(value) for value in one.args)
    kwargs = {key: made(value) for key, value in one.kwargs.items()}
    smooth = one.smooth and layout != "expanded"
    return SampleInput(first, tuple(rest), kwargs, layout, smooth)


def _converter(module: Any) -> Callable[..., Any]:
    """What makes a tensor of an array, and a dtype of its name, in a module."""

    def convert(value: Array | DtypeName, *, requires_grad: bool) -> Any:
        if isinstance(value, DtypeName):
            return named_dtype(value) if module is None else getattr(module, value)
        tensor = wrap(value) if module is None else module.from_numpy(value)
        return tensor.requires_grad_(requires_grad)

    return convert


def tensors_in(value: Any) -> Iterator[Any]:
    """Every tensor in a function's result or among its arguments, however nested, in order.

    >>> import pullback as torch
    >>> list(torch.testing.tensors_in([1, (torch.ones(1), [torch.zeros(1)])]))
    [tensor([1.]), tensor([0.])]
    """
    if isinstance(value, tuple | list):
        for item in value:
            yield from tensors_in(item)
    elif isinstance(value, Tensor) or hasattr(value, "requires_grad_"):
        yield value


def _shown(value: Any) -> str:
    if hasattr(value, "requires_grad_"):
        return f"{value.dtype}{list(value.shape)}".removeprefix("torch.")
    if isinstance(value, tuple | list):
        inner = ", ".join(_shown(item) for item in value)
        return f"[{inner}]" if isinstance(value, list) else f"({inner})"
    return repr(value)
