"""Every formula gives what NumPy's way gives, and is what large tensors are really computed by."""

import numpy
import pytest

import pullback as torch
from pullback.compiled.eager.formulas import FORMULAS
from pullback.operators.arrays import native

pytest.importorskip("llvmlite")
F = torch.nn.functional


@pytest.fixture(autouse=True)
def afresh():
    native.forget()  # the kernels of other tests, of which there may be as many as there can be


def drawn(*shape, dtype=torch.float32, grad=True):
    values = numpy.random.default_rng(len(shape) + sum(shape[:1])).standard_normal(shape)
    return torch.tensor(values, dtype=dtype, requires_grad=grad)


def results(program, leaves, g):
    out = program(*leaves)
    out = out if isinstance(out, tuple) else (out,)
    grads = torch.autograd.grad(out, leaves, [g(one) for one in out])
    return [one.detach().numpy() for one in (*out, *grads)]


def weights_for(out):
    return drawn(*out.shape, dtype=out.dtype, grad=False)


def used(monkeypatch):
    """The formulas that gave results from now on."""
    found = set()
    run, make = native.by_machine_code, native.kernel_of

    def noting(formula, arrays, *options):
        made = run(formula, arrays, *options)
        found.update([getattr(formula, "name", formula)] if made is not None else [])
        return made

    def noting_kernels(formula, arrays, *options):
        kernel = make(formula, arrays, *options)
        found.update([getattr(formula, "name", formula)] if kernel is not None else [])
        return kernel

    import sys

    for module in list(sys.modules.values()):
        if getattr(module, "__name__", "").startswith("pullback.") and module is not native:
            if getattr(module, "by_machine_code", None) is run:
                monkeypatch.setattr(module, "by_machine_code", noting)
            if getattr(module, "kernel_of", None) is make:
                monkeypatch.setattr(module, "kernel_of", noting_kernels)
    return found


def heads(x):
    return x.reshape(4, 32, 4, -1).transpose(1, 2)


def attention(causal):
    def program(x):
        query, key, value = (heads(one) for one in x.chunk(3, -1))
        return F.scaled_dot_product_attention(query, key, value, is_causal=causal)

    return program


def lstm(x, *weights):
    layer = torch.nn.LSTM(8, 16)
    made = torch.func.functional_call(layer, dict(zip(LSTM_NAMES, weights, strict=True)), (x,))
    return made[0], made[1][0], made[1][1]


LSTM_NAMES = ["weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"]
LSTM_LEAVES = [(6, 16, 8), (64, 8), (64, 16), (64,), (64,)]

