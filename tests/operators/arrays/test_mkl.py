"""Products by MKL: with a stand-in for its library, and with itself where it is installed."""

import ctypes
import itertools
import os
import subprocess
import sys
import threading

import numpy
import pytest

import pullback as torch
from pullback.operators.arrays import mkl, products
from pullback.operators.arrays.products import times


def drawn(*shape, dtype="f"):
    return numpy.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype)


class StandIn:
    """As the library, from what its documentation says; it notes what it is asked for."""

    def __init__(self, layer=1, refusal=0):
        self.layer, self.refusal, self.products = layer, refusal, []
        # Functions and not methods, as ctypes gives them: types are written on them.
        self.cblas_sgemm_64 = lambda *given: self.gemm(numpy.float32, *given)
        self.cblas_dgemm_64 = lambda *given: self.gemm(numpy.float64, *given)

    def MKL_Set_Threading_Layer(self, layer):  # noqa: N802
        assert layer == 1
        return self.layer

    def MKL_CBWR_Set(self, setting):  # noqa: N802
        assert setting == 2
        return self.refusal

    def gemm(self, dtype, order, by_a, by_b, m, n, k, one, a, lda, b, ldb, zero, c, ldc):
        assert (order, one, zero) == (101, 1.0, 0.0)
        self.products.append((m, n, k))
        left = self.matrix(dtype, by_a, m, k, a, lda)
        right = self.matrix(dtype, by_b, k, n, b, ldb)
        self.matrix(dtype, 111, m, n, c, ldc)[...] = left @ right

    def matrix(self, dtype, order, rows, columns, start, step):
        if order == 112:
            return self.matrix(dtype, 111, columns, rows, start, step).T
        assert order == 111
        assert step >= columns
        size = numpy.dtype(dtype).itemsize
        memory = (ctypes.c_char * (size * ((rows - 1) * step + columns))).from_address(start)
        flat = numpy.frombuffer(memory, dtype)
        return numpy.lib.stride_tricks.as_strided(flat, (rows, columns), (size * step, size))


@pytest.fixture(params=["stand-in", "itself"])
def library(request, monkeypatch):
    """What products go to, whatever their sizes; None is MKL itself."""
    monkeypatch.setattr(mkl, "LEAST", 1)
    if request.param == "itself":
        if not mkl.functions():
            pytest.skip("MKL is not installed here, or not ours to set up")
        monkeypatch.setattr(mkl.setting, "on", True)
        yield None
        return
    made = StandIn()
    monkeypatch.setattr(mkl.setting, "on", True)
    monkeypatch.setattr(mkl.setting, "functions", mkl.set_up(made))
    yield made


@pytest.fixture
def threads():
    before = torch.get_num_threads()
    yield torch.set_num_threads
    torch.set_num_threads(before)


# Each takes a matrix to an equal one that lies otherwise in memory.
LAYOUTS = {
    "rows": lambda a: a.copy(),
    "columns": lambda a: a.T.copy().T,
    "part of rows": lambda a: numpy.pad(a, 3)[3:-3, 3:-3],
    "part of columns": lambda a: numpy.pad(a, 3).T.copy().T[3:-3, 3:-3],
    "every other column": lambda a: a.repeat(2, 1)[:, ::2],
    "every other row": lambda a: a.repeat(2, 0)[::2],
    "backwards": lambda a: a[::-1].copy()[::-1],
    "right to left": lambda a: a[:, ::-1].copy()[:, ::-1],
    "read-only": lambda a: numpy.frombuffer(a.tobytes(), a.dtype).reshape(a.shape),
    "between addresses": lambda a: numpy.frombuffer(b"." + a.tobytes(), a.dtype, offset=1).reshape(
        a.shape
    ),
}
SIZES = [(1, 1, 1), (1, 5, 4), (4, 1, 5), (5, 4, 1), (3, 4, 5), (17, 33, 65), (64, 128, 384)]


@pytest.mark.parametrize("left", LAYOUTS)
@pytest.mark.parametrize("dtype", "fd")
def test_a_product_is_what_numpy_says_wherever_the_matrices_lie(library, dtype, left):
    for (m, k, n), right in itertools.product(SIZES, LAYOUTS):
        a, b = LAYOUTS[left](drawn(m, k, dtype=dtype)), LAYOUTS[right](drawn(k, n, dtype=dtype))
        before = a.copy(), b.copy()
        made = mkl.product(a, b)
        assert ((a == before[0]).all(), (b == before[1]).all()) == (True, True)
        if made is None:  # NumPy's then
            continue
        exact = a.astype("d") @ b.astype("d")
        scale = (abs(a).astype("d") @ abs(b).astype("d")).max()
        assert made.shape == (m, n)
        assert made.dtype == a.dtype
        assert made.flags.c_contiguous
        assert abs(made - exact).max() <= 4 * numpy.finfo(dtype).eps * scale


