"""Compiled programs of a device give what eager gives on the host, their kernels emulated."""

import numpy
import pytest

import pullback as torch
from pullback.compiled.counting import counters
from pullback.nn import functional
from tests.cuda.stand_in import kernels


def tensors(shapes, seed=0, dtype=torch.float32):
    rng = numpy.random.default_rng(seed)
    return [torch.tensor(rng.normal(size=shape), dtype=dtype) for shape in shapes]


def gradients(function, given, device, compiled):
    leaves = [one.to(device).requires_grad_(one.is_floating_point()) for one in given]
    run = torch.compile(function, fullgraph=True) if compiled else function
    made = run(*leaves)
    listed = made if isinstance(made, tuple) else (made,)
    weights = tensors([tuple(one.shape) for one in listed], seed=9, dtype=listed[0].dtype)
    total = sum((one * w.to(device)).sum() for one, w in zip(listed, weights, strict=True))
    total.backward()
    return [one.detach().cpu() for one in listed], [
        None if one.grad is None else one.grad.cpu() for one in leaves
    ]


def assert_as_eager(function, given, tolerance=2e-5):
    kernels.launches.clear()
    found = gradients(function, given, "cuda", compiled=True)
    wanted = gradients(function, given, "cpu", compiled=False)
    for ours, theirs in zip([*found[0], *found[1]], [*wanted[0], *wanted[1]], strict=True):
        if theirs is None:
            assert ours is None
            continue
        assert ours.shape == theirs.shape
        assert ours.dtype is theirs.dtype
        scale = max(float(theirs.abs().max()), 1.0) if theirs.numel() else 1.0
        numpy.testing.assert_allclose(
            ours.numpy(), theirs.numpy(), rtol=tolerance, atol=tolerance * scale
        )
    assert kernels.launches


WORKS = {
    "chain": (lambda x: (x.sin() * x.exp() + x.tanh()).sigmoid(), [(37,)]),
    "a number": (lambda x: (x * x).sum(), [()]),
    "broadcast": (lambda x, y, z: x * y + z.exp(), [(4, 5, 6), (5, 1), (6,)]),
    "transposed": (lambda x, y: x.mT * y + x.mT.sum(), [(4, 6), (6, 4)]),
    "softmax of short rows": (lambda x: x.softmax(-1), [(33, 9)]),
    "softmax of rows for a warp": (lambda x: x.softmax(-1), [(7, 100)]),
    "softmax of rows for a block": (lambda x: x.softmax(-1), [(3, 1500)]),
    "softmax of a long row": (lambda x: x.softmax(-1), [(2, 20000)]),
    "sum of a long row": (lambda x: (x.sin() * x).sum(), [(30000,)]),
    "sums in columns": (lambda x, b: ((x + b).tanh() ** 2).mean(), [(40, 700), (700,)]),
    "sums in long columns": (lambda x, b: (x + b).tanh() ** 2, [(3, 9000), (9000,)]),
    "sums that keep rows": (lambda x, b: (x * b).exp(), [(5, 3, 4, 6), (4, 6)]),
    "sums that keep some rows": (lambda x, b: (x * b).sin(), [(5, 3, 4, 600), (3, 1, 600)]),
    "largest": (lambda x: x.amax(1) + x.max(), [(6, 50)]),
    "variance": (lambda x: (x - x.mean(0)) / (x.var(0) + 1e-3).sqrt(), [(20, 30)]),
    "parts": (lambda x: torch.cat([x[:3] * 2, x[5:], x[1:2]], 0), [(9, 4)]),
    "slices added up": (lambda x: sum(x[i : i + 3] * i for i in range(5)), [(8,)]),
    "products": (lambda x, w, v: (x @ w).relu() @ v, [(9, 8), (8, 7), (7, 2)]),
    "batched products": (lambda x, y: (x @ y.mT).softmax(-1) @ y, [(2, 3, 5, 4), (2, 3, 6, 4)]),
    "kernels between": (lambda x: (x * 2).cumsum(0).sin().sort(1)[0] * x, [(6, 5)]),
    "two results": (lambda x: (x.sin(), x.cos().sum()), [(6, 5)]),
    "powers": (lambda x: x**3 + (x * x + 1) ** -2 + x**7, [(11,)]),
}


@pytest.mark.parametrize("name", WORKS)
def test_programs_are_as_eager(name):
    function, shapes = WORKS[name]
    assert_as_eager(function, tensors(shapes))


@pytest.mark.parametrize("shapes", [[(3000,)], [(7, 411), (411,)], [(5, 7, 90), (7, 1), (90,)]])
def test_of_many_elements_a_thread_reads_several_beforehand(monkeypatch, texts, shapes):
    monkeypatch.setattr("pullback.compiled.cuda.group._MANY", 512)

    def function(x, *others):
        for one in others:
            x = x * one + one.sin()
        return x.sin() * (-x * x).exp() + x.cos()

    assert_as_eager(function, tensors(shapes))
    assert any("s[k] = b0[" in one for one in texts)
    assert any("sincosf(" in one for one in texts)


def test_sine_and_cosine_of_double_precision():
    assert_as_eager(lambda x: x.cos() * x.sin(), tensors([(6, 5)], dtype=torch.float64), 1e-12)


@pytest.mark.parametrize("shape", [(12, 40), (3, 600)])
def test_layer_norm_with_its_parameters(shape):
    function = lambda x, w, b: functional.gelu(functional.layer_norm(x, shape[1:], w, b))  # noqa: E731 (one line)
    assert_as_eager(function, tensors([shape, shape[1:], shape[1:]]), 1e-4)


