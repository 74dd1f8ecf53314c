"""Kernels of our own, in CUDA C: run on the host by a C++ compiler, on the device where one is.

The other tests of the stand-in go the ways that need no kernel; these go the kernels' own.
"""

import numpy
import pytest

import pullback as torch
from pullback.operators.cuda import found as finding
from pullback.testing.on_device import check
from tests.cuda import stand_in
from tests.cuda.conftest import needs_device
from tests.cuda.stand_in import kernels

F = torch.nn.functional
needs_compiler = pytest.mark.skipif(not kernels.HAS_COMPILER, reason="needs a C++ compiler")
HALVES = ("float16", "bfloat16")
DTYPES = ("float32", "float64", *HALVES)


@pytest.fixture(
    params=[
        pytest.param("stand-in", marks=needs_compiler),
        pytest.param("cuda", marks=needs_device),
    ],
    scope="module",
    autouse=True,
)
def library(request):
    if request.param == "cuda":
        assert finding.found()
        yield finding.found.library
        finding.forget()
        return
    from tests.cuda.stand_in.cublas import Cublas, CublasLt

    with stand_in.with_kernels():
        made = finding.use(stand_in.module, stand_in.cupyx, 1)
        made.blas._library, made.cudnn._asked = Cublas(), True
        made.biased.library = CublasLt(made.blas._library)
        yield made
        finding.forget()


@pytest.fixture
def ran(library):
    """The names of the kernels that run; None on a device, which tells nobody."""
    kernels.launches.clear()
    if library.cupy is stand_in.module:
        library.blas._library.calls.clear()
    return kernels.launches if library.cupy is stand_in.module else None


def tolerance(dtype):
    return {"float64": 1e-12, "float32": 2e-5, "float16": 4e-3, "bfloat16": 3e-2}[dtype]


def both(program, *arrays, dtype, backward=True):
    """The program on the host, in float64 from the same rounded inputs, and on the device."""
    results = []
    for device, kind in (("cpu", "float64"), ("cuda", dtype)):
        made = []
        for one in arrays:
            rounded = torch.tensor(one).to(getattr(torch, dtype)).to(getattr(torch, kind))
            made.append(rounded.to(device).requires_grad_(backward))
        out = program(*made)
        gradients = []
        if backward:
            torch.manual_seed(1)
            g = torch.randn(out.shape, dtype=torch.float64).to(getattr(torch, dtype))
            out.backward(g.to(getattr(torch, kind)).to(device))
            gradients = [one.grad for one in made]
        results.append([out.detach(), *gradients])
    for expected, found in zip(*results, strict=True):
        if expected is None:
            assert found is None
            continue
        assert str(found.dtype) == f"torch.{dtype}"
        scale = float(expected.abs().max()) or 1.0
        difference = float((found.cpu().double() - expected).abs().max())
        assert difference <= tolerance(dtype) * scale, (difference, scale)


def numbers(*shape, seed=0):
    return numpy.random.default_rng(seed).standard_normal(shape)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 33, 300, 1100, 2100])
def test_softmax_of_rows(ran, dtype, n):
    both(lambda x: x.softmax(-1), numbers(3, n) * 3, dtype=dtype)
    both(lambda x: x.log_softmax(-1), numbers(3, n) * 3, dtype=dtype)
    assert ran is None or {"pb_softmax", "pb_log_softmax_adjoint"} <= set(ran)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("rows", "n"), [(1, 5), (6, 32), (70, 100), (200, 40)])
def test_layer_norm_of_rows(ran, dtype, rows, n):
    def program(x, w, b):
        return F.layer_norm(x, (n,), w, b)

    both(program, numbers(rows, n), numbers(n, seed=1), numbers(n, seed=2), dtype=dtype)
    both(lambda x: F.layer_norm(x, (n,)), numbers(rows, n), dtype=dtype)
    assert ran is None or any(name.startswith("pb_norm") for name in ran)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
