"""Fractional max pooling, over windows at random places; and `max_unpool`, the way back."""

from __future__ import annotations

from typing import Any

from pullback.core.arrays import is_wrong
from pullback.core.errors import unsupported
from pullback.core.tensor import Tensor
from pullback.operators.arrays.windows import (
    Sizes,
    check_not_empty,
    check_tensor,
    positive,
    sizes,
    volume,
)
from pullback.operators.batching import together
from pullback.operators.declare import Array, Namespace, primitive
from pullback.operators.nn.pool.places import largest, put_places, spot, table_of, take_places
from pullback.operators.random.tensors import rand
from pullback.operators.variants import named

FOUND_IN = {
    "nn.functional": """
        fractional_max_pool2d fractional_max_pool2d_with_indices fractional_max_pool3d
        fractional_max_pool3d_with_indices max_unpool1d max_unpool2d max_unpool3d
    """
}

# Fractional windows -------------------------------------------------------------------------------


def _at_random(
    xp: Namespace, input: Array, samples: Array, kernel: Sizes, number: Sizes
) -> tuple[Array, Array]:
    """Maxima, and their positions, of windows whose starts follow `samples`, one per dimension."""
    dims = len(kernel)
    lead, size = input.shape[:-dims], input.shape[-dims:]
    seen = []
    for dim in range(dims):
        n, k, o = size[dim], kernel[dim], number[dim]
        # Planes count their samples from the last dimension on, volumes from the first.
        sample = samples[..., dims - 1 - dim if dims == 2 else dim, None]
        steps = xp.arange(max(o - 1, 0)).astype(samples.dtype)
        ratio = samples.dtype.type(n - k) / samples.dtype.type(max(o - 1, 1))
        starts = xp.empty((*lead, o), xp.int64)
        whole = ((steps + sample) * ratio).astype(xp.int64)
        starts[..., :-1] = whole - (sample * ratio).astype(xp.int64)
        starts[..., -1:] = n - k
        seen.append(starts[..., None] + xp.arange(k))
    return largest(xp, input, table_of(seen, size), number)


_POOLS = {
    dims: primitive(
        input=lambda g, places, input_shape, kernel: put_places(
            g, places, input_shape[-len(kernel) :]
        ),
        jvp=lambda d_input, places, kernel: (take_places(d_input, places, len(kernel)), None),
        outputs="out places",
        fixed="places",
        batch=together,
        has_out=False,
        name=f"_fractional_max_pool{dims}d",
        node=f"FractionalMaxPool{dims}DBackward0",
    )(_at_random)
    for dims in (2, 3)
}


def _fractional(
    dims: int, input: Any, kernel_size: Any, output_size: Any, output_ratio: Any, samples: Any
) -> tuple[Any, Any]:
    op = f"fractional_max_pool{dims}d"
    if output_size is None and output_ratio is None:
        raise ValueError(f"{op}: give output_size, or output_ratio of the input's size.")
    check_tensor(op, input, dims + 1, dims + 2)
    if 0 in input.shape[1:]:
        raise RuntimeError(
            f"{op}: input of shape {tuple(input.shape)} has images without elements."
        )
    if input._array.dtype.kind not in "fV":
        raise unsupported(op, input._array)
    for name, given in (("kernel_size", kernel_size), ("output_size", output_size)):
        if isinstance(given, list | tuple) and len(given) != dims:
            raise RuntimeError(f"{op}: {name} must be an int or {dims} of them, not {given}.")
    kernel, size = positive(op, "kernel_size", kernel_size, dims), tuple(input.shape[-dims:])
    if output_size is None:
        ratios = (output_ratio,) * dims if isinstance(output_ratio, float) else output_ratio
        output_size = tuple(int(n * ratio) for n, ratio in zip(size, ratios, strict=True))
    number = sizes(op, "output_size", output_size, dims)
    if min(number) < 0:
        raise RuntimeError(f"{op}: output_size must not be negative, got {number}.")
    if any(o + k - 1 > n for n, k, o in zip(size, kernel, number, strict=True)):
        raise RuntimeError(
            f"{op}: {number} windows of {kernel} do not fit into input of shape "
            f"{tuple(input.shape)} without starting at the same place."
        )
    lead = tuple(input.shape[:-dims])
    if samples is None:
        samples = rand(*lead, dims, dtype=input.dtype, device=input.device)
    elif tuple(samples.shape[-2:]) != (lead[-1], dims):
        raise RuntimeError(
            f"{op}: _random_samples must have shape {(*lead, dims)}, got {tuple(samples.shape)}."
        )
    samples = samples.reshape((*lead, dims))
    maxima, places = _POOLS[dims](input, samples, kernel, number)
    return maxima, places


def _random_windows(dims: int, with_places: bool = False) -> Any:
    def pool(
        input: Any,
        kernel_size: Any,
        output_size: Any = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Any = None,
    ) -> Any:
        both = _fractional(dims, input, kernel_size, output_size, output_ratio, _random_samples)
        return both if return_indices or with_places else both[0]

    return pool


fractional_max_pool2d = named(
    "fractional_max_pool2d",
    _random_windows(2),
    """Max pooling over random windows, `output_size` of them or by `output_ratio`.

    >>> import pullback as torch
    >>> x = torch.rand(1, 9, 9)
    >>> torch.nn.functional.fractional_max_pool2d(x, 2, output_ratio=(0.7, 0.7)).shape
    torch.Size([1, 6, 6])
    """,
)


fractional_max_pool3d = named(
    "fractional_max_pool3d",
    _random_windows(3),
    """As `fractional_max_pool2d`, of volumes.

    >>> import pullback as torch
    >>> torch.nn.functional.fractional_max_pool3d(
    ...     torch.randn(1, 1, 5, 5, 5), 2, output_size=2
    ... ).shape
    torch.Size([1, 1, 2, 2, 2])
    """,
)


