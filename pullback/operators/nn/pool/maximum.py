"""Max pooling over plain and adaptive windows: the largest of each; of equal ones the first counts.

Where a gradient may be asked for, the forward finds the places of the maxima, which is all that the
backward needs.
"""

from __future__ import annotations

from typing import Any

from pullback.core.errors import unsupported
from pullback.core.mode import fast, get_mode
from pullback.operators.arrays.blocks import BLOCK
from pullback.operators.arrays.formats import in_format_of, keeps_format
from pullback.operators.arrays.windows import Sizes, volume
from pullback.operators.conditions import above, at_least, below, floating, host, says
from pullback.operators.declare import Array, Namespace, kernel, primitive
from pullback.operators.nn.pool import native
from pullback.operators.nn.pool.kernels import (
    FEW_LOOKED_UP,
    few_maxima,
    few_maxima_and_places,
    maxima,
    maxima_and_places,
    maxima_by_blocks,
)
from pullback.operators.nn.pool.places import largest, put_places, table_of, take_places
from pullback.operators.nn.pool.shapes import (
    Geometry,
    adaptive_bounds,
    adaptive_sizes,
    are_apart,
    even_geometry,
    pool_geometry,
)
from pullback.operators.shape.reshaping import contiguous
from pullback.operators.variants import named

FOUND_IN = {
    "torch": """
        adaptive_max_pool1d=adaptive_max_pool1d_with_indices max_pool1d
        max_pool1d_with_indices max_pool2d max_pool3d
    """,
    "nn.functional": """
        adaptive_max_pool1d adaptive_max_pool1d_with_indices adaptive_max_pool2d
        adaptive_max_pool2d_with_indices adaptive_max_pool3d
        adaptive_max_pool3d_with_indices max_pool1d max_pool1d_with_indices max_pool2d
        max_pool2d_with_indices max_pool3d max_pool3d_with_indices
    """,
}

# Operators ----------------------------------------------------------------------------------------

# One operator for each number of dimensions, so that the graph shows the name that torch's shows.
_RULES: dict[str, Any] = {
    "input": lambda g, places, input_shape, geometry: put_places(
        g, places, input_shape[-len(geometry.kernel) :], are_apart(geometry)
    ),
    "jvp": lambda d_input, places, geometry: (
        take_places(d_input, places, len(geometry.kernel)),
        None,
    ),
    "outputs": "out places",
    "fixed": "places",
    "has_out": False,
}
_POOLS = {
    dims: primitive(**_RULES, name=f"_max_pool{dims}d", node=f"MaxPool{dims}DWithIndicesBackward0")(
        maxima_and_places
    )
    for dims in (1, 2, 3)
}
_ADAPTIVE_POOLS = {
    dims: primitive(
        **_RULES, name=f"_adaptive_max_pool{dims}d", node=f"AdaptiveMaxPool{dims}DBackward0"
    )(maxima_and_places)
    for dims in (1, 2, 3)
}


# Where nothing is recorded, places are not looked for: a fifth of the time.
_bare_max_pool = primitive(
    jvp=lambda d_input, input, geometry: take_places(
        d_input, _POOLS[len(geometry.kernel)](input, geometry)[1], len(geometry.kernel)
    ),
    name="_bare_max_pool",
    has_out=False,
)(maxima)


_PLACED = (*_POOLS.values(), *_ADAPTIVE_POOLS.values())
_PLANE = [pools[dims] for pools in (_POOLS, _ADAPTIVE_POOLS) for dims in (1, 2)]
_many = host & at_least(native.MANY) & floating


@kernel(*_PLACED, when=host & below(native.MANY), declines=True)
def _few_with_places(input: Array, geometry: Geometry) -> Any:
    return few_maxima_and_places(input, geometry)


@kernel(*_PLANE, when=_many, machine_code=True)
def _many_with_places(input: Array, geometry: Geometry) -> Any:
    found = native.maxima(input, geometry, with_places=True)
    return None if found is None else tuple([in_format_of(input, one) for one in found])


_images = says("input_size > volume(input_shape[-len(geometry.kernel):])", volume=volume)


@kernel(*_PLACED, when=host & above(BLOCK) & _images)
def _by_blocks(xp: Namespace, input: Array, geometry: Geometry) -> Any:
    return maxima_by_blocks(xp, input, geometry)


