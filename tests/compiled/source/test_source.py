"""Backward passes and functions as source: right on pullback and NumPy, short, with lines."""

import re
import subprocess
import sys

import numpy
import pytest

import pullback as torch
from tests.compiled.test_random_programs import Program, assert_close

source = torch.autograd.graph.source
functional, nn = torch.nn.functional, torch.nn


def body(made):
    """The statements without comments."""
    text = made.text[made.text.index("def ") :]
    return [line.strip() for line in text.splitlines()[1:] if line.strip() and "#" not in line]


def program_of(seed):
    """A random program, its inputs, a loss and the gradients; None where eager refuses it."""
    program = Program(1000 * seed)
    tensors = program.inputs()
    wanted = [one for one in tensors if one.requires_grad]
    try:
        result = program(*tensors)
        loss = result[0] if isinstance(result, tuple) else result
        if not loss.requires_grad or not wanted:
            return None
        found = torch.autograd.grad(loss, wanted, retain_graph=True, allow_unused=True)
    except RuntimeError:
        return None
    return program, tensors, wanted, loss, found


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(60))
def test_random_programs_have_the_same_gradients(seed):
    drawn = program_of(seed)
    if drawn is None:
        return
    program, _, wanted, loss, found = drawn
    for one, other in zip(source(loss, wanted)(), found, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            assert_close(one, other, program.dtype)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(0, 60, 5))
def test_functions_and_their_gradients_before_any_graph(seed):
    drawn = program_of(seed)
    if drawn is None:
        return
    program, tensors, _, _, found = drawn
    at = tuple(number for number, one in enumerate(tensors) if one.requires_grad)

    def loss(*given):
        result = program(*given)
        return result[0] if isinstance(result, tuple) else result

    made = torch.func.source(torch.func.grad(loss, at), *(one.detach() for one in tensors))
    for one, other in zip(made(), found, strict=True):
        assert_close(one, torch.zeros_like(one) if other is None else other, program.dtype)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(0, 60, 6))
def test_modules_on_numpy_have_the_same_gradients(seed):
    drawn = program_of(seed)
    if drawn is None or any(one is None for one in drawn[-1]):
        return
    program, _, wanted, loss, found = drawn
    for one, other in zip(source(loss, wanted, target="numpy")(), found, strict=True):
        assert_close(torch.from_numpy(numpy.asarray(one)), other, program.dtype)


def test_a_module_on_numpy_needs_nothing_else(tmp_path):
    x = torch.tensor([0.5, 2.0], requires_grad=True)
    path = source((x.exp() * x).sum(), target="numpy").save(tmp_path / "backward.py")
    code = (
        "import sys; sys.modules['pullback'] = None; sys.path.insert(0, sys.argv[1]); "
        "import numpy, backward; "
        "x = numpy.array([0.5, 2.0], 'f'); "
        "count = backward.program.__code__.co_argcount; "
        "print(*backward.program(*[x, numpy.exp(x)][:count])[0])"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-c", code, str(tmp_path)],
        capture_output=True,
        text=True,
        check=True,
    )
    got = [float(one) for one in done.stdout.split()]
    assert path.endswith("backward.py")
    numpy.testing.assert_allclose(got, numpy.exp([0.5, 2.0]) * [1.5, 3.0], rtol=1e-6)


def test_a_net_of_many_layers():
    torch.manual_seed(0)
    net = nn.Sequential(
        nn.Conv2d(2, 4, 3, padding=1, stride=2), nn.BatchNorm2d(4), nn.ReLU(inplace=True),
        nn.MaxPool2d(2), nn.Upsample(scale_factor=2), nn.AvgPool2d(2), nn.Flatten(),
        nn.Linear(16, 8), nn.LayerNorm(8), nn.GELU(), nn.Linear(8, 3),
    )  # fmt: skip
    loss = functional.cross_entropy(net(torch.randn(3, 2, 8, 8)), torch.tensor([0, 2, 1]))
    made = source(loss, list(net.parameters()))
    wanted = torch.autograd.grad(loss, list(net.parameters()), retain_graph=True)
    for one, other in zip(made(), wanted, strict=True):
        numpy.testing.assert_allclose(numpy.asarray(one), other.numpy(), rtol=1e-4, atol=1e-6)
    assert "net_0_weight" in made.results[0]