def test_double_precision():
    given = tensors([(20, 300), (300,)], dtype=torch.float64)
    assert_as_eager(lambda x, b: (x * b).log_softmax(-1).exp().erf(), given, 1e-12)


def test_a_loss_of_class_indices():
    target = torch.tensor([1, 0, 4, 2, -100, 3])
    function = lambda x, t: functional.cross_entropy(x * 2, t)  # noqa: E731 (one line)
    (x,) = tensors([(6, 5)])
    assert_as_eager(function, [x, target])


def test_truth_values_and_whole_numbers():
    function = lambda x, n: torch.where((x > 0) & (n != 2), x * n, -x)  # noqa: E731 (one line)
    (x,) = tensors([(4, 6)])
    assert_as_eager(function, [x, torch.arange(24).reshape(4, 6) % 5])


def test_nan_is_the_largest():
    x = torch.tensor([[1.0, float("nan"), 2.0], [float("-inf"), -1.0, -2.0]], device="cuda")
    made = torch.compile(lambda x: x.amax(1), fullgraph=True)(x).cpu()
    assert made[0].isnan()
    assert made[1] == -1


def test_a_training_step_is_one_program():
    def step(model, x, y):
        loss = functional.mse_loss(model(x), y)
        grads = torch.autograd.grad(loss, list(model.parameters()))
        with torch.no_grad():
            for p, g in zip(model.parameters(), grads, strict=True):
                p -= 0.1 * g
        return loss.detach()

    x, y = tensors([(8, 5), (8, 2)])
    losses = {}
    for device in ("cpu", "cuda"):
        torch.manual_seed(1)
        model = torch.nn.Sequential(torch.nn.Linear(5, 6), torch.nn.Tanh(), torch.nn.Linear(6, 2))
        model.to(device)
        run = torch.compile(step, fullgraph=True) if device == "cuda" else step
        losses[device] = [float(run(model, x.to(device), y.to(device))) for _ in range(4)]
    assert losses["cuda"] == pytest.approx(losses["cpu"], rel=1e-5)


def test_a_hit_launches_and_captures_nothing_anew():
    run = torch.compile(lambda x: (x.exp() * 2).sum(), fullgraph=True)
    x = torch.randn(6, 4, device="cuda")
    first = run(x)
    before = counters["compile"]["captures"]
    assert torch.equal(run(x), first)
    assert torch.equal(run(x + 0), first)
    assert counters["compile"]["captures"] == before


def test_a_tensor_of_another_device_is_another_program():
    run = torch.compile(lambda x: x * 2, fullgraph=True)
    x = torch.randn(3, 4)
    assert run(x.cuda()).device.type == "cuda"
    assert run(x).device.type == "cpu"
    assert any("on cpu" in reason for reason in run.reasons)


def test_tensors_of_two_devices_run_as_eager_does():
    run = torch.compile(lambda x, y: x * y)
    with pytest.raises(RuntimeError):
        run(torch.randn(3, device="cuda"), torch.randn(3))


def test_call_by_call_on_a_device():
    x = torch.randn(5, 6, device="cuda", requires_grad=True)
    run = torch.compile(lambda x: x.softmax(1).cumsum(0).sum(1), fullgraph=True, backend="python")
    made = run(x)
    assert torch.equal(made, x.softmax(1).cumsum(0).sum(1))


def test_verify_compares_on_a_device():
    run = torch.compile(lambda x: x.sin().sum(), options={"verify": True}, fullgraph=True)
    x = torch.randn(7, device="cuda")
    assert torch.allclose(run(x), x.sin().sum())


def test_second_derivatives():
    x = torch.randn(5, device="cuda", requires_grad=True)
    made = torch.compile(lambda x: (x**3).sum(), fullgraph=True)(x)
    (g,) = torch.autograd.grad(made, x, create_graph=True)
    (h,) = torch.autograd.grad(g.sum(), x)
    assert torch.allclose(h, 6 * x)


def test_temporaries_are_not_read_after_they_were_given_back():
    run = torch.compile(lambda x: (x @ x).sin() @ (x @ x).cos(), fullgraph=True)
    x = torch.randn(8, 8, device="cuda")
    first, second = run(x), run(x * 2)
    assert torch.allclose(first, (x @ x).sin() @ (x @ x).cos(), atol=1e-5)
    assert not torch.allclose(first, second)


def test_equal_kernels_are_written_once(texts):
    def function(x):
        for _ in range(3):
            x = (x @ x).tanh()
        return x

    torch.compile(function, fullgraph=True)(torch.randn(4, 4, device="cuda"))
    assert texts[-1].count("__global__") == 1


def test_a_tensor_that_a_function_on_a_device_makes_on_the_host_stays_there():
    def function(x):
        return x * 2, torch.tensor(3.0)

    compiled = torch.compile(function)
    for _ in range(3):
        first, second = compiled(torch.ones(4, device="cuda"))
        assert (first.device.type, second.device.type) == ("cuda", "cpu")


def test_tensors_of_the_host_beside_those_of_a_device_are_left_to_eager():
    compiled = torch.compile(lambda x, y: x * y + 1)
    x, y = torch.arange(4.0, device="cuda"), torch.tensor(2.0)
    for _ in range(3):
        assert compiled(x, y).cpu().tolist() == [1.0, 3.0, 5.0, 7.0]
