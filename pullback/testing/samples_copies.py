"""Sample inputs of views that are copied at once, of windows, and of other late comers."""

from __future__ import annotations

import numpy

from pullback.testing.cases import Entry, case, entry, real

COPIES: dict[str, Entry] = {
    "alias_copy": entry(lambda t: [case(t(2, 3)), case(t())]),
    "as_strided_copy": entry(
        lambda t: [case(t(6), (2, 2), (1, 2)), case(t(6), (2, 3), (3, 1), 0)], strided=False
    ),
    "diagonal_copy": entry(lambda t: [case(t(3, 3)), case(t(2, 3, 4), 1, 0, 2)]),
    "expand_copy": entry(lambda t: [case(t(1, 3), (2, 3)), case(t(3), (2, -1))]),
    "permute_copy": entry(lambda t: [case(t(2, 3, 4), (2, 0, 1)), case(t(2, 3), (-1, 0))]),
    "split_with_sizes_copy": entry(lambda t: [case(t(5, 2), (2, 3)), case(t(2, 3), (1, 2), 1)]),
    "squeeze_copy": entry(lambda t: [case(t(2, 1, 3)), case(t(2, 1), 1), case(t(1, 1), (0, 1))]),
    "t_copy": entry(lambda t: [case(t(2, 3)), case(t(2)), case(t())]),
    "transpose_copy": entry(lambda t: [case(t(2, 3), 0, 1), case(t(2, 3, 4), -1, 0)]),
    "unbind_copy": entry(lambda t: [case(t(2, 3)), case(t(2, 3), 1)]),
    "unfold_copy": entry(lambda t: [case(t(7), 0, 3, 2), case(t(2, 5), 1, 2, 1)]),
    "unsqueeze_copy": entry(lambda t: [case(t(2, 3), 0), case(t(2, 3), -1), case(t(), 0)]),
    "view_copy": entry(lambda t: [case(t(2, 3), (3, 2)), case(t(6), (2, -1))], strided=False),
    "unsafe_chunk": entry(lambda t: [case(t(5, 2), 2), case(t(2, 4), 2, 1)]),
    "unsafe_split": entry(lambda t: [case(t(5, 2), 2), case(t(2, 4), 3, 1)]),
    "broadcast_shapes": entry(lambda t: [case((2, 1), (3,)), case((), (2,))]),
    "segment_reduce": entry(
        lambda t: [
            case(t(5, 2), "sum", lengths=numpy.array([2, 3])),
            case(t(5), "mean", lengths=numpy.array([1, 4])),
            case(t(5), "max", lengths=numpy.array([2, 3])),
            case(t(5), "min", lengths=numpy.array([2, 3])),
            case(t(5), "prod", offsets=numpy.array([0, 2, 5])),
        ],
        strided=False,
    ),
    "histogramdd": entry(
        lambda t: [case(t.fixed(6, 2), [3, 2]), case(t.fixed(6, 1), [4], range=(-1.0, 1.0))]
    ),
    "hash_tensor": entry(lambda t: [real(t.ints(6)), real(t.ints(2, 3), 1)]),
    "linalg.ldl_solve": entry(
        lambda t: [
            case(t.fixed(3, 3), numpy.array([1, 2, 3], numpy.int32), t.fixed(3, 2)),
            case(t.fixed(2, 2, 2), numpy.array([[1, 2]] * 2, numpy.int32), t.fixed(2, 2, 1)),
        ]
    ),
}

_PLAIN = "bartlett blackman cosine hamming hann nuttall"
WINDOWS: dict[str, Entry] = {
    **{
        f"signal.windows.{name}": entry(lambda t: [case(6), case(7, sym=False), case(1), case(0)])
        for name in _PLAIN.split()
    },
    "signal.windows.exponential": entry(lambda t: [case(6), case(7, sym=False, tau=2.0)]),
    "signal.windows.gaussian": entry(lambda t: [case(6), case(7, sym=False, std=2.0)]),
    "signal.windows.general_cosine": entry(lambda t: [case(6, a=[0.5, 0.3, 0.2])]),
    "signal.windows.general_hamming": entry(lambda t: [case(6), case(7, alpha=0.4)]),
    "signal.windows.kaiser": entry(lambda t: [case(6), case(7, beta=5.0, sym=False)]),
}