def test_matrices_by_rows_or_columns_and_parts_of_them_are_taken(library):
    known = ("rows", "columns", "part of rows", "part of columns", "every other row", "read-only")
    for left, right in itertools.product(known, known):
        a, b = LAYOUTS[left](drawn(6, 8)), LAYOUTS[right](drawn(8, 10))
        assert mkl.product(a, b) is not None, (left, right)


@pytest.mark.parametrize("beyond", [-1, 0, 1])
def test_products_are_right_on_both_sides_of_the_size_where_machine_code_ends(
    library, monkeypatch, beyond
):
    a, b = drawn(48, 32, dtype="f"), drawn(32, 64, dtype="f")
    monkeypatch.setattr(products, "LEAST", 1)
    monkeypatch.setattr(products, "MOST", 48 * 32 * 64 - beyond)
    exact = a.astype("d") @ b.astype("d")
    assert abs(times(a, b) - exact).max() <= 1e-5 * (abs(a) @ abs(b)).max()
    if library is not None and beyond > 0:
        assert library.products


@pytest.mark.parametrize("shapes", [((0, 3), (3, 4)), ((3, 0), (0, 4)), ((3, 4), (4, 0))])
def test_products_of_nothing_are_left_to_numpy(library, shapes):
    a, b = (drawn(*shape) for shape in shapes)
    assert mkl.product(a, b) is None
    assert times(a, b).shape == (shapes[0][0], shapes[1][1])


@pytest.mark.parametrize("dtype", ["e", "F", "D", "l", "?", ">f4"])
def test_other_dtypes_are_left_to_numpy(library, dtype):
    a = numpy.ones((8, 8), dtype)
    assert mkl.product(a, a) is None


def test_what_does_not_fit_or_is_of_another_kind_is_left_to_numpy(library):
    a, b = drawn(8, 8), drawn(8, 8)
    assert mkl.product(a, drawn(9, 8)) is None
    assert mkl.product(a, b.astype("d")) is None
    assert mkl.product(numpy.ma.array(a), b) is None
    assert mkl.product(a, b.view(numpy.recarray)) is None
    assert mkl.product(numpy.broadcast_to(a[:1], (8, 8)), b) is None


def test_what_is_not_finite_stays_so(library):
    a, b = drawn(20, 30), drawn(30, 40)
    a[3, 4], a[5, 6], b[7, 8] = numpy.inf, numpy.nan, -numpy.inf
    with numpy.errstate(invalid="ignore"):
        numpy.testing.assert_array_equal(numpy.isnan(mkl.product(a, b)), numpy.isnan(a @ b))
        numpy.testing.assert_array_equal(numpy.isinf(mkl.product(a, b)), numpy.isinf(a @ b))


# Of MKL alone: OpenBLAS, which computes for the stand-in, does not promise it.
@pytest.mark.parametrize("library", ["itself"], indirect=True)
@pytest.mark.parametrize("dtype", "fd")
@pytest.mark.parametrize(
    "shape", [(64, 128, 384), (512, 100, 300), (300, 777, 700), (1024, 64, 256), (700, 300, 64)]
)
def test_equal_calls_give_equal_bits_on_any_number_of_threads_and_anywhere(
    library, threads, shape, dtype
):
    m, k, n = shape
    a, b = drawn(m, k, dtype=dtype), drawn(k, n, dtype=dtype)
    made = set()
    for count, shift in itertools.product((1, 2, 3), (0, 1, 5)):
        threads(count)
        moved = [numpy.empty(one.size + shift, dtype)[shift:].reshape(one.shape) for one in (a, b)]
        moved[0][...], moved[1][...] = a, b
        made.add(mkl.product(*moved).tobytes())
    assert len(made) == 1


def test_pieces_are_the_same_for_all_threads_where_they_change_bits(threads, monkeypatch):
    monkeypatch.setattr(mkl.setting, "fixed", True)
    for count in (1, 2, 5):
        threads(count)
        assert mkl._spans(1030, 300) == [(0, 257), (257, 515), (515, 772), (772, 1030)]
        assert len(mkl._spans(1 << 15, 256)) == 8
        assert mkl._spans(1 << 15, 255) == [(0, 1 << 15)]


def test_each_thread_has_a_piece_that_is_not_too_short(threads, monkeypatch):
    monkeypatch.setattr(mkl.setting, "fixed", False)
    library = StandIn()
    gemm = mkl.set_up(library)
    before = mkl.setting.on, mkl.setting.functions
    mkl.setting.on, mkl.setting.functions = True, gemm
    try:
        threads(3)
        mkl.product(drawn(800, 60), drawn(60, 300))
        assert sorted(library.products) == [(266, 300, 60), (267, 300, 60), (267, 300, 60)]
        library.products.clear()
        mkl.product(drawn(300, 60), drawn(60, 600))
        assert library.products == [(300, 300, 60)] * 2
        library.products.clear()
        mkl.product(drawn(2000, 60), drawn(60, 200))
        assert library.products == [(2000, 200, 60)]
    finally:
        mkl.setting.on, mkl.setting.functions = before


@pytest.mark.parametrize("refusal", [{"layer": 3}, {"refusal": -8}])
def test_a_library_that_is_set_up_otherwise_is_left_alone(refusal):
    assert mkl.set_up(StandIn(**refusal)) == {}


