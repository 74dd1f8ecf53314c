"""Sums keep their digits: every operator that adds up, forwards or backwards, by every way to run.

The same call in float64 is the reference. docs/accuracy.md has the figures.
"""

import warnings

import numpy
import pytest

import pullback as torch
from pullback.operators.arrays import native
from pullback.operators.declare import OPERATORS
from pullback.testing import accuracy
from pullback.testing.accuracy_cases import BOUND, CASES, cases_of

EVERY = pytest.mark.parametrize("case", CASES, ids=[f"{one.group}-{one.name}" for one in CASES])


def check(case, elements, dtype="float32"):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = accuracy.errors(case, elements, dtype)
    assert max(found) <= case.bound, found


def compiled(case, backend):
    def call(library, *tensors):
        function = torch.compile(lambda *given: case.call(library, *given), backend=backend)
        return function(*tensors)

    return case._replace(call=call)


@pytest.fixture
def by_numpy():
    was = native.setting.on
    native.setting.on = False
    yield
    native.setting.on = was


# Eager ----------------------------------------------------------------------------------------


@EVERY
@pytest.mark.parametrize("elements", [1_000, 30_000])
def test_sums_keep_their_digits(case, elements):
    check(case, elements)


@EVERY
def test_sums_of_many_keep_their_digits(case):
    check(case, 500_000)


@EVERY
@pytest.mark.parametrize("elements", [1_000, 200_000])
@pytest.mark.usefixtures("by_numpy")
def test_sums_by_numpy_keep_their_digits(case, elements):
    check(case, elements)


@EVERY
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_sums_of_half_precision_keep_their_digits(case, dtype):
    check(case, 10_000, dtype)


@pytest.mark.parametrize("logits", [False, True])
def test_gradients_of_means_of_a_million_halves_keep_their_digits(logits):
    """One part in a million has four digits in float16, and they would be wrong for all alike."""
    functional = torch.nn.functional
    torch.manual_seed(0)
    x, t = (torch.rand(1_000_000) * 0.3 + 0.6).half(), torch.tensor(0.3).half()
    loss = functional.binary_cross_entropy
    if logits:
        x, loss = x * 20, functional.binary_cross_entropy_with_logits

    def gradient(dtype):
        target = t.to(dtype).requires_grad_()
        value = loss(x.to(dtype), target.expand(x.shape))
        assert value.dtype is dtype
        value.backward()
        return float(target.grad)

    exact = gradient(torch.float64)
    assert abs(gradient(torch.float16) - exact) < 2**-8 * abs(exact)


def test_sums_on_threads_keep_their_digits():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        for case in (*cases_of("norms"), *cases_of("losses")):
            check(case, 300_000)
    finally:
        torch.set_num_threads(before)


LONGEST = {
    "sum, over rows", "sum, all", "add, a row", "mul, a number", "mse_loss", "logsumexp, all",
    "layer_norm of everything", "batch_norm of rows",
}  # fmt: skip


@pytest.mark.parametrize(
    "case", [one for one in CASES if one.name in LONGEST], ids=lambda c: c.name
)
def test_sums_of_ten_million_keep_their_digits(case):
    check(case._replace(equal=case.equal and case.name.startswith(("sum", "add"))), 10_000_000)


# Compiled -------------------------------------------------------------------------------------

# An operator's way stands for others that broadcast the same way.
FEWER = [
    one for one in CASES
    if one.group != "broadcasting" or one.name.startswith(("mul", "where", "pow", "l", "c"))
]  # fmt: skip


@pytest.mark.parametrize("case", FEWER, ids=lambda case: case.name)
def test_compiled_sums_keep_their_digits(case):
    pytest.importorskip("llvmlite")
    check(compiled(case, "llvm"), 150_000)


@pytest.mark.parametrize("group", ["reductions", "norms", "losses"])
def test_sums_compiled_to_python_keep_their_digits(group):
    for case in cases_of(group)[::4]:
        check(compiled(case, "python"), 30_000)