@kernel(_bare_max_pool, when=host & below(min(FEW_LOOKED_UP, native.MANY)), declines=True)
def _few_alone(input: Array, geometry: Geometry) -> Array | None:
    return few_maxima(input, geometry)


@kernel(_bare_max_pool, when=_many, machine_code=True)
def _many_alone(input: Array, geometry: Geometry) -> Array | None:
    found = native.maxima(input, geometry, with_places=False)
    return None if found is None else in_format_of(input, found[0])


def _pooled(pool: Any, input: Any, geometry: Geometry, return_indices: bool) -> Any:
    if return_indices:
        return pool(input, geometry)
    mode = get_mode()
    if not mode.grad or (input._node is None and mode is fast.plain):
        return _bare_max_pool(input, geometry)
    return pool(input, geometry)[0]


# Plain windows ------------------------------------------------------------------------------------

_NAMES = {dims: f"max_pool{dims}d" for dims in (1, 2, 3)}


def _windows(dims: int, with_places: bool = False) -> Any:
    def pool(
        input: Any,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        ceil_mode: bool = False,
        return_indices: bool = False,
    ) -> Any:
        op = _NAMES[dims]
        geometry = pool_geometry(op, dims, input, kernel_size, stride, padding, dilation, ceil_mode)
        kind, places = input._array.dtype.kind, return_indices or with_places
        # As in torch, whose kernel for lines without places knows no integers.
        if kind in "bc" or (dims == 1 and kind in "iu" and not places):
            raise unsupported(op, input._array)
        return _pooled(_POOLS[dims], input, geometry, places)

    return pool


max_pool1d = named(
    "max_pool1d",
    _windows(1),
    """Max pooling of sequences, with the positions of the maxima if `return_indices`.

    >>> import pullback as torch
    >>> torch.max_pool1d(torch.tensor([[[1.0, 3.0, 2.0, 4.0]]]), 2)
    tensor([[[3., 4.]]])
    """,
)


max_pool2d = named(
    "max_pool2d",
    _windows(2),
    """Max pooling of images, with the positions of the maxima if `return_indices`.

    >>> import pullback as torch
    >>> x = torch.arange(16.0).reshape(1, 4, 4)
    >>> torch.nn.functional.max_pool2d(x, 2)
    tensor([[[ 5.,  7.],
             [13., 15.]]])
    """,
)


max_pool3d = named(
    "max_pool3d",
    _windows(3),
    """Max pooling of volumes, with the positions of the maxima if `return_indices`.

    >>> import pullback as torch
    >>> torch.max_pool3d(torch.arange(8.0).view(1, 1, 2, 2, 2), 2).item()
    7.0
    """,
)


max_pool1d_with_indices = named(
    "max_pool1d_with_indices",
    _windows(1, with_places=True),
    """`max_pool1d` with `return_indices`.

    >>> import pullback as torch
    >>> torch.max_pool1d_with_indices(torch.tensor([[[1.0, 3.0, 2.0, 4.0]]]), 2)
    (tensor([[[3., 4.]]]), tensor([[[1, 3]]]))
    """,
)


max_pool2d_with_indices = named(
    "max_pool2d_with_indices",
    _windows(2, with_places=True),
    """`max_pool2d` with `return_indices`.

    >>> import pullback as torch
    >>> torch.nn.functional.max_pool2d_with_indices(torch.tensor([[[1.0, 3.0], [2.0, 4.0]]]), 2)
    (tensor([[[4.]]]), tensor([[[3]]]))
    """,
)


max_pool3d_with_indices = named(
    "max_pool3d_with_indices",
    _windows(3, with_places=True),
    """`max_pool3d` with `return_indices`.

    >>> import pullback as torch
    >>> torch.nn.functional.max_pool3d_with_indices(torch.arange(8.0).view(1, 2, 2, 2), 2)[1].item()
    7
    """,
)


# Adaptive windows ---------------------------------------------------------------------------------