def test_cross_entropy_of_classes(ran, dtype, reduction):
    target = torch.tensor([0, 4, -100, 2, 2])

    def program(x):
        return F.cross_entropy(x, target.to(x.device), reduction=reduction)

    both(program, numbers(5, 5) * 4, dtype=dtype)
    assert ran is None or "pb_entropy_adjoint" in ran


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("rows", "n"), [(1, 7), (40, 300), (70, 16), (300, 24), (5, 1)])
def test_sums_down_columns(library, ran, monkeypatch, dtype, rows, n):
    """Of few rows in one launch, of very many in two; also beside a row that is added to all."""
    from pullback.operators.cuda import columns

    row = numbers(n, seed=1)
    both(lambda x, b: F.linear(x, torch.eye(n).to(x), b), numbers(rows, n), row, dtype=dtype)
    assert ran is None or sum(name.startswith("pb_down") for name in ran) == 1
    assert ran is None or "pb_shares" not in ran
    monkeypatch.setattr(columns, "_MANY", 16)
    monkeypatch.setattr(columns, "_SHARE", 9)
    both(lambda x, b: F.linear(x, torch.eye(n).to(x), b), numbers(rows, n), row, dtype=dtype)
    both(lambda x, w: F.layer_norm(x, (n,), w, w), numbers(rows, n), row, dtype=dtype)
    assert ran is None or ("pb_shares" in ran) == (rows > 16)


def test_sums_of_columns_that_begin_elsewhere(library):
    """Not at 16 bytes: element by element."""
    x = numbers(65)
    there = library.cupy.asarray(x)[1:].reshape(8, 8)
    assert numpy.allclose(library.rows.column_sums(there).get(), x[1:].reshape(8, 8).sum(0))
    row = library.cupy.asarray(x)[1:9]
    assert numpy.allclose(library.rows.add_row(there, row).get(), x[1:].reshape(8, 8) + x[1:9])


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
def test_cross_entropy_of_many_rows(ran, monkeypatch, dtype, reduction):
    """Losses and targets are then counted by launches of their own."""
    from pullback.operators.cuda import rows

    monkeypatch.setattr(rows, "_AT_ONCE", 16)
    monkeypatch.setattr(rows, "_COUNTED", 16)
    target = torch.arange(40) % 5
    target[3] = -100

    def program(x):
        return F.cross_entropy(x, target.to(x.device), reduction=reduction)

    both(program, numbers(40, 5) * 4, dtype=dtype)
    assert ran is None or ("pb_entropy_count" in ran) == (reduction == "mean")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(("queries", "keys"), [(5, 5), (3, 7), (40, 33)])
