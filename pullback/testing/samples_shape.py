"""Sample inputs of operators that change shapes, share memory, join or copy."""

from __future__ import annotations

import numpy

from pullback.testing.cases import Case, Draw, DtypeName, Entry, case, entry


def reshaped(t: Draw) -> list[Case]:
    """A size that is left open, a new number of dimensions, nothing, 0-d."""
    return [
        case(t(2, 6), (3, 4)),
        case(t(2, 6), (2, -1, 3)),
        case(t(2, 3), (-1,)),
        case(t(), (1, 1)),
        case(t(1, 1), ()),
        case(t(0, 3), (3, 0)),
        case(t(0, 3), (2, 0, 5)),
        case(t.ints(2, 3), (6,)),
    ]


def swapped(t: Draw) -> list[Case]:
    """Two dimensions, from either end."""
    return [case(t(2, 3, 4), 0, 1), case(t(2, 3, 4), -1, 0), case(t(), 0, -1), case(t(0, 3), 0, 1)]


def with_both_parts(t: Draw) -> list[Case]:
    """Complex numbers, also where those of the table are real."""
    return [case(t(2, 3) + 0j), case(t(1) + 0j), case(numpy.asarray(t() + 0j))]


def one_tensor(*shapes: tuple[int, ...]) -> Entry:
    """Nothing but a tensor of each shape."""
    return entry(lambda t: [case(t(*shape)) for shape in shapes], expands=True)


MATRICES = ((2, 3), (3, 3), (0, 3))
UP_TO_FOUR = ((2, 3), (), (3,), (1, 1, 2, 3), (0, 2))

