"""Programs on a sparse matrix, and the layouts in which each takes it: data for tests and pages.

`x` is a matrix of 2 rows and 3 columns, float64. The tests run each program in each layout: those
named here must work, with derivatives that agree with differences; the others must refuse by name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["LAYOUTS", "PROGRAMS", "TAKEN", "matrix"]

LAYOUTS = ("coo", "csr", "csc", "bsr", "bsc")
_ALL = "coo csr csc bsr bsc"

Program = Callable[[Any, Any], Any]


def matrix(lib: Any, layout: str) -> Any:
    """The matrix that programs run on, in a layout."""
    dense = lib.tensor([[1.25, 0.0, 2.3], [0.0, -0.7, 3.1]], dtype=lib.float64)
    if layout == "uncoalesced":
        places = [[0, 1, 1, 0, 0], [2, 2, 1, 0, 2]]
        values = [0.5, 3.1, -0.7, 1.25, 1.8]
        return lib.sparse_coo_tensor(places, values, (2, 3), dtype=lib.float64)
    if layout == "coo":
        return dense.to_sparse()
    if layout in ("csr", "csc"):
        return getattr(dense, f"to_sparse_{layout}")()
    # Without zeros inside blocks, where some functions have a kink.
    blocks = lib.tensor([[1.25, 0.0, 2.3], [0.4, 0.0, -0.31]], dtype=lib.float64)
    return getattr(blocks, f"to_sparse_{layout}")((2, 1))


def _dense(lib: Any) -> Any:
    return lib.arange(1, 7, dtype=lib.float64).reshape(2, 3) / 4


def _other(lib: Any, x: Any) -> Any:
    """Another matrix in the layout of `x`, with other places where that is not blocked."""
    made = lib.tensor([[0.0, 3.0, 1.0], [0.0, 2.0, 0.0]], dtype=lib.float64).to_sparse()
    if x.layout is lib.sparse_coo:
        return made
    blocked = {"blocksize": (2, 1)} if str(x.layout)[-3] == "b" else {}
    return made.to_sparse(layout=x.layout, **blocked)


_UNARY = """
    abs asin asinh atan atanh ceil conj deg2rad erf erfinv expm1 floor frac log1p neg rad2deg relu
    round sgn sign sin sinh tan tanh trunc square positive nan_to_num clone
