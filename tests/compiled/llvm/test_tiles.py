"""Products of matrices as tiles: all shapes, strides, updates and parts of the work."""

import ctypes

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import pullback as torch
from pullback.compiled.llvm.machine import Code, is_available, machine
from pullback.compiled.llvm.tiles import Tiles, tiles_pay

pytestmark = pytest.mark.skipif(not is_available(), reason="needs llvmlite")

DTYPES = {"f4": np.float32, "f8": np.float64}


def multiply(tiles, a, b, c, units):
    """Run a product's tiles, for some of its units."""
    from pullback.compiled.llvm.emit import Emitter

    em, functions, declared = Emitter(), {}, set()
    tiles.call(em, ["%a", "%b", "%c"], "%unit")
    tiles.write(functions, declared)
    head = "define void @run(ptr %a, ptr %b, ptr %c, i64 %unit) #0 {"
    run = "\n".join([head, *em.lines, "  ret void", "}"])
    text = "\n".join([*sorted(declared), *functions.values(), run, "attributes #0 = { nounwind }"])
    code = Code(text, keep=False)
    function = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3, ctypes.c_int64)(code.address("run"))
    for unit in units:
        function(a.ctypes.data, b.ctypes.data, c.ctypes.data, unit)


def laid_out(values, order):
    """The same values row by row, column by column, or as rows of a wider matrix."""
    if order == "columns":
        return np.asfortranarray(values)
    if order == "wider":
        wide = np.full((values.shape[0], values.shape[1] + 3), np.nan, values.dtype)
        wide[:, : values.shape[1]] = values
        return wide[:, : values.shape[1]]
    return np.ascontiguousarray(values)


def strides(matrix):
    return tuple(s // matrix.itemsize for s in matrix.strides)


orders = st.sampled_from(["rows", "columns", "wider"])


@settings(deadline=None, max_examples=40)
@given(
    m=st.integers(1, 70), k=st.integers(1, 40), n=st.integers(1, 150),
    dtype=st.sampled_from(["f4", "f8"]), order_a=orders, order_b=orders,
    factor=st.sampled_from([None, 1.0, -0.5]), wide=st.sampled_from([32, 64]),
)  # fmt: skip
@example(m=7, k=2000, n=70, dtype="f4", order_a="rows", order_b="columns", factor=None, wide=64)
@example(m=20, k=1900, n=33, dtype="f8", order_a="columns", order_b="rows", factor=0.5, wide=64)
@example(m=1000, k=280, n=70, dtype="f4", order_a="rows", order_b="wider", factor=None, wide=64)
@example(m=700, k=500, n=9, dtype="f8", order_a="rows", order_b="rows", factor=None, wide=32)
def test_tiles_give_the_product_and_write_nothing_else(
    m, k, n, dtype, order_a, order_b, factor, wide
):
    rng = np.random.default_rng(m * 1000 + n)
    a, b = (laid_out(rng.integers(-4, 5, size).astype(DTYPES[dtype]), order)
            for size, order in (((m, k), order_a), ((k, n), order_b)))  # fmt: skip
    room = rng.integers(-4, 5, (m, n + 5)).astype(DTYPES[dtype])
    before = room.copy()
    tiles = Tiles(dtype, m, k, n, strides(a), strides(b), n + 5, factor, wide)
    multiply(tiles, a, b, room, range(tiles.panels * tiles.blocks))
    wanted = a @ b if factor is None else before[:, :n] + DTYPES[dtype](factor) * (a @ b)
    assert np.array_equal(room[:, :n], wanted)  # whole numbers: sums have no rounding
    assert np.array_equal(room[:, n:], before[:, n:])


def test_a_unit_is_one_panel_of_one_block_of_rows():
    a, b = np.ones((4000, 64), np.float32), np.ones((64, 200), np.float32)
    tiles = Tiles("f4", 4000, 64, 200, strides(a), strides(b), 200, None, 64)
    assert tiles.panels > 1
    assert tiles.blocks > 1
    c = np.zeros((4000, 200), np.float32)
    multiply(tiles, a, b, c, [tiles.panels + 1])
    done = np.zeros_like(c)
    done[tiles.block : 2 * tiles.block, tiles.panel : 2 * tiles.panel] = 64
    assert np.array_equal(c, done)


@pytest.mark.parametrize("size", [(16, 16, 16), (33, 70, 21), (3, 5, 2), (64, 300, 48)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_compiled_products_are_those_of_eager(size, dtype):
    m, k, n = size
    assert tiles_pay(machine(), "f4", 64, 300, 48) == (machine().vector_bytes == 64)
    generator = torch.Generator().manual_seed(m)
    x = torch.randn(2, m, k, dtype=dtype, generator=generator)
    y = torch.randn(2, n, k, dtype=dtype, generator=generator, requires_grad=True)

    def loss(x, y):
        return ((x @ y.mT) ** 2).sum()

    given = torch.func.grad(loss, (0, 1))(x, y)
    made = torch.compile(torch.func.grad(loss, (0, 1)), fullgraph=True)(x, y)
    rounding = 1e-5 if dtype == torch.float32 else 1e-13
    for one, other in zip(given, made, strict=True):
        assert (one - other).abs().max() <= rounding * one.abs().max()