VIEWS = {
    "Tensor.view": entry(
        lambda t: [*reshaped(t), case(t(2, 6), 3, 4), case(t(2, 6), -1)], strided=False
    ),
    "reshape": entry(reshaped, expands=True),
    "Tensor.reshape": entry(lambda t: [case(t(2, 6), 3, 4), case(t(2, 6), (-1,))]),
    "Tensor.view_as": entry(lambda t: [case(t(2, 6), t(3, 4))], strided=False),
    "Tensor.reshape_as": entry(lambda t: [case(t(2, 6), t(3, 4)), case(t(1), t())]),
    "flatten": entry(
        lambda t: [
            case(t(2, 3, 2)),
            case(t(2, 3, 2), 1),
            case(t(2, 3, 2), 0, -2),
            case(t(2, 3), start_dim=1, end_dim=1),
            case(t()),
            case(t(0, 3)),
        ],
        expands=True,
    ),
    "ravel": one_tensor((2, 3), (), (0, 3)),
    "unflatten": entry(
        lambda t: [
            case(t(6, 2), 0, (2, 3)),
            case(t(2, 6), -1, (3, -1)),
            case(t(2, 6), 1, [2, 3]),
            case(t(0, 4), 1, (2, 2)),
        ],
        expands=True,
    ),
    "squeeze": entry(
        lambda t: [
            case(t(2, 1, 3, 1)),
            case(t(2, 1, 3), 1),
            case(t(2, 1, 3), -1),
            case(t(1, 2, 1), (0, -1)),
            case(t()),
            case(t(), 0),
            case(t(0, 1)),
        ],
        expands=True,
    ),
    "unsqueeze": entry(
        lambda t: [case(t(2, 3), 0), case(t(2, 3), -1), case(t(), 0), case(t(0, 3), 1)],
        expands=True,
    ),
    "transpose": entry(swapped, expands=True),
    "swapaxes": entry(swapped),
    "swapdims": entry(swapped),
    "t": one_tensor((2, 3), (3,), (), (0, 3)),
    "adjoint": one_tensor((2, 3), (2, 2, 3)),
    "Tensor.T": one_tensor((2, 3)),
    "Tensor.mT": one_tensor((2, 3), (2, 2, 3)),
    "Tensor.H": one_tensor((2, 3)),
    "Tensor.mH": one_tensor((2, 3), (2, 2, 3)),
    "permute": entry(
        lambda t: [
            case(t(2, 3, 4), (2, 0, 1)),
            case(t(2, 3, 4), (-1, 0, 1)),
            case(t(2, 3), (0, 1)),
            case(t(), ()),
            case(t(0, 3), (1, 0)),
        ],
        expands=True,
    ),
    "Tensor.permute": entry(lambda t: [case(t(2, 3, 4), 2, 0, 1), case(t(2, 3), (1, 0))]),
    "movedim": entry(
        lambda t: [case(t(2, 3, 4), 0, 2), case(t(2, 3, 4), (0, 1), (-1, 0)), case(t(), 0, 0)],
        expands=True,
    ),
    "moveaxis": entry(lambda t: [case(t(2, 3, 4), 0, 2), case(t(2, 3, 4), (0, 1), (-1, 0))]),
    "Tensor.expand": entry(
        lambda t: [
            case(t(1, 3), 2, 3),
            case(t(3), 2, -1),
            case(t(2, 1), (2, 3)),
            case(t(), 2),
            case(t(), (2, 2)),
            case(t(1, 3), 0, 3),
            case(t(0, 1), 0, 2),
        ]
    ),
    "Tensor.expand_as": entry(lambda t: [case(t(1, 3), t(2, 3)), case(t(), t(2))]),
    "broadcast_to": entry(
        lambda t: [case(t(1, 3), (2, 3)), case(t(3), (2, 3)), case(t(), (2,)), case(t(1), (0,))]
    ),
    "broadcast_tensors": entry(lambda t: [case(t(1, 3), t(2, 1)), case(t(), t(2), t(2, 2))]),
    "narrow": entry(
        lambda t: [
            case(t(4, 3), 0, 1, 2),
            case(t(2, 5), -1, 1, 3),
            case(t(2, 5), 1, -3, 2),
            case(t(2, 5), 1, 2, 0),
            case(t(0, 3), 1, 0, 2),
        ],
        expands=True,
    ),
    "select": entry(
        lambda t: [
            case(t(2, 3), 0, 1),
            case(t(2, 3), -1, -1),
            case(t(3), 0, 2),
            case(t(0, 3), 1, 0),
        ],
        expands=True,
    ),
    "split": entry(
        lambda t: [
            case(t(5, 2), 2),
            case(t(2, 5), 3, -1),
            case(t(5, 2), [2, 0, 3]),
            case(t(2, 4), (1, 3), dim=1),
            case(t(0, 2), 1),
        ],
        expands=True,
    ),
    "split_with_sizes": entry(lambda t: [case(t(5, 2), [2, 3]), case(t(2, 4), (1, 3), -1)]),
    "tensor_split": entry(lambda t: [case(t(5, 2), 3), case(t(2, 5), (1, 3), 1)]),
    "chunk": entry(
        lambda t: [case(t(5, 2), 2), case(t(2, 5), 3, -1), case(t(2, 2), 4), case(t(0, 2), 2)],
        expands=True,
    ),
    "hsplit": entry(lambda t: [case(t(2, 4), 2), case(t(4), (1, 3))]),
    "vsplit": entry(lambda t: [case(t(4, 2), 2), case(t(4, 2), (1, 3))]),
    "dsplit": entry(lambda t: [case(t(1, 2, 4), 2), case(t(1, 2, 4), (1, 3))]),
    "unbind": entry(
        lambda t: [case(t(2, 3)), case(t(2, 3), 1), case(t(2, 3), -2), case(t(3))], expands=True
    ),
    "diagonal": entry(
        lambda t: [
            case(t(3, 3)),
            case(t(2, 4), 1),
            case(t(4, 2), -1),
            case(t(2, 3, 2), 0, 0, 2),
            case(t(2, 3, 2), 1, dim1=-1, dim2=-2),
            case(t(2, 2), 5),
            case(t(0, 3)),
        ],
        expands=True,
    ),
    "Tensor.unfold": entry(
        lambda t: [
            case(t(5, 2), 0, 2, 1),
            case(t(2, 6), -1, 3, 2),
            case(t(2, 6), 1, 2, 3),
            case(t(), 0, 1, 1),
        ],
        expands=True,
    ),
    "as_strided": entry(
        lambda t: [
            case(t(2, 3), (3, 2), (1, 3)),
            case(t(2, 3), (2, 2), (3, 1), 1),
            case(t(6), (3, 2), (1, 1)),
            case(t(2, 3), (2,), (0,), 2),
            case(t(4), (), ()),
        ],
        strided=False,
    ),
    "view_as_real": entry(with_both_parts),
    "view_as_complex": entry(lambda t: [case(t(2, 3, 2).real), case(t(2).real)], strided=False),
    "real": one_tensor((2, 3), (), (0, 3)),
    "imag": entry(with_both_parts),
    "atleast_1d": one_tensor(*UP_TO_FOUR),
    "atleast_2d": one_tensor(*UP_TO_FOUR),
    "atleast_3d": one_tensor(*UP_TO_FOUR),
    "linalg.diagonal": entry(lambda t: [case(t(3, 3)), case(t(2, 2, 3), offset=1)]),
}