def test_large_products_of_all_operators_go_there_and_small_ones_do_not(monkeypatch):
    library = StandIn()
    monkeypatch.setattr(mkl.setting, "functions", mkl.set_up(library))
    monkeypatch.setattr(mkl.setting, "on", True)
    small, (a, b) = torch.ones(64, 64), (torch.ones(256, 128), torch.ones(128, 256))
    bias = torch.ones(256)
    calls = {
        "mm": lambda: a @ b,
        "addmm": lambda: torch.addmm(bias, a, b),
        "bmm": lambda: torch.bmm(a[None], b[None]),
        "matmul": lambda: a.view(2, 128, 128) @ b,
        "linear": lambda: torch.nn.functional.linear(a, b.t()),
        "linear with bias": lambda: torch.nn.functional.linear(a, b.t(), bias),
        "einsum": lambda: torch.einsum("ij,jk->ik", a, b),
    }
    with torch.backends.native.flags(enabled=False):
        for name, call in calls.items():
            before = len(library.products)
            made = call()
            assert len(library.products) == before + 1, name
            assert (made == 128 + ("bias" in name or name == "addmm")).all(), name
        small @ small
        with torch.backends.mkl.flags(enabled=False):
            a @ b
        assert len(library.products) == len(calls)


def test_gradients_go_there_too(monkeypatch):
    library = StandIn()
    monkeypatch.setattr(mkl.setting, "functions", mkl.set_up(library))
    monkeypatch.setattr(mkl.setting, "on", True)
    x, w = torch.ones(256, 128, requires_grad=True), torch.ones(256, 128, requires_grad=True)
    with torch.backends.native.flags(enabled=False):
        torch.nn.functional.linear(x, w).backward(torch.ones(256, 256))
    assert len(library.products) == 3
    assert (x.grad == 256).all()
    assert (w.grad == 256).all()


def test_linear_layers_above_the_sizes_of_machine_code_go_there(monkeypatch):
    library = StandIn()
    monkeypatch.setattr(mkl.setting, "functions", mkl.set_up(library))
    monkeypatch.setattr(mkl.setting, "on", True)
    x, w, bias = torch.ones(2, 260, 512), torch.ones(256, 512), torch.ones(256)
    assert (torch.nn.functional.linear(x, w, bias) == 513).all()
    assert library.products


def test_the_switch_says_what_is_missing(monkeypatch):
    monkeypatch.setattr(mkl.setting, "functions", {})
    monkeypatch.setattr(mkl.setting, "on", False)
    monkeypatch.setattr(mkl, "_file", lambda: None)
    assert torch.backends.mkl.set_flags(False) == (False,)
    with pytest.raises(RuntimeError, match=r"pullback\[mkl\].*install"):
        torch.backends.mkl.set_flags(True)
    monkeypatch.setattr(mkl, "_file", lambda: "somewhere")
    with pytest.raises(RuntimeError, match="already"):
        torch.backends.mkl.set_flags(True)


SOURCE = """
import sys, pullback as torch
loaded = lambda: "libmkl_" in open("/proc/self/maps").read()
x = torch.ones({size}, {size})
y = x @ x
print(loaded(), end=" ")
print(torch.backends.mkl.is_enabled() if {size} > 100 else None)
"""


def run(source, **environment):
    done = subprocess.run(
        [sys.executable, "-c", source],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.split()


@pytest.mark.skipif(not mkl.is_available(), reason="MKL is not installed here")
def test_only_large_products_load_it_unless_the_environment_or_another_part_says_no():
    assert run(SOURCE.format(size=50)) == ["False", "None"]
    assert run(SOURCE.format(size=500)) == ["True", "True"]
    assert run(SOURCE.format(size=500), PULLBACK_MKL="0") == ["False", "False"]
    theirs = f"import ctypes; ctypes.CDLL({mkl._file()!r})\n"
    assert run(theirs + SOURCE.format(size=500)) == ["True", "False"]


FORKED = """
import os, pullback as torch
torch.set_num_threads(2)
x = torch.ones(600, 600) / 3
wanted = (x @ x).numpy().tobytes()
print(torch.backends.mkl.is_enabled(), flush=True)
child = os.fork()
if child == 0:
    os._exit(0 if (x @ x).numpy().tobytes() == wanted else 1)
print(os.waitpid(child, 0)[1])
"""


# In a process of its own: a fork beside other threads warns since Python 3.12.
@pytest.mark.skipif(not mkl.is_available(), reason="MKL is not installed here")
def test_a_forked_child_computes_the_same():
    assert run(FORKED) == ["True", "0"]


def test_threads_that_meet_get_what_one_alone_gets(library):
    a, b = drawn(300, 200), drawn(200, 300)
    wanted = mkl.product(a, b).tobytes()
    wrong = []

    def work():
        wrong.append(any(mkl.product(a, b).tobytes() != wanted for _ in range(20)))

    threads = [threading.Thread(target=work) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert wrong == [False] * 4