def test_equal_parts_are_computed_once():
    x = torch.tensor([0.5, 2.0], requires_grad=True)
    made = source((x.sin() * 2 + x.sin() * 3).sum())
    assert sum("torch.cos(x)" in line for line in body(made)) == 1


def test_zeros_ones_and_steps_in_place_are_gone():
    x = torch.tensor([0.5, 2.0], requires_grad=True)
    assert body(source((x * 1 + x.reshape(2).clone()).sum()))[-1].startswith("return")
    assert body(source(x.sum()))[:-1] == ["sum_1 = torch.full([2], 1.0, dtype=torch.float32)"] or (
        "torch.full([2], 1.0, dtype=torch.float32)" in body(source(x.sum()))[0]
    )
    w = torch.tensor([1.0, 3.0])
    made = source((x * w).sum())
    assert body(made) == ["return (w.clone(),)"]


def test_the_users_lines_are_comments():
    x = torch.tensor([0.5, 2.0], requires_grad=True)
    y = x.sin()  # the line of the sine
    text = source((y * 2).sum()).text
    assert re.search(r"# backward of test_source\.py:\d+: y = x\.sin\(\)", text)


def test_the_graph_is_kept_and_no_grad_is_written():
    x = torch.tensor([0.5, 2.0], requires_grad=True)
    loss = (x.sin() * x).sum()
    source(loss)
    assert x.grad is None
    loss.backward()
    assert x.grad is not None


def test_a_loss_of_several_elements_has_its_gradient_as_argument():
    x = torch.tensor([0.5, 2.0], requires_grad=True)
    made = source(x.exp())
    assert list(made.arguments) == ["grad", "exp_out"]
    (got,) = made.load()(torch.tensor([1.0, 10.0]), torch.tensor([2.0, 3.0]))
    assert got.tolist() == [2.0, 30.0]


def test_inputs_may_be_chosen_and_need_be_no_leaves():
    x = torch.tensor([0.5, 2.0], requires_grad=True)
    y = x.exp()
    made = source((y * y).sum(), y)
    numpy.testing.assert_allclose(made()[0].numpy(), 2 * y.detach().numpy(), rtol=1e-6)


def test_an_input_that_is_not_reached_has_none():
    x, other = (torch.tensor([0.5], requires_grad=True) for _ in range(2))
    made = source(x.exp().sum(), [x, other])
    assert made()[1] is None


def test_functions_take_what_they_find_as_parameters():
    weight = torch.arange(12.0).reshape(3, 4)
    made = torch.func.source(torch.func.grad(lambda x: (weight @ x).square().sum()), torch.ones(4))
    assert len(made.arguments) == 2
    wanted = 2 * weight.t() @ (weight @ torch.ones(4))
    numpy.testing.assert_allclose(made().numpy(), wanted.numpy(), rtol=1e-6)


def test_writes_in_place_are_replaced():
    def loss(x):
        y = x * 2
        y[0] = 3
        y.view(-1)[1:].mul_(2)
        y.add_(x)
        return y.square().sum()

    x = torch.tensor([0.5, 2.0, -1.0])
    made = torch.func.source(torch.func.grad(loss), x)
    assert not re.search(r"\w_\(", "".join(body(made)))
    numpy.testing.assert_allclose(made().numpy(), torch.func.grad(loss)(x).numpy(), rtol=1e-6)


def test_a_write_that_a_rule_looks_behind_is_refused():
    def loss(x):
        y = x * 2
        y[1:].mul_(x[1:])
        return y.sum()

    with pytest.raises(NotImplementedError, match="write in place"):
        torch.func.source(torch.func.grad(loss), torch.tensor([0.5, 2.0, -1.0]))


