"""Modules on NumPy alone: what they take and give, how they read, and what cannot be written."""

import re
import subprocess
import sys

import numpy as np
import pytest

import pullback as torch
from pullback import func
from pullback.compiled.export import to_python
from tests.compiled.closeness import assert_same_arrays

W = torch.tensor(np.random.default_rng(1).standard_normal((3, 4)))


def loss(x):
    y = (x @ W).tanh() * 2 + x.sum(1, keepdim=True)
    z = y.softmax(-1)[1:] * y.t()[:, 1:].t().exp().log1p()
    return (z.reshape(-1)[:6] ** 2).sum() + torch.where(y > 0, y, y * 0.1).mean()


def pieces(x):
    a, b = x.chunk(2, 0)
    return torch.cat([a * 2, b.erf()], 0), x.amax(1), x.logsumexp(0), x.sort().values


def spectrum(x):
    return torch.fft.rfft(x, dim=0).abs(), torch.linalg.svd(x)[1], x.cumsum(0)[[2, 0]]


@pytest.fixture
def x():
    return torch.tensor(np.random.default_rng(0).standard_normal((4, 3)))


@pytest.fixture
def path(tmp_path):
    return tmp_path / "exported.py"


def arrays_of(made):
    return [one._array for one in (made if isinstance(made, tuple) else (made,))]


@pytest.mark.parametrize("function", [loss, func.grad(loss), pieces, spectrum])
def test_a_module_on_numpy_alone_gives_eagers_bits(function, x, path, alone):
    """K-68"""
    to_python(function, path, x)
    held = [] if function in (pieces, spectrum) else [W._array]
    made, _ = alone(path, [x._array, *held])
    for ours, one in zip(made, arrays_of(function(x)), strict=True):
        assert_same_arrays(ours, one)


def test_tensors_that_a_function_finds_come_after_its_arguments_and_are_named(path, alone):
    model = torch.nn.Sequential(
        torch.nn.Conv2d(1, 2, 3), torch.nn.BatchNorm2d(2), torch.nn.ReLU(), torch.nn.Flatten()
    ).eval()
    images = torch.randn(2, 1, 5, 5)
    to_python(model, path, images)
    named = dict(re.findall(r"(held_\d+): .*, `(.*)`", path.read_text()))
    found = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    assert sorted(named.values()) == sorted(found.keys() - {"1.num_batches_tracked"})
    made, _ = alone(path, [images._array, *[found[name]._array for name in named.values()]])
    assert_same_arrays(made[0], model(images)._array)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.complex64, torch.int32])
def test_dtypes_that_only_kernels_know_are_written_too(dtype, path):
    x = torch.arange(6).reshape(2, 3).to(dtype)

    def function(x):
        return (x * x).sum(0), x.flip(1)

    to_python(function, path, x)
    scope = {}
    exec(compile(path.read_text(), "exported.py", "exec"), scope)
    for ours, one in zip(scope["program"](x._array), function(x), strict=True):
        assert_same_arrays(ours, one._array)


def test_arguments_may_lie_in_any_order_in_memory(x, path, alone):
    to_python(lambda x: x.view(-1)[2:5] * 2, path, x)
    turned = np.asfortranarray(x._array)
    made, _ = alone(path, [turned])
    assert_same_arrays(made[0], turned.reshape(-1)[2:5] * 2)


@pytest.mark.parametrize("wrong", [np.ones((3, 4)), np.ones((4, 3), np.float32), [1.0]])
def test_other_arguments_than_were_captured_are_refused(wrong, x, path, alone):
    to_python(lambda x: x + 1, path, x)
    with pytest.raises(AssertionError, match=r"argument_0 must be an array float64\[4, 3\], got"):
        alone(path, [wrong])


def test_writes_to_arguments_are_made_and_results_stand_apart(x, path, alone):
    def function(x, y):
        before = x.clone()
        x.mul_(2)
        return before, x, y[1:], 3

    x, y = x.clone(), torch.ones(3)
    given = [x._array.copy(), y._array]
    to_python(function, path, x, y)
    (before, same, view, number), (written, _) = alone(path, given)
    assert_same_arrays(before, given[0])
    assert_same_arrays(written, given[0] * 2)
    assert_same_arrays(same, given[0] * 2)
    assert (view.shape, number) == ((2,), 3)


SCALE = torch.tensor([1.0, 2.0, 3.0], dtype=torch.float64, requires_grad=True)


def decided(x, y):
    made = torch.cond(x.sum() > 0, lambda a, b: (a * SCALE + b).sin(), lambda a, b: a / b, (x, y))
    return made.sum() * 2