def test_attention(dtype, causal, queries, keys):
    def program(q, k, v):
        return F.scaled_dot_product_attention(q, k, v, is_causal=causal)

    q, k, v = numbers(2, 3, queries, 8), numbers(2, 3, keys, 8, seed=1), numbers(2, 3, keys, 4)
    both(program, q, k, v, dtype=dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_linear_layers_and_their_bias(dtype):
    def program(x, w, b):
        return F.linear(x, w, b)

    both(program, numbers(2, 70, 5), numbers(9, 5, seed=1), numbers(9, seed=2), dtype=dtype)
    both(program, numbers(3, 5), numbers(9, 5, seed=1), numbers(9, seed=2), dtype=dtype)


GEOMETRIES = [
    {},
    {"padding": 1},
    {"stride": 2, "padding": (1, 2)},
    {"stride": (3, 1), "dilation": (1, 2), "padding": 2},
    {"dilation": 2, "padding": 2},
    {"groups": 2},
    {"groups": 4, "padding": 1, "stride": 2},
]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("options", GEOMETRIES)
@pytest.mark.parametrize("many", [False, True])
def test_convolutions_of_images(ran, monkeypatch, dtype, options, many):
    """Few filters look windows up, many are multiplied with columns, some examples at a time."""
    from pullback.operators.cuda import filters
    from pullback.operators.cuda.overrides import convolutions

    if many:
        monkeypatch.setattr(filters, "_MOST_FILTERS", 0)
        monkeypatch.setattr(convolutions, "_MOST", 1 << 12)
    groups = options.get("groups", 1)
    weight = numbers(8, 4 // groups, 3, 3, seed=1)

    def program(x, w, b):
        return F.conv2d(x, w, b, **options)

    both(program, numbers(3, 4, 7, 6), weight, numbers(8, seed=2), dtype=dtype)
    if ran is None:
        return
    assert ("pb_columns" in ran) == many
    assert many or {"pb_filters", "pb_channel_sums"} <= set(ran)
    assert many or sum(name.startswith("pb_correlate") for name in ran) == 2


@pytest.mark.parametrize("options", GEOMETRIES)
def test_transposed_convolutions_of_images(ran, options):
    groups = options.get("groups", 1)
    weight = numbers(4, 6 // groups if groups < 4 else 1, 3, 3, seed=1)

    def program(x, w):
        return F.conv_transpose2d(x, w, **options)

    both(program, numbers(2, 4, 5, 6), weight, dtype="float64")
    assert ran is None or any(name.startswith("pb_correlate") for name in ran)


@pytest.mark.parametrize("outputs", [1, 9, 20, 64, 70])
def test_any_number_of_filters(ran, outputs):
    def program(x, w, b):
        return F.conv2d(x, w, b, padding=1)

    given = numbers(2, 7, 9, 10), numbers(outputs, 7, 2, 3, seed=1), numbers(outputs, seed=2)
    both(program, *given, dtype="float32")


def test_sums_of_large_channels_are_shared_out(library, ran, monkeypatch):
    from pullback.operators.cuda import filters

    monkeypatch.setattr(filters, "_SUMMED", 100)
    x = numbers(3, 5, 9, 13)
    found = library.filters.channel_sums(library.cupy.asarray(x)).get()
    assert numpy.allclose(found, x.sum((0, 2, 3)))
    assert ran is None or ran == ["pb_channel_sums", "pb_fold"]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("options", [{}, {"stride": 1}, {"padding": 1}, {"dilation": 2}])
def test_maxima_of_windows(ran, dtype, options):
    both(lambda x: F.max_pool2d(x, 2, **options), numbers(2, 3, 7, 6), dtype=dtype)
    assert ran is None or {"pb_maxima", "pb_put"} <= set(ran)
    both(lambda x: F.max_pool2d(x, 2, **options), numbers(5, 13, 7, 6), dtype=dtype)
    assert ran is None or "pb_put_whole" in ran


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", ["gelu", "silu", "relu", "sigmoid", "tanh", "softplus"])
def test_activations(dtype, name):
    function = getattr(F, name, None) or getattr(torch, name)
    both(function, numbers(4, 33) * 3, dtype=dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_rules_of_several_steps_are_one_kernel(ran, dtype):
    a, b = numbers(5, 7), numbers(5, 7, seed=1)
    both(lambda x, y: x * y, a, b, dtype=dtype)
    both(lambda x, y: x / (y * y + 1), a, b, dtype=dtype)
    both(lambda x, y: torch.atan2(x, y) + torch.exp(-x * x) * torch.sin(y), a, b, dtype=dtype)
    assert ran is None or "fused" in ran


@pytest.mark.parametrize("dtype", DTYPES)
def test_large_arrays_are_taken_16_bytes_at_a_time(monkeypatch, library, dtype):
    """Also those that begin or end elsewhere, by the kernel that takes single elements."""
    from pullback.operators.cuda import fused, launch

    monkeypatch.setattr(fused, "_LARGE", 8)
    wide = []
    own = launch.Kernel.over

    def over(self, blocks, threads, values):
        wide.append(blocks * threads < values[-1])
        own(self, blocks, threads, values)

    monkeypatch.setattr(fused, "_BLOCK", 32)
    monkeypatch.setattr(launch.Kernel, "over", over)
    a, b = numbers(4, 520), numbers(4, 520, seed=1)
    both(lambda x, y: torch.tanh(x) * y + x, a, b, dtype=dtype)
    both(lambda x: x * 3.0, a, dtype=dtype)
    assert all(wide)
    wide.clear()
    both(lambda x, y: x * y, numbers(3, 7), numbers(3, 7, seed=1), dtype=dtype)
    assert not any(wide)
    wide.clear()
    x = torch.tensor(numbers(33)).to(getattr(torch, dtype))
    shifted = x.cuda()[1:]
    assert torch.allclose((shifted * shifted).cpu(), x[1:] * x[1:], rtol=1e-2)
    assert wide == [False]


@pytest.mark.parametrize("turned", ["", "a", "b", "ab"])
@pytest.mark.parametrize("shape", [(3, 4, 5), (1, 1, 1), (1, 6, 1), (5, 1, 3)])
@pytest.mark.parametrize("batch", [(), (2,), (2, 3)])
def test_products_of_strided_matrices(turned, shape, batch):
    m, k, n = shape
    a = numbers(*batch, k, m).swapaxes(-1, -2) if "a" in turned else numbers(*batch, m, k)
    b = numbers(*batch, n, k).swapaxes(-1, -2) if "b" in turned else numbers(*batch, k, n)

    def program(x, y):
        x = x.mT.contiguous().mT if "a" in turned else x
        y = y.mT.contiguous().mT if "b" in turned else y
        return x @ y

    both(program, a, b, dtype="float64")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("length", "width"), [(5, 4), (40, 8), (33, 35)])
def test_products_of_heads_are_one_launch(library, ran, dtype, length, width):
    """Query, key and value as views of one array, as a transformer has them."""

    def program(x):
        q, k, v = x.view(2, length, 3, 3, width).permute(2, 0, 3, 1, 4).unbind(0)
        weights = q @ k.mT
        return (weights @ v).transpose(1, 2).reshape(2, length, 3 * width)

    both(program, numbers(2, length, 9 * width) / width, dtype=dtype)
    assert ran is None or ran.count("pb_product") == 6
    assert ran is None or not library.blas._library.calls


def test_heads_of_many_dimensions_or_sizes_go_to_cublas(library, monkeypatch):
    from pullback.operators.cuda import strided

    x = numbers(2, 2, 2, 2, 3, 4).transpose(3, 0, 2, 1, 4, 5)  # no two dimensions can be joined
    y = numpy.swapaxes(numbers(2, 2, 2, 2, 5, 4, seed=1), -1, -2)
    one, other = library.cupy.asarray(numbers(2, 2, 2, 2, 3, 4)), library.cupy.asarray(y)
    turned = one.transpose(3, 0, 2, 1, 4, 5)
    assert numpy.allclose(library.blas.matmul(turned, other).get(), x @ y)
    monkeypatch.setattr(strided, "_MOST", 1)
    both(
        lambda a, b: a.transpose(0, 1) @ b,
        numbers(3, 2, 4, 5),
        numbers(2, 3, 5, 4),
        dtype="float32",
    )


@pytest.mark.parametrize("shapes", [((3, 4), (4, 5)), ((2, 3, 4), (4, 5)), ((2, 3, 4), (2, 4, 5))])
@pytest.mark.parametrize("k", [4, 0])
def test_products_are_written_where_they_are_wanted(library, shapes, k):
    first, second = ((*shapes[0][:-1], k), (*shapes[1][:-2], k, shapes[1][-1]))
    a, b = numbers(*first), numbers(*second, seed=1)
    there = [library.cupy.asarray(one) for one in (a, b)]
    out = library.cupy.asarray(numpy.full((a @ b).shape, 7.0))
    assert library.blas.matmul(*there, out) is out
    assert numpy.allclose(out.get(), a @ b)
    turned = library.cupy.asarray(numpy.zeros((a @ b).T.shape)).T
    assert library.blas.matmul(*there, turned) is turned
    assert numpy.allclose(turned.get(), a @ b)
    with pytest.raises(ValueError, match="does not fit"):
        library.blas.matmul(*there, library.cupy.asarray(numpy.zeros((2, 2))))


def test_a_product_may_go_where_an_operand_is(library):
    a = numbers(3, 3)
    there = library.cupy.asarray(a)
    library.blas.matmul(there, there, there)
    assert numpy.allclose(there.get(), a @ a)


@pytest.mark.parametrize("name", ["softmax", "log_softmax", "nn.functional.layer_norm", "mul"])
def test_samples_go_the_kernels_way_too(name):
    outcome = check(name, torch.float32, most=4)
    assert outcome.forward
    assert not outcome.failures


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [1, 6, 1031])
def test_random_numbers_are_those_of_array_operations(library, ran, dtype, size):
    from pullback.operators.cuda.philox import Philox

    kind = getattr(torch, dtype).numpy
    plain = Philox(library.cupy)
    plain._raw = None
    moved = library.cupy.asarray(numpy.array(3, numpy.uint64))
    for place in ((1 << 63 | 5, (1 << 32) - 1, None), (7, 0, moved)):
        for name, numbers in {
            "uniform": (-2.0, 3.0),
            "normal": (0.5, 2.0),
            "tosses": (0.3,),
        }.items():
            made = [library.cupy.ndarray((size,), kind) for _ in range(2)]
            for philox, one in zip((library.philox, plain), made, strict=True):
                getattr(philox, name)(one, place, *numbers)
            one, other = (x.get().astype(numpy.float64) for x in made)
            tight = 0 if name == "tosses" else 1e-2 if dtype in HALVES else 1e-5
            assert numpy.allclose(one, other, rtol=tight, atol=tight)
    assert ran is None or {"uniform", "normal", "tosses"} <= set(ran)


@pytest.mark.parametrize("dtype", ["int64", "int32", "uint8", "float32", "float16", "bool"])
@pytest.mark.parametrize(("low", "count"), [(0, 7), (-5, 9), (0, 1 << 40), (0, 0)])
def test_random_integers_are_those_of_array_operations(library, dtype, low, count):
    from pullback.operators.cuda.philox import Philox

    if dtype not in ("int64", "int32") and (low, count) != (0, 7):
        return
    plain = Philox(library.cupy)
    plain._raw = None
    made = [library.cupy.ndarray((37,), getattr(torch, dtype).numpy) for _ in range(2)]
    for philox, one in zip((library.philox, plain), made, strict=True):
        philox.integers(one, (9, 4, None), low, count)
    assert numpy.array_equal(made[0].get(), made[1].get())


LONG = {
    "sum": lambda x: x.sum(-1),
    "mean": lambda x: x.mean(-1),
    "sum of all": lambda x: x.sum(),
    "matmul": lambda x: x @ x.mT,
    "linear": lambda x: F.linear(x, x[:1]),
    "heads": lambda x: x.view(4, 2, -1).transpose(0, 1) @ x.view(4, 2, -1).permute(1, 2, 0),
    "var": lambda x: x.var(-1),
    "norm": lambda x: x.norm(dim=-1),
    "logsumexp": lambda x: x.logsumexp(-1),
    "softmax": lambda x: x.softmax(-1),
    "conv1d": lambda x: F.conv1d(x[None], x[None, :, :2000]),
    "avg_pool1d": lambda x: F.avg_pool1d(x, 1000),
    "cross_entropy": lambda x: F.cross_entropy(x, torch.zeros(4, dtype=torch.int64).to(x.device)),
    "mse_loss": lambda x: F.mse_loss(x, x * 0.5),
    "group_norm": lambda x: F.group_norm(x[None], 2),
    "cumsum": lambda x: x.cumsum(-1)[..., ::100],
}


@pytest.mark.parametrize("dtype", HALVES)
@pytest.mark.parametrize("name", LONG)
def test_long_sums_of_half_precision_are_made_in_single(dtype, name):
    """3,000 numbers of one size: sums in half precision would stop growing at 2,048 or at 256."""
    x = numpy.full((4, 3000), 0.75)
    x[:, ::7] = 1.0
    both(LONG[name], x, dtype=dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(8, 16), (2, 3, 16), (1, 16), (4, 1, 16)])
@pytest.mark.parametrize("turned", [False, True])
def test_a_bias_is_added_by_the_product(library, ran, dtype, shape, turned):
    def program(x, w, b):
        return torch.nn.functional.linear(x, w.mT.contiguous().mT if turned else w, b)

    both(program, numbers(*shape), numbers(24, 16, seed=1), numbers(24, seed=2), dtype=dtype)
    if ran is not None and dtype != "float64":
        assert "gemm with bias" in library.blas._library.calls
        assert "pb_add_row" not in ran


def test_rows_that_are_not_aligned_are_added_afterwards(library):
    x, w, b = (torch.tensor(numbers(*shape)).cuda() for shape in ((6, 16), (24, 16), (25,)))
    found = torch.nn.functional.linear(x, w, b[1:])
    assert torch.allclose(found.cpu(), x.cpu() @ w.cpu().T + b.cpu()[1:], rtol=1e-4, atol=1e-5)


UPDATES = [
    ("SGD", {}),
    ("SGD", {"momentum": 0.9, "dampening": 0.1, "weight_decay": 0.1}),
    ("SGD", {"momentum": 0.9, "nesterov": True, "maximize": True}),
    ("Adam", {}),
    ("Adam", {"amsgrad": True, "weight_decay": 0.1, "betas": (0.5, 0.7)}),
    ("Adam", {"capturable": True, "maximize": True, "eps": 0.1}),
    ("AdamW", {"weight_decay": 0.2}),
    ("AdamW", {"capturable": True, "amsgrad": True}),
]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("name", "options"), UPDATES)
def test_steps_of_optimizers_are_a_launch_each(ran, monkeypatch, name, options, dtype):
    from pullback.operators.cuda import updates

    monkeypatch.setattr(updates, "_MOST_BLOCKS", 2)  # a thread has several elements
    results = []
    for device in ("cpu", "cuda"):
        torch.manual_seed(0)
        params = [torch.randn(n, dtype=getattr(torch, dtype)) for n in (1, 700, 3000)]
        params = [one.to(device).requires_grad_() for one in params]
        chosen = {k: v for k, v in options.items() if device == "cuda" or k != "capturable"}
        optimizer = getattr(torch.optim, name)(params, lr=0.05, **chosen)
        for _ in range(4):
            for p in params:
                p.grad = (p * 3 - 1).detach()
            optimizer.step()
        held = [one for p in params for one in optimizer.state[p].values()]
        results.append([one.detach().cpu() for one in (*params, *held)])
    for expected, found in zip(*results, strict=True):
        assert torch.allclose(found, expected, rtol=tolerance(dtype), atol=tolerance(dtype))
    if ran is not None:
        made = ran.count("pb_sgd" if name == "SGD" else "pb_adam")
        assert made == (9 if options.get("momentum") else 12)  # the first makes the buffer