# name -> program, shapes of its leaves, formulas it must use
PROGRAMS = {
    "gelu": (F.gelu, [(33, 128)], {"nn.functional.gelu", "_gelu_backward"}),
    "gelu by tanh": (
        lambda x: F.gelu(x, approximate="tanh"),
        [(3, 5, 151)],
        {"nn.functional.gelu", "_gelu_backward"},
    ),
    "silu": (F.silu, [(2, 2048)], {"silu_kernel", "_silu_kernel_backward"}),
    "sigmoid": (torch.sigmoid, [(4099,)], {"sigmoid", "_sigmoid_backward"}),
    "tanh": (torch.tanh, [(1, 4098)], {"_tanh_backward"}),
    "erf": (torch.erf, [(64, 64)], {"erf"}),
    "softmax": (lambda x: x.softmax(-1), [(70, 31)], {"softmax", "_softmax_adjoint"}),
    "log_softmax": (
        lambda x: x.log_softmax(1),
        [(70, 31)],
        {"log_softmax", "_log_softmax_adjoint"},
    ),
    "layer norm": (
        lambda x, w, b: F.layer_norm(x, (65,), w, b),
        [(5, 11, 65), (65,), (65,)],
        {"standardised_rows", "gradients_of_rows"},
    ),
    "layer norm of two dimensions": (
        lambda x, w, b: F.layer_norm(x, (8, 8), w, b),
        [(64, 8, 8), (8, 8), (8, 8)],
        {"standardised_rows", "gradients_of_rows"},
    ),
    "layer norm without weights": (
        lambda x: F.layer_norm(x, (33,)),
        [(77, 33)],
        {"standardised_rows", "gradients_of_rows"},
    ),
    "layer norm without a bias": (
        lambda x, w: F.layer_norm(x, (64,), w),
        [(64, 64), (64,)],
        {"standardised_rows", "gradients_of_rows"},
    ),
    "RMS norm": (
        lambda x, w: F.rms_norm(x, (64,), w),
        [(64, 64), (64,)],
        {"standardised_rows", "gradients_of_rows"},
    ),
    "group norm": (
        lambda x, w, b: F.group_norm(x, 4, w, b),
        [(8, 8, 8, 8), (8,), (8,)],
        {"sums_of_runs", "scaled_runs", "combined_runs"},
    ),
    "instance norm": (
        lambda x: F.instance_norm(x),
        [(5, 3, 12, 13)],
        {"standardised_rows", "gradients_of_rows"},
    ),
    "batch norm without weights": (
        lambda x: F.batch_norm(x, None, None, training=True),
        [(8, 4, 9, 11)],
        {"sums_of_runs", "scaled_runs", "combined_runs"},
    ),
    "batch norm": (
        lambda x, w, b: F.batch_norm(x, w.detach() * 0, w.detach() * 0, w, b, training=True),
        [(8, 8, 8, 8), (8,), (8,)],  # equal sizes: nothing may be told apart by its length
        {"channel_statistics", "standardised_channels", "gradients_of_channels"},
    ),
    "mm": (torch.mm, [(64, 96), (96, 40)], {"dot"}),
    "mm of equal sizes, turned": (lambda x, y: x.t() @ y.t(), [(64, 64), (64, 64)], {"dot"}),
    "bmm": (torch.bmm, [(5, 32, 48), (5, 48, 33)], {"dot"}),
    "matmul by a matrix": (torch.matmul, [(4, 16, 64), (64, 48)], {"dot"}),
    "addmm": (torch.addmm, [(48,), (64, 64), (64, 48)], {"dot"}),
    "linear": (F.linear, [(33, 80), (64, 80), (64,)], {"linear", "dot"}),
    "linear without a bias": (F.linear, [(33, 80), (64, 80)], {"dot"}),
    "linear of few columns": (F.linear, [(128, 256), (10, 256), (10,)], {"linear", "dot"}),
    "attention": (attention(False), [(4, 32, 192)], {"_attention_weights", "mixed_heads"}),
    "causal attention": (attention(True), [(4, 32, 192)], {"_attention_weights", "mixed_heads"}),
    "conv2d": (
        lambda x, w, b: F.conv2d(x, w, b, padding=1),
        [(4, 8, 14, 14), (16, 8, 3, 3), (16,)],
        {"convolution", "convolution_input", "convolution_weight"},
    ),
    "max_pool2d": (
        lambda x: F.max_pool2d(x, 2),
        [(8, 8, 14, 14)],
        {"max_pool", "put_places"},
    ),
    "avg_pool2d": (
        lambda x: F.avg_pool2d(x, 2),
        [(8, 16, 15, 14)],
        {"average_pool", "spread_average"},
    ),
    "linear of rows of rows": (F.linear, [(4, 32, 80), (64, 80), (64,)], {"linear", "dot"}),
    "cross entropy": (
        lambda x: F.cross_entropy(x, torch.arange(70) % 31),
        [(70, 31)],
        {"class_losses", "class_slopes"},
    ),
    "cross entropy, added up": (
        lambda x: F.cross_entropy(40 * x.t(), torch.arange(70) % 31, reduction="sum"),
        [(31, 70)],
        {"class_losses", "class_slopes"},
    ),
    "cross entropy of each": (
        lambda x: F.cross_entropy(x, torch.arange(64) % 3, reduction="none"),
        [(64, 64)],
        {"class_losses"},
    ),
    "LSTM": (lstm, LSTM_LEAVES, {"lstm_step", "lstm_step_back", "recurrent_weights"}),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=["single", "double"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_machine_code_gives_what_numpy_gives(name, dtype, monkeypatch):
    program, shapes, formulas = PROGRAMS[name]
    leaves = [drawn(*shape, dtype=dtype) for shape in shapes]
    with torch.backends.native.flags(enabled=False):
        wanted = results(program, leaves, weights_for)
    seen = used(monkeypatch)
    found = results(program, leaves, weights_for)
    assert formulas <= seen
    tolerance = 2e-5 if dtype == torch.float32 else 1e-12
    for one, other in zip(found, wanted, strict=True):
        assert one.shape == other.shape
        numpy.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance * 10)


def test_every_formula_is_used_by_a_program():
    named = set().union(*(formulas for _, _, formulas in PROGRAMS.values()))
    assert set(FORMULAS) <= named | {"adam"}


@pytest.mark.parametrize("strides", ["turned", "every other", "repeated", "backwards"])
def test_arrays_that_lie_otherwise_in_memory_are_read_right(strides):
    x = drawn(96, 96, grad=False)
    x = {
        "turned": x.t(),
        "every other": drawn(192, 192, grad=False)[::2, ::2],
        "repeated": drawn(1, 96, grad=False).expand(96, 96),
        "backwards": x.flip(0).t(),
    }[strides]
    y = drawn(96, 64, grad=False)
    made = [F.gelu(x), x.softmax(-1), x @ y, F.layer_norm(x, (96,), y[:, 0], y[:, 1])]
    with torch.backends.native.flags(enabled=False):
        wanted = [F.gelu(x), x.softmax(-1), x @ y, F.layer_norm(x, (96,), y[:, 0], y[:, 1])]
    for one, other in zip(made, wanted, strict=True):
        assert one.stride() == other.stride()
        numpy.testing.assert_allclose(one.numpy(), other.numpy(), rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize(
    "options",
    [{}, {"weight_decay": 0.1}, {"maximize": True}, {"weight_decay": 0.1, "maximize": True}],
    ids=str,
)
@pytest.mark.parametrize("kind", ["Adam", "AdamW"])
def test_steps_of_adam_are_those_of_numpy(kind, options, monkeypatch):
    def stepped():
        p = drawn(4999)
        optimizer = getattr(torch.optim, kind)([p], lr=0.01, **options)
        for number in range(4):
            p.grad = drawn(4999, grad=False) * (number - 1.5)
            optimizer.step()
        return p.detach().numpy()

    with torch.backends.native.flags(enabled=False):
        wanted = stepped()
    seen = used(monkeypatch)
    numpy.testing.assert_allclose(stepped(), wanted, rtol=1e-5, atol=1e-6)
    assert seen == {"adam"}


def test_an_lstm_kept_by_machine_code_goes_back_by_numpy():
    leaves = [drawn(*shape) for shape in LSTM_LEAVES]
    outs = lstm(*leaves)
    grads = [weights_for(one) for one in outs]
    wanted = torch.autograd.grad(outs, leaves, grads, retain_graph=True)
    with torch.backends.native.flags(enabled=False):
        found = torch.autograd.grad(outs, leaves, grads)
    for one, other in zip(found, wanted, strict=True):
        numpy.testing.assert_allclose(one.numpy(), other.numpy(), rtol=1e-4, atol=1e-5)


def test_variances_keep_their_digits_where_means_are_large():
    x = drawn(16, 4, 16, 16, grad=False) + 10_000
    made = F.batch_norm(x, torch.zeros(4), torch.ones(4), torch.ones(4), torch.zeros(4), True)
    exact = x.double()
    unit = (exact - exact.mean((0, 2, 3), True)) / exact.var((0, 2, 3), False, keepdim=True).sqrt()
    assert (made - unit).abs().max() < 5e-3  # the elements themselves have no more digits


def test_a_product_is_as_quick_whatever_the_stack_held():
    # Columns beyond the last are multiplied too: left-over numbers that are tiny took 80 times.
    from time import perf_counter

    def least(function):
        times = []
        for _ in range(20):
            begin = perf_counter()
            function()
            times.append(perf_counter() - begin)
        return min(times)

    x, narrow, wide = (drawn(*shape, grad=False) for shape in ((128, 256), (256, 10), (256, 16)))
    x @ narrow, x @ wide
    assert least(lambda: x @ narrow) < 10 * least(lambda: x @ wide)