"""
_TESTS = "isinf isnan isneginf isposinf signbit"


def _unary(name: str) -> Program:
    if name in ("asin", "atanh", "erfinv"):
        return lambda lib, x: getattr(x / 8, name)()
    return lambda lib, x: getattr(x, name)()


def _test(name: str) -> Program:
    return lambda lib, x: getattr(x, name)().double()


# Name -> the program, and the layouts that it takes.
_ROWS: dict[str, tuple[Program, str]] = {
    **{name: (_unary(name), _ALL) for name in _UNARY.split()},
    **{name: (_test(name), _ALL) for name in _TESTS.split()},
    "sqrt": (lambda lib, x: (x * x + x * x).sqrt(), _ALL),
    "pow": (lambda lib, x: x**3, _ALL),
    "to_dense": (lambda lib, x: x.to_dense(), _ALL),
    "to_dense(masked_grad=False)": (lambda lib, x: x.to_dense(masked_grad=False), _ALL),
    "to_sparse": (lambda lib, x: x.to_sparse(), _ALL),
    "to_sparse_csr": (lambda lib, x: x.to_sparse_csr(), _ALL),
    "to_sparse_csc": (lambda lib, x: x.to_sparse_csc(), _ALL),
    "to_sparse_bsr": (lambda lib, x: x.to_sparse_bsr((1, 3)), _ALL),
    "to_sparse_bsc": (lambda lib, x: x.to_sparse_bsc((2, 1)), _ALL),
    "float": (lambda lib, x: x.float().double(), _ALL),
    "coalesce": (lambda lib, x: x.coalesce(), "coo"),
    "values": (lambda lib, x: (x.coalesce() if x.is_sparse else x).values() * 2, _ALL),
    "sparse_mask": (lambda lib, x: _dense(lib).sparse_mask(x) * x, _ALL),
    "add, same places": (lambda lib, x: x + x * 2, _ALL),
    "add, other places": (lambda lib, x: x + _other(lib, x), _ALL),
    "add to dense": (lambda lib, x: _dense(lib) + x, _ALL),
    "add(alpha)": (lambda lib, x: lib.add(_dense(lib), x, alpha=3), _ALL),
    "sub": (lambda lib, x: x - x.sin(), _ALL),
    "sub from dense": (lambda lib, x: _dense(lib) - x, _ALL),
    "mul by a number": (lambda lib, x: x * 2.5, _ALL),
    "mul by dense": (lambda lib, x: x * _dense(lib), _ALL),
    "mul by a row": (lambda lib, x: x * _dense(lib)[0], _ALL),
    "mul": (lambda lib, x: x * (x + x), _ALL),
    "mul, other places": (lambda lib, x: x * _other(lib, x), _ALL),
    "div": (lambda lib, x: x / 4, _ALL),
    "floor_divide": (lambda lib, x: x.detach() // 2, _ALL),
    "mm": (lambda lib, x: x.mm(_dense(lib).t()), _ALL),
    "mm by dense": (lambda lib, x: _dense(lib).t().mm(x), _ALL),
    "matmul": (lambda lib, x: x @ _dense(lib)[0], _ALL),
    "mv": (lambda lib, x: x.mv(_dense(lib)[1]), _ALL),
    "addmm": (
        lambda lib, x: lib.addmm(_dense(lib)[:, :2], x, _dense(lib).t(), beta=2, alpha=3),
        _ALL,
    ),
    "addmv": (lambda lib, x: lib.addmv(_dense(lib)[:, 0], x, _dense(lib)[0]), _ALL),
    "linear": (lambda lib, x: lib.nn.functional.linear(_dense(lib), x), _ALL),
    "sparse.mm": (lambda lib, x: lib.sparse.mm(x, _dense(lib).t()), _ALL),
    "sparse.mm, both sparse": (
        lambda lib, x: lib.sparse.mm(x, _other(lib, x).t().to_sparse()),
        "coo csr csc",
    ),
    "sparse.mm(reduce)": (lambda lib, x: lib.sparse.mm(x, _dense(lib).t(), "mean"), _ALL[4:]),
    "sparse.addmm": (
        lambda lib, x: lib.sparse.addmm(_dense(lib)[:, :2], x, _dense(lib).t(), alpha=2),
        _ALL,
    ),
    "sparse.sampled_addmm": (
        lambda lib, x: lib.sparse.sampled_addmm(x, _dense(lib)[:, :2], _dense(lib), beta=2),
        _ALL,
    ),
    "hspmm": (lambda lib, x: lib.hspmm(x, _dense(lib).t()), "coo"),
    "smm": (lambda lib, x: lib.smm(x, _dense(lib).t()), "coo"),
    "sum": (lambda lib, x: x.sum(), _ALL),
    "sum(0)": (lambda lib, x: x.sum(0), "coo"),
    "sum(1, keepdim=True)": (lambda lib, x: x.sum(1, keepdim=True), "coo csr csc"),
    "sparse.sum": (lambda lib, x: lib.sparse.sum(x), "coo"),
    "sparse.sum(1)": (lambda lib, x: lib.sparse.sum(x, 1), "coo"),
    "sparse.softmax": (lambda lib, x: lib.sparse.softmax(x, 1), "coo"),
    "sparse.log_softmax": (lambda lib, x: lib.sparse.log_softmax(x, 0), "coo"),
    "norm": (lambda lib, x: x.norm(), _ALL),
    "any": (lambda lib, x: x.any().double(), _ALL),
    "t": (lambda lib, x: x.t(), _ALL),
    "transpose": (lambda lib, x: x.transpose(0, 1), _ALL),
    "permute": (lambda lib, x: x.permute(1, 0), _ALL),
    "unsqueeze": (lambda lib, x: x.unsqueeze(1), "coo"),
    "squeeze": (lambda lib, x: x.unsqueeze(1).squeeze(1), "coo"),
    "select": (lambda lib, x: x.select(0, 1), _ALL),
    "x[0]": (lambda lib, x: x[0], _ALL),
    "x[0, 2]": (lambda lib, x: x[0, 2], _ALL),
    "x[:, 1:]": (lambda lib, x: x[:, 1:], "coo"),
    "narrow": (lambda lib, x: x.narrow(1, 1, 2), "coo"),
    "narrow_copy": (lambda lib, x: x.narrow_copy(1, 1, 2), "coo"),
    "index_select": (lambda lib, x: x.index_select(1, lib.tensor([2, 0, 2])), "coo"),
    "unbind": (lambda lib, x: x.unbind(1)[2], _ALL),
    "cat": (lambda lib, x: lib.cat([x, x * 2], 1), "coo"),
    "stack": (lambda lib, x: lib.stack([x, x * 2], 1), "coo"),
    "add_": (lambda lib, x: (x * 1).add_(x, alpha=2), _ALL),
    "mul_": (lambda lib, x: (x * 1).mul_(3), _ALL),
    "neg_": (lambda lib, x: (x * 1).neg_(), _ALL),
    "zeros_like": (lambda lib, x: lib.zeros_like(x), _ALL),
    # Refused everywhere: zeros would not stay zeros, or torch has none either.
    "exp": (lambda lib, x: x.exp(), ""),
    "cos": (lambda lib, x: x.cos(), ""),
    "add a number": (lambda lib, x: x + 1, ""),
    "reshape": (lambda lib, x: x.reshape(6), ""),
    "mean": (lambda lib, x: x.mean(), ""),
    "max": (lambda lib, x: x.max(), ""),
    "eq": (lambda lib, x: x == x, ""),
    "numpy": (lambda lib, x: x.detach().numpy(), ""),
}

PROGRAMS: dict[str, Program] = {name: row[0] for name, row in _ROWS.items()}
TAKEN: dict[str, tuple[str, ...]] = {name: tuple(row[1].split()) for name, row in _ROWS.items()}