fractional_max_pool2d_with_indices = named(
    "fractional_max_pool2d_with_indices",
    _random_windows(2, with_places=True),
    """`fractional_max_pool2d` with `return_indices`.

    >>> import pullback as torch
    >>> x = torch.randn(1, 1, 5, 5)
    >>> torch.nn.functional.fractional_max_pool2d_with_indices(x, 2, output_size=2)[0].shape
    torch.Size([1, 1, 2, 2])
    """,
)


fractional_max_pool3d_with_indices = named(
    "fractional_max_pool3d_with_indices",
    _random_windows(3, with_places=True),
    """`fractional_max_pool3d` with `return_indices`.

    >>> import pullback as torch
    >>> x = torch.randn(1, 1, 5, 5, 5)
    >>> torch.nn.functional.fractional_max_pool3d_with_indices(x, 2, output_size=2)[1].dtype
    torch.int64
    """,
)


# The way back -------------------------------------------------------------------------------------


def _unpooled(xp: Namespace, input: Array, indices: Array, size: Sizes) -> Array:
    """Zeros with `input` at `indices`; the last one where several meet."""
    length = volume(size)
    if is_wrong((indices < 0) | (indices >= length)):
        wrong = indices[(indices < 0) | (indices >= length)][0]
        raise RuntimeError(f"max_unpool: index {wrong} is outside of an output of size {size}.")
    lead = input.shape[: input.ndim - len(size)]
    out = xp.zeros((*lead, *size), input.dtype)
    out.reshape(-1)[spot(indices, volume(lead), length)] = input.reshape(-1)
    return out


_UNPOOLS = {
    dims: primitive(
        input=lambda g, indices, size: take_places(g, indices, len(size)),
        jvp=lambda d_input, indices, size: unpool(d_input, indices, size),
        batch=together,
        has_out=False,
        name=f"_max_unpool{dims}d",
        node=f"MaxUnpool{dims}DBackward0",
    )(_unpooled)
    for dims in (1, 2, 3)
}


def unpool(input: Any, indices: Any, size: Sizes) -> Any:
    """Put `input` at `indices` of zeros of `size`."""
    return _UNPOOLS[len(size)](input, indices, size)


def _max_unpool(
    dims: int,
    input: Any,
    indices: Any,
    kernel_size: Any,
    stride: Any,
    padding: Any,
    output_size: Any,
) -> Any:
    op = f"max_unpool{dims}d"
    check_tensor(op, input, dims + 1, dims + 2)
    check_not_empty(op, tuple(input.shape), dims)
    if input._array.dtype.kind not in "fV":
        raise unsupported(op, input._array)
    if not isinstance(indices, Tensor) or indices._array.dtype.name != "int64":
        raise RuntimeError(f"{op}: indices must be an int64 tensor, as max_pool returns them.")
    if tuple(indices.shape) != tuple(input.shape):
        raise RuntimeError(
            f"{op}: indices of shape {tuple(indices.shape)} do not fit input of shape "
            f"{tuple(input.shape)}."
        )
    kernel = positive(op, "kernel_size", kernel_size, dims)
    step = kernel if stride is None else positive(op, "stride", stride, dims)
    around = sizes(op, "padding", padding, dims)
    usual = tuple(
        (n - 1) * s - 2 * p + k
        for n, s, p, k in zip(input.shape[-dims:], step, around, kernel, strict=True)
    )
    return unpool(input, indices, _unpool_size(op, usual, step, output_size))


def _unpool_size(op: str, usual: Sizes, stride: Sizes, output_size: Any) -> Sizes:
    """The usual size, or the user's if pooling could have come from it."""
    if output_size is None:
        return usual
    size = tuple(output_size)
    if len(size) == len(usual) + 2:
        size = size[2:]
    if len(size) != len(usual) or any(
        not u - s < n < u + s for n, u, s in zip(size, usual, stride, strict=True)
    ):
        raise ValueError(
            f"{op}: output_size {tuple(output_size)} must be less than stride {stride} away from "
            f"{usual}."
        )
    return size


def _way_back(dims: int) -> Any:
    def back(
        input: Any,
        indices: Any,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        output_size: Any = None,
    ) -> Any:
        return _max_unpool(dims, input, indices, kernel_size, stride, padding, output_size)

    return back


max_unpool1d = named(
    "max_unpool1d",
    _way_back(1),
    """Put maxima back to where `max_pool1d` found them, zeros elsewhere.

    >>> import pullback as torch
    >>> torch.nn.functional.max_unpool1d(torch.tensor([[3.0, 4.0]]), torch.tensor([[1, 3]]), 2)
    tensor([[0., 3., 0., 4.]])
    """,
)


max_unpool2d = named(
    "max_unpool2d",
    _way_back(2),
    """Put maxima back to where `max_pool2d` found them, zeros elsewhere.

    >>> import pullback as torch
    >>> x = torch.tensor([[[1.0, 4.0], [3.0, 2.0]]])
    >>> maxima, indices = torch.nn.functional.max_pool2d(x, 2, return_indices=True)
    >>> torch.nn.functional.max_unpool2d(maxima, indices, 2)
    tensor([[[0., 4.],
             [0., 0.]]])
    """,
)


max_unpool3d = named(
    "max_unpool3d",
    _way_back(3),
    """Put maxima back to where `max_pool3d` found them, zeros elsewhere.

    >>> import pullback as torch
    >>> torch.nn.functional.max_unpool3d(torch.ones(1, 1, 1, 1), torch.tensor([[[[0]]]]), 2).shape
    torch.Size([1, 2, 2, 2])
    """,
)