def test_compiled_sums_on_threads_keep_their_digits(monkeypatch):
    pytest.importorskip("llvmlite")
    monkeypatch.setenv("PULLBACK_THREADS", "2")
    for name in ("sum, over rows", "sum, by channel", "add, a row", "layer_norm of rows"):
        case = next(one for one in CASES if one.name == name)
        check(compiled(case, "llvm"), 300_000)


def test_bits_of_sums_over_rows_do_not_depend_on_the_number_of_threads():
    x = torch.rand(3000, 40).requires_grad_()
    w, b = torch.rand(40, requires_grad=True), torch.rand(40, requires_grad=True)
    g = torch.rand(3000, 40)
    before, found = torch.get_num_threads(), []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            made = torch.autograd.grad(torch.nn.functional.layer_norm(x, (40,), w, b), (x, w, b), g)
            found.append([one.numpy() for one in made])
    finally:
        torch.set_num_threads(before)
    for other in found[1:]:
        for one, two in zip(found[0], other, strict=True):
            numpy.testing.assert_array_equal(one, two)


# All that broadcast -----------------------------------------------------------------------------


def pairs():
    """The declared operators of two tensors, element by element, with a gradient for the second."""
    for op in OPERATORS.values():
        if op.kind == "elementwise" and len(op.inputs) == 2 and len(op.rules) == 2:
            yield op


def gradient(op, shape, dtype, *, spread):
    """That of the second operand, a row or a row in all places; None where there is none."""
    rng = numpy.random.default_rng(0)
    x, y = (torch.from_numpy(0.3 + 0.5 * rng.random(one, "f")) for one in (shape, shape[1:]))
    g = torch.from_numpy(0.1 + rng.random(shape, "f")).to(dtype)
    x, y = x.to(dtype), y.to(dtype)
    y = (y.expand(shape).clone() if spread else y).requires_grad_()
    try:
        out = op.function(x, y)
    except (TypeError, RuntimeError, ValueError, NotImplementedError):
        return None
    refused = type(out.grad_fn).__name__ == "NotImplemented"
    if not out.requires_grad or out.shape != shape or out.is_complex() or refused:
        return None
    try:
        made = torch.autograd.grad(out, y, g, allow_unused=True)[0]
    except NotImplementedError:  # the derivative of a draw has none itself
        return None
    return None if made is None else made.double().numpy()


@pytest.mark.parametrize("op", list(pairs()), ids=lambda op: op.name)
def test_a_broadcast_operand_gets_a_gradient_that_is_as_exact_as_its_terms(op):
    shape = (20_000, 5)
    exact = gradient(op, shape, torch.float64, spread=False)
    made = gradient(op, shape, torch.float32, spread=False)
    if made is None or exact is None or not numpy.isfinite(exact).all():
        pytest.skip("has no gradient there")
    wide = gradient(op, shape, torch.float64, spread=True)
    terms = gradient(op, shape, torch.float32, spread=True)
    unit = 2.0**-23
    of_terms = abs(terms - wide).max() / unit
    size = abs(wide).sum(0).max()
    assert abs(made - exact).max() <= BOUND * unit * size + of_terms * unit * shape[0]


# The page -----------------------------------------------------------------------------------------


def test_the_page_has_a_row_for_every_operator_and_no_figure_beyond_its_bound():
    text = accuracy.PAGE.read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| ")]
    wanted = []
    for group in accuracy.GROUPS:
        assert f"\n## {group.capitalize()}\n" in text
        wanted.append(f"| {' | '.join(accuracy.COLUMNS)} |")
        wanted += accuracy.operators(group)
    found = []
    for row in rows:
        name, bound, *figures = [cell.strip() for cell in row.strip("|").split("|")]
        found.append(row if name == "operator" else name.strip("`"))
        if name != "operator":
            assert len(figures) == len(accuracy.COLUMNS) - 2
            assert all(float(one) <= float(bound) for one in figures)
    assert found == wanted, "run make accuracy"