@pytest.mark.parametrize("sign", [1, -1])
def test_a_branch_is_chosen_when_the_program_runs_with_its_gradients(sign, x, path, alone):
    def gradients(x, y):
        return torch.autograd.grad(decided(x, y), (x, y, SCALE), materialize_grads=True)

    x = (x.abs() + 1).requires_grad_()
    y = torch.full((3,), 2.0, dtype=torch.float64, requires_grad=True)
    to_python(gradients, path, x, y)
    other = (x.detach() * sign).requires_grad_()
    made, _ = alone(path, [other._array, y._array, SCALE._array])
    for ours, one in zip(made, gradients(other, y), strict=True):
        np.testing.assert_allclose(ours, one._array, rtol=1e-14)


def test_a_loop_runs_until_its_test_says_no(x, path, alone):
    def function(x, step):
        def body(i, x):
            return i + step, (x @ W @ W.t()).tanh()

        return torch.while_loop(lambda i, x: i < 5, body, (torch.zeros(()), x))

    to_python(function, path, x, torch.tensor(1.0))
    for step in (1.0, 2.0):
        wanted = arrays_of(function(x, torch.tensor(step)))
        arrays = [x._array, np.array(step, np.float32), W._array]
        for ours, one in zip(alone(path, arrays)[0], wanted, strict=True):
            np.testing.assert_allclose(ours, one, rtol=1e-14)


def test_large_constants_are_written_as_bytes(path, alone):
    table = np.random.default_rng(2).standard_normal(1000)
    to_python(lambda x: x + torch.tensor(table), path, torch.ones(1))
    made, _ = alone(path, [np.ones(1, np.float32)])
    assert_same_arrays(made[0], 1 + table)


def test_the_text_says_how_to_call_it_and_where_its_parts_are_from(x, path):
    to_python(pieces, path, x)
    text = path.read_text()
    assert text.startswith('"""The program of pieces.\n\n`program(argument_0)` takes arrays')
    assert "    argument_0: float64[4, 3]\n" in text
    assert "# sort at test_python.py:" in text
    assert "# pullback/operators/reduce/sorting.py ---" in text
    assert "import pullback" not in text
    assert "from pullback" not in text
    assert str(path.parent) not in text
    assert torch.__path__[0] not in text


def test_the_same_function_is_written_in_the_same_way_each_time(x, path):
    texts = set()
    for _ in range(2):
        to_python(func.grad(loss), path, x)
        texts.add(path.read_text())
    assert len(texts) == 1


def test_an_expanded_argument_stands_for_any_array_of_its_sizes(x, path, alone):
    to_python(lambda x: x * 2 + x.flip(0), path, torch.ones(1, 3, dtype=torch.float64).expand(4, 3))
    made, _ = alone(path, [x._array])
    assert_same_arrays(made[0], x._array * 2 + x._array[::-1])


def test_a_module_imports_no_more_than_numpy_does(path):
    x = torch.randn(2, 3, 6, 6)
    to_python(lambda x: torch.nn.functional.max_pool2d(x, 2), path, x)
    code = (
        "import sys, numpy; before = set(sys.modules); import exported;"
        "print({m.partition('.')[0] for m in set(sys.modules) - before} - sys.stdlib_module_names)"
    )
    made = subprocess.run([sys.executable, "-c", code], cwd=path.parent, text=True,
                          capture_output=True, check=True)  # fmt: skip
    assert made.stdout.strip() == "{'exported'}"


@pytest.mark.parametrize(
    ("function", "operator"),
    [(lambda x: x + torch.rand(3), "rand"), (torch.nn.functional.dropout, "dropout")],
)
def test_random_numbers_are_refused_with_operator_and_line(function, operator, x, path):
    with pytest.raises(RuntimeError, match=rf"{operator} at test_python.py:\d+ draws random num"):
        to_python(function, path, x)


def test_a_function_that_is_not_the_packages_is_refused_with_its_line(x, path):
    special = pytest.importorskip("scipy.special")

    def function(x):
        return torch.tensor(special.expit(x.numpy())) * 2

    with pytest.raises(
        RuntimeError, match=r"^expit at test_python.py:\d+ cannot be written as a mod"
    ):
        to_python(function, path, x)


def test_dtypes_that_are_for_storing_are_refused(path):
    x = torch.ones(3, 2, dtype=torch.float16)
    with pytest.raises(RuntimeError, match=r"^view_as_complex at .* dtype that NumPy does not"):
        to_python(lambda x: torch.view_as_complex(x).real, path, x)


def test_gradients_that_are_stored_are_refused(x, path):
    leaf = torch.ones(3, dtype=torch.float64, requires_grad=True)

    def step(x):
        (x * leaf).sum().backward()
        return x + 1

    with pytest.raises(RuntimeError, match="cannot store gradients"):
        to_python(step, path, x)


def test_what_was_refused_leaves_no_file(x, path):
    with pytest.raises(RuntimeError):
        to_python(torch.nn.functional.dropout, path, x)
    assert not path.exists()