def test_a_parameter_that_is_not_in_order_is_stepped_by_the_rule(ran):
    p = torch.ones(4, 6, device="cuda").t().requires_grad_()
    optimizer = torch.optim.AdamW([p], lr=0.1)
    p.grad = torch.ones(4, 6, device="cuda").t()
    optimizer.step()
    assert p.detach().cpu().sub(0.899).abs().max() < 1e-5
    assert not ran or "pb_adam" not in ran


def test_a_graph_that_was_recorded_before_a_step_notices_it():
    p = torch.ones(3, device="cuda", requires_grad=True)
    loss = (p * p).sum()
    p.grad = torch.ones(3, device="cuda")
    torch.optim.SGD([p], lr=0.1).step()
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
@pytest.mark.parametrize("options", [{}, {"bidirectional": True, "num_layers": 2}, {"bias": False},
                                     {"batch_first": True}])  # fmt: skip
@pytest.mark.parametrize("uses", ["all", "out", "state"])
def test_recurrent_layers_are_two_launches_a_time(ran, kind, options, uses):
    results = []
    for device in ("cpu", "cuda"):
        torch.manual_seed(0)
        layer = getattr(torch.nn, kind)(5, 6, dtype=torch.float64, **options)
        x = torch.randn(4, 3, 5, dtype=torch.float64)
        layer, x = layer.to(device), x.to(device).requires_grad_()
        out, states = layer(x)
        states = states if kind == "LSTM" else (states,)
        used = {"all": (out, *states), "out": (out,), "state": states[-1:]}[uses]
        sum((one * (n + 1)).sin().sum() for n, one in enumerate(used)).backward()
        held = (x.grad, *(p.grad for p in layer.parameters()))
        results.append([one.detach().cpu() for one in (out, *states, *held)])
    for expected, found in zip(*results, strict=True):
        assert torch.allclose(found, expected, rtol=1e-10, atol=1e-12)
    if ran is not None:
        times = 3 if options.get("batch_first") else 4
        times *= 4 if options.get("bidirectional") else 1
        assert ran.count(f"pb_{kind.lower()}") == times
        if uses != "state" or not options.get("bidirectional"):
            assert ran.count(f"pb_{kind.lower()}_back") == times


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_recurrent_layers_start_from_states_and_lead_gradients_there(kind):
    results = []
    for device in ("cpu", "cuda"):
        torch.manual_seed(0)
        layer = getattr(torch.nn, kind)(5, 6, dtype=torch.float64)
        x = torch.randn(4, 3, 5, dtype=torch.float64)
        first = [torch.randn(1, 3, 6, dtype=torch.float64) for _ in range(2)]
        layer, x = layer.to(device), x.to(device)
        first = [one.to(device).requires_grad_() for one in first]
        out, states = layer(x, tuple(first) if kind == "LSTM" else first[0])
        (out.sum() + sum(one.square().sum() for one in states)).backward()
        held = [one.grad for one in first if one.grad is not None]
        results.append([one.detach().cpu() for one in (out, *held)])
    for expected, found in zip(*results, strict=True):
        assert torch.allclose(found, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_recurrent_layers_have_derivatives_of_derivatives(kind):
    results = []
    for device in ("cpu", "cuda"):
        torch.manual_seed(0)
        layer = getattr(torch.nn, kind)(3, 4, dtype=torch.float64).to(device)
        x = torch.randn(3, 2, 3, dtype=torch.float64).to(device).requires_grad_()
        (slope,) = torch.autograd.grad(layer(x)[0].sin().sum(), x, create_graph=True)
        slope.square().sum().backward()
        results.append([one.cpu() for one in (x.grad, layer.weight_hh_l0.grad)])
    for expected, found in zip(*results, strict=True):
        assert torch.allclose(found, expected, rtol=1e-10, atol=1e-12)