COPIES = {
    "clone": one_tensor((2, 3), (), (0, 3)),
    "Tensor.contiguous": one_tensor((2, 3), (), (0, 3)),
    "narrow_copy": entry(lambda t: [case(t(4, 3), 0, 1, 2), case(t(2, 5), -1, 1, 3)]),
    "flip": entry(
        lambda t: [
            case(t(2, 3), (0,)),
            case(t(2, 3), (0, -1)),
            case(t(), ()),
            case(t(0, 3), (0, 1)),
        ],
        expands=True,
    ),
    "fliplr": one_tensor(*MATRICES),
    "flipud": one_tensor(*MATRICES),
    "rot90": entry(lambda t: [case(t(2, 3)), case(t(2, 3), -1), case(t(2, 3, 2), 2, (0, -1))]),
    "roll": entry(
        lambda t: [
            case(t(2, 3), 1),
            case(t(2, 3), -1, 1),
            case(t(2, 3), (1, 2), (0, -1)),
            case(t(2, 3), 7, 0),
            case(t(0, 3), 1, 1),
        ],
        expands=True,
    ),
    "Tensor.repeat": entry(
        lambda t: [
            case(t(2, 3), 2, 1),
            case(t(3), 2, 2),
            case(t(3), (2, 2)),
            case(t(), 3),
            case(t(2), 0),
            case(t(0, 2), 2, 2),
        ],
        expands=True,
    ),
    "tile": entry(
        lambda t: [
            case(t(2, 3), (2,)),
            case(t(3), (2, 2)),
            case(t(2, 3), (1, 2)),
            case(t(), (2,)),
            case(t(0, 2), (2, 1)),
        ],
        expands=True,
    ),
    "repeat_interleave": entry(
        lambda t: [
            case(t(2, 3), 2),
            case(t(2, 3), 2, 1),
            case(t(2, 3), t.ints(3), dim=1),
            case(t(3), t.ints(3)),
        ]
    ),
    "tril": entry(
        lambda t: [
            case(t(3, 3)),
            case(t(2, 4), 1),
            case(t(4, 2), -1),
            case(t(2, 3, 3), diagonal=-2),
            case(t(0, 3)),
            case(t.ints(3, 3)),
        ],
        expands=True,
    ),
    "triu": entry(
        lambda t: [
            case(t(3, 3)),
            case(t(2, 4), 1),
            case(t(4, 2), -1),
            case(t(2, 3, 3), diagonal=2),
            case(t(0, 3)),
            case(t.bools(3, 3)),
        ],
        expands=True,
    ),
    "diag": entry(lambda t: [case(t(3)), case(t(3, 3)), case(t(2), 1), case(t(2, 3), -1)]),
    "diag_embed": entry(
        lambda t: [case(t(2, 3)), case(t(3), 1), case(t(2, 3), -1, 0, 2)], expands=True
    ),
    "diagflat": entry(lambda t: [case(t(2, 2)), case(t(2), 1), case(t())]),
    "Tensor.to": entry(
        lambda t: [
            case(t(2, 3), DtypeName("complex128")),
            case(t.fixed(2, 3), dtype=DtypeName("complex64")),
            case(t.ints(2, 3), DtypeName("float64")),
            case(t(2, 3), t(1)),
            case(t(2, 3), DtypeName("complex128"), copy=True),
        ],
        expands=True,
    ),
    "Tensor.double": entry(lambda t: [case(t.ints(2, 3)), case(t(2, 3).real)]),
}

JOINS = {
    "cat": entry(
        lambda t: [
            case([t(2, 3), t(1, 3)]),
            case([t(2, 3), t(2, 1), t(2, 2)], 1),
            case((t(2, 3), t(2, 3)), dim=-1),
            case([t(0), t(2, 3)], 0),
            case([t(2, 3), t.ints(2, 3)]),
            case([t(0, 3), t(2, 3)]),
            case([t(2)]),
        ]
    ),
    "concat": entry(lambda t: [case([t(2, 3), t(1, 3)]), case([t(2, 3), t(2, 1)], -1)]),
    "concatenate": entry(lambda t: [case([t(2, 3), t(1, 3)]), case([t(2, 3), t(2, 1)], -1)]),
    "stack": entry(
        lambda t: [
            case([t(2, 3), t(2, 3)]),
            case([t(2, 3), t(2, 3)], 1),
            case((t(2), t(2), t(2)), dim=-1),
            case([t(), t()]),
            case([t(0, 2), t(0, 2)]),
            case([t(2), t.ints(2)]),
        ]
    ),
    "hstack": entry(lambda t: [case([t(2, 3), t(2, 1)]), case([t(2), t(3)]), case([t(), t()])]),
    "vstack": entry(lambda t: [case([t(2, 3), t(1, 3)]), case([t(2), t(2)]), case([t(), t()])]),
    "dstack": entry(lambda t: [case([t(2, 3), t(2, 3)]), case([t(2), t(2)])]),
    "column_stack": entry(lambda t: [case([t(2, 3), t(2)]), case([t(2), t(2)])]),
    "row_stack": entry(lambda t: [case([t(2, 3), t(1, 3)]), case([t(2), t(2)])]),
    "block_diag": entry(lambda t: [case(t(2, 3), t(1, 2)), case(t(2), t())]),
    "meshgrid": entry(
        lambda t: [case(t(2), t(3), indexing="ij"), case([t(2), t(3)], indexing="xy")]
    ),
    "cartesian_prod": entry(lambda t: [case(t(2), t(3)), case(t(2))]),
    "combinations": entry(lambda t: [case(t(3)), case(t(3), 2, with_replacement=True)]),
}

SHAPE: dict[str, Entry] = VIEWS | COPIES | JOINS