def test_what_was_computed_unseen_is_no_constant():
    def loss(x):
        return (x * torch.from_numpy(numpy.exp(x.detach().numpy()))).sum()

    with pytest.raises(NotImplementedError, match="computed unseen"):
        torch.func.source(loss, torch.ones(20))


def test_what_has_no_words_is_named_with_the_line():
    x = torch.rand(4, requires_grad=True)
    loss = x.cumprod(0).sum()
    with pytest.raises(NotImplementedError, match=r"recurrence.*test_source\.py.*cumprod"):
        source(loss)


def test_wrong_calls_are_refused():
    x = torch.ones(2, requires_grad=True)
    with pytest.raises(TypeError, match="takes a tensor"):
        source(3)
    with pytest.raises(RuntimeError, match="does not require grad"):
        source(torch.ones(2))
    with pytest.raises(ValueError, match="target"):
        source(x.sum(), target="jax")
    with pytest.raises(TypeError, match="takes a function"):
        torch.func.source(x)


def test_the_page_and_the_debugger_lead_to_it(tmp_path):
    x = torch.tensor([0.5, 2.0], requires_grad=True)
    loss = (x.sin() * 3).sum()
    text = source(loss).text
    page = torch.autograd.graph.show(loss, source=True)
    assert page.source == text
    assert 'id="source" download="backward.py"' in page.html()
    assert 'id="source"' not in torch.autograd.graph.show(loss).html()
    told, path = [], tmp_path / "pass.py"
    answers = iter(["src", f"src {path}", "c"])
    torch.autograd.graph.debug(loss, ask=lambda prompt: next(answers), tell=told.append)
    assert text in told
    assert path.read_text() == text
    assert x.grad is not None


def test_the_debugger_says_why_there_is_none_later():
    x = torch.tensor([0.5, 2.0], requires_grad=True)
    told, answers = [], iter(["src", "c"])
    loss = (x.sin() * 3).exp().sum()
    torch.autograd.graph.debug(loss, "sin", ask=lambda prompt: next(answers), tell=told.append)
    assert any("retain_graph=True" in line for line in told)


def assert_near(found, expected):
    for one, other in zip(found, expected, strict=True):
        numpy.testing.assert_allclose(numpy.asarray(one), other.numpy(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("size", [1, 2])
def test_convolutions_have_their_public_names(size):
    functional = torch.nn.functional
    shape = [8] * size
    convolve = getattr(functional, f"conv{size}d")
    turned = getattr(functional, f"conv_transpose{size}d")
    w = torch.rand(4, 2, *[3] * size, requires_grad=True)
    v = torch.rand(4, 2, *[2] * size, requires_grad=True)
    x = torch.rand(2, 2, *shape, requires_grad=True)
    y = convolve(x, w, stride=2, padding=1).tanh()
    loss = turned(y, v, stride=2, padding=1, output_padding=1, dilation=2).square().sum()
    made = source(loss, [x, w, v])
    assert "ops.aten" not in made.text
    expected = torch.autograd.grad(loss, [x, w, v], retain_graph=True)
    assert_near(made(), expected)
    on_numpy = source(loss, [x, w, v], target="numpy")
    assert_near(on_numpy(), expected)


def test_results_of_one_memory_are_copied_for_numpy():
    x = torch.rand(4, 4, requires_grad=True)
    y = torch.rand(4, 4, requires_grad=True)
    loss = (torch.cat([x, y])[2:6] ** 2).sum()
    expected = torch.autograd.grad(loss, [x, y], retain_graph=True)
    assert_near(source(loss, target="numpy")(), expected)


def test_parts_of_sorted_values_are_sliced():
    def loss(x):
        return (x.sort(-1).values.flip(0).narrow(-1, 1, 2) ** 2).sum()

    x = torch.rand(4, 4)
    made = torch.func.source(torch.func.grad(loss), x)
    assert torch.allclose(made(), torch.func.grad(loss)(x))