def _uneven(xp: Namespace, input: Array, number: Sizes) -> tuple[Array, Array]:
    """The largest of each of the windows that cover an image evenly, and their positions."""
    seen, size = [], input.shape[-len(number) :]
    for n, o in zip(size, number, strict=True):
        bounds = adaptive_bounds(n, o)
        longest = max((end - start for start, end in bounds), default=1)
        # A shorter window sees its last element more than once.
        rows = [[min(start + i, end - 1) for i in range(longest)] for start, end in bounds]
        seen.append(xp.array(rows, xp.int64).reshape(o, longest))
    return largest(xp, input, table_of(seen, size), number)


_UNEVEN_RULES = {
    **_RULES,
    "input": lambda g, places, input_shape, number: put_places(
        g, places, input_shape[-len(number) :]
    ),
    "jvp": lambda d_input, places, number: (take_places(d_input, places, len(number)), None),
}
_UNEVEN_POOLS = {
    dims: primitive(
        **_UNEVEN_RULES, name=f"_uneven_max_pool{dims}d", node=f"AdaptiveMaxPool{dims}DBackward0"
    )(keeps_format(_uneven))
    for dims in (1, 2, 3)
}


def _cover(dims: int, with_places: bool = False) -> Any:
    op = f"adaptive_max_pool{dims}d"

    def pool(input: Any, output_size: Any, return_indices: bool = False) -> Any:
        number = adaptive_sizes(op, dims, input, output_size, leading=1)
        if input._array.dtype.kind in "biuc":
            raise unsupported(op, input._array)
        wanted = return_indices or with_places
        if (geometry := even_geometry(input._array.shape[-dims:], number)) is not None:
            found = _pooled(_ADAPTIVE_POOLS[dims], input, geometry, wanted)
        else:
            found = _UNEVEN_POOLS[dims](input, number)
            found = found if wanted else found[0]
        if dims == 3 and not input._array.flags.c_contiguous:  # volumes do not keep their format
            return tuple(map(contiguous, found)) if wanted else contiguous(found)
        return found

    return pool


adaptive_max_pool1d = named(
    "adaptive_max_pool1d",
    _cover(1),
    """Adaptive max pooling of sequences: the maximum of each of `output_size` windows.

    >>> import pullback as torch
    >>> torch.nn.functional.adaptive_max_pool1d(torch.arange(6.0).view(1, 1, 6), 2)
    tensor([[[2., 5.]]])
    """,
)


adaptive_max_pool2d = named(
    "adaptive_max_pool2d",
    _cover(2),
    """Adaptive max pooling of images: the maximum of each of `output_size` windows.

    >>> import pullback as torch
    >>> torch.nn.functional.adaptive_max_pool2d(torch.arange(16.0).reshape(1, 4, 4), (1, None))
    tensor([[[12., 13., 14., 15.]]])
    """,
)


adaptive_max_pool3d = named(
    "adaptive_max_pool3d",
    _cover(3),
    """Adaptive max pooling of volumes: the maximum of each of `output_size` windows.

    >>> import pullback as torch
    >>> torch.nn.functional.adaptive_max_pool3d(torch.ones(1, 1, 4, 4, 4), 2).shape
    torch.Size([1, 1, 2, 2, 2])
    """,
)


adaptive_max_pool1d_with_indices = named(
    "adaptive_max_pool1d_with_indices",
    _cover(1, with_places=True),
    """`adaptive_max_pool1d` with `return_indices`.

    >>> import pullback as torch
    >>> torch.adaptive_max_pool1d(torch.arange(6.0).view(1, 1, 6), 2)
    (tensor([[[2., 5.]]]), tensor([[[2, 5]]]))
    """,
)


adaptive_max_pool2d_with_indices = named(
    "adaptive_max_pool2d_with_indices",
    _cover(2, with_places=True),
    """`adaptive_max_pool2d` with `return_indices`.

    >>> import pullback as torch
    >>> torch.nn.functional.adaptive_max_pool2d_with_indices(torch.arange(4.0).view(1, 1, 2, 2), 1)
    (tensor([[[[3.]]]]), tensor([[[[3]]]]))
    """,
)


adaptive_max_pool3d_with_indices = named(
    "adaptive_max_pool3d_with_indices",
    _cover(3, with_places=True),
    """`adaptive_max_pool3d` with `return_indices`.

    >>> import pullback as torch
    >>> torch.nn.functional.adaptive_max_pool3d_with_indices(torch.ones(1, 1, 2, 2, 2), 1)[1].item()
    0
    """,
)
