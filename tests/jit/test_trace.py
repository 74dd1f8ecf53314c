"""Traces replay what a program did: sizes of later inputs, control flow of the examples."""

import copy
import subprocess
import sys
import threading
import warnings
from concurrent.futures import ThreadPoolExecutor

import pytest

import pullback as torch
from pullback import nn

X = torch.tensor([1.0, 2.0, 3.0])


def test_function_is_replayed_for_other_sizes():
    traced = torch.jit.trace(
        lambda x: x.reshape(x.shape[0] * 2, -1).sum(1) * x.size(0), torch.ones(2, 4)
    )
    assert traced(torch.ones(3, 4)).tolist() == [6.0] * 6
    assert isinstance(traced, torch.jit.ScriptFunction)
    assert "reshape" in traced.code


def test_parameters_may_have_names_of_the_written_code():
    def program(function, forward):
        return function * 2 + forward

    assert torch.jit.trace(program, (X, X))(X, X).tolist() == [3, 6, 9]


@pytest.mark.parametrize(
    ("program", "what"),
    [
        (lambda x: x + 1 if x.sum() > 0 else x - 1, "bool"),
        (lambda x: x + int(x[0]), "int"),
        (lambda x: x * float(x[1]), "float"),
        (lambda x: x + len(x), "len"),
        (lambda x: sum(one for one in x), "iterated"),
    ],
)
def test_what_python_decides_is_fixed_with_a_warning(program, what):
    with pytest.warns(torch.jit.TracerWarning, match=what):
        traced = torch.jit.trace(program, X)
    assert torch.equal(traced(X), program(X))
    assert not torch.jit.is_tracing()


def test_branch_of_the_examples_is_taken_for_all_inputs():
    with pytest.warns(torch.jit.TracerWarning):
        traced = torch.jit.trace(lambda x: x + 1 if x.sum() > 0 else x - 1, X)
    assert traced(-X).tolist() == [0.0, -1.0, -2.0]


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(3, 2)
        self.scale = nn.Parameter(torch.full((2,), 2.0))
        self.register_buffer("shift", torch.ones(2))
        self.norm = nn.Sequential(nn.LayerNorm(2), nn.Tanh())

    def forward(self, x):
        if not isinstance(x, torch.Tensor):
            raise TypeError("a tensor is needed")
        y = self.layer(x) * self.scale + self.shift
        return self.norm(y), {"y": y}

    def twice(self, x):
        return self.layer(x) * 2


def test_module_is_replayed_with_its_own_parameters():
    model = Net()
    traced = torch.jit.trace(model, torch.rand(4, 3))
    assert isinstance(traced, torch.jit.TopLevelTracedModule)
    assert isinstance(traced, torch.jit.ScriptModule)
    assert sorted(traced.state_dict()) == sorted(model.state_dict())
    x = torch.rand(2, 3)
    out, _ = traced(x)
    assert torch.equal(out, model(x)[0])
    out.sum().backward()
    assert model.scale.grad is not None
    traced.load_state_dict({name: torch.zeros_like(v) for name, v in model.state_dict().items()})
    assert traced(x)[1]["y"].abs().sum() == 0


def test_traced_modules_are_copied_and_moved():
    traced = torch.jit.trace(Net(), torch.rand(4, 3))
    other = copy.deepcopy(traced).double()
    x = torch.rand(2, 3)
    assert other(x.double())[0].dtype is torch.float64
    assert torch.allclose(other(x.double())[0].float(), traced(x)[0], atol=1e-5)


def test_several_methods_are_traced():
    model = Net()
    traced = torch.jit.trace_module(model, {"forward": torch.rand(1, 3), "twice": torch.rand(1, 3)})
    x = torch.rand(5, 3)
    assert torch.equal(traced.twice(x), model.twice(x))
    assert torch.equal(traced(x)[0], model(x)[0])


def test_inputs_may_be_given_by_name():
    traced = torch.jit.trace(lambda x, y: x - y, example_kwarg_inputs={"y": X, "x": 2 * X})
    assert torch.equal(traced(X, X), torch.zeros(3))


def test_program_that_differs_from_run_to_run_is_warned_of():
    calls = []

    def program(x):
        calls.append(x)
        return x + len(calls)

    with pytest.warns(torch.jit.TracerWarning, match="does not give"):
        torch.jit.trace(program, X)


def test_random_numbers_are_drawn_anew():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        traced = torch.jit.trace(lambda x: torch.nn.functional.dropout(x, 0.5), torch.ones(100))
    assert not torch.equal(traced(torch.ones(100)), traced(torch.ones(100)))


def test_refusals():
    with pytest.raises(RuntimeError, match="tensors"):
        torch.jit.trace(lambda x: 3, X)
    with pytest.raises(RuntimeError, match="example"):
        torch.jit.trace(lambda x: x)
    with pytest.raises(AttributeError, match="module"):
        torch.jit.trace_module(len, {})


def test_being_traced_is_known_inside():
    seen = []

    def program(x):
        seen.append(torch.jit.is_tracing())
        return x + 1

    torch.jit.trace(program, X, check_trace=False)
    assert seen == [True]


class Triple(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, by=3.0):
        ctx.by = by
        return x * by

    @staticmethod
    def backward(ctx, g):
        return g * 10, None


def test_outputs_that_do_not_depend_on_the_input_are_returned():
    x = torch.ones(2)
    made = torch.jit.trace(lambda x: (x * 2, torch.ones(3)), (x,))(x)
    assert [one.tolist() for one in made] == [[2, 2], [1, 1, 1]]
    made = torch.jit.trace(lambda x: torch.linspace(0, 1, 3), (x,))(x)
    assert made.tolist() == [0, 0.5, 1]
    held = torch.tensor([4.0])
    assert torch.jit.trace(lambda x: {"a": held}, (x,), strict=False)(x)["a"].tolist() == [4]


def test_a_custom_function_is_a_step_with_its_own_backward():
    traced = torch.jit.trace(lambda x: Triple.apply(x) + Triple.apply(x, 2.0), torch.ones(2, 2))
    x = torch.ones(3, 1, requires_grad=True)
    made = traced(x)
    made.sum().backward()
    assert made.tolist() == [[5]] * 3
    assert x.grad.tolist() == [[20]] * 3


def test_a_module_may_call_a_custom_function():
    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.full((2,), 4.0))

        def forward(self, x):
            return Triple.apply(x * self.weight)

    traced = torch.jit.trace(Layer(), torch.ones(2))
    assert traced(torch.ones(2)).tolist() == [12, 12]


class ByRank(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.by_rank = {2: 3.0, 3: 4.0}

    def forward(self, x):
        return x * self.by_rank[x.ndim] + self.by_rank[x.dim()]


def test_what_kind_of_tensor_it_is_is_pythons(recwarn):
    traced = torch.jit.trace(ByRank(), torch.ones(2, 2))
    assert traced(torch.ones(1, 1)).item() == 6
    named = {torch.float32: 2.0}
    traced = torch.jit.trace(lambda x: x * named[x.dtype], torch.ones(2))
    assert traced(torch.ones(1)).item() == 2
    assert not recwarn.list


@pytest.mark.parametrize(
    "use",
    [
        lambda n: int(f"{n}"),
        lambda n: int(str(n)),
        lambda n: int(f"{n:03d}"),
        lambda n: {2: 2, 3: 3}[n],
        lambda n: len({n, 2, 5}),
        lambda n: [7, 8, 2][n],
        lambda n: 2 if n in (2, 3) else 0,
    ],
)
def test_sizes_are_numbers_where_python_wants_them(use):
    with pytest.warns(torch.jit.TracerWarning):
        traced = torch.jit.trace(lambda x: x * use(x.size(0)), torch.ones(2, 2))
    assert traced(torch.ones(1)).item() == 2


@pytest.mark.parametrize(
    "draw",
    [
        lambda x: x + torch.rand(50),
        lambda x: torch.randn(x.shape[0]) * x,
        lambda x: torch.nn.functional.dropout(x, 0.5),
        lambda x: torch.randperm(50),
        lambda x: torch.bernoulli(torch.full((50,), 0.5)) * x,
        lambda x: torch.nn.functional.gumbel_softmax(x),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_a_traced_program_draws_anew_in_each_call(draw):
    traced = torch.jit.trace(draw, torch.ones(50))
    assert not torch.equal(traced(torch.ones(50)), traced(torch.ones(50)))


def test_modules_that_a_function_makes_meanwhile_are_what_is_inside_of_them():
    traced = torch.jit.trace(lambda x, y: nn.MSELoss()(nn.Sequential(nn.Tanh())(x), y), (X, X))
    assert torch.equal(traced(X, -X), nn.functional.mse_loss(X.tanh(), -X))


class _Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2


@pytest.fixture
def traced_elsewhere():
    """Another thread is in the middle of a trace."""
    inside, end = threading.Event(), threading.Event()

    def wait(x):
        inside.set()
        end.wait(30)
        return x + torch.rand(1)

    with ThreadPoolExecutor(1) as pool:
        traced = pool.submit(torch.jit.trace, wait, X, check_trace=False)
        inside.wait(30)
        yield
        end.set()
        assert traced.result().code.count("torch.rand(1)") == 1


@pytest.mark.usefixtures("traced_elsewhere")
def test_draws_and_functions_are_no_steps_of_what_another_thread_traces():
    assert type(torch.rand(2)) is torch.Tensor
    assert type(nn.Dropout()(X)) is torch.Tensor
    assert _Double.apply(X).tolist() == [2, 4, 6]


@pytest.mark.usefixtures("traced_elsewhere")
@pytest.mark.parametrize("trace", [lambda f: torch.jit.trace(f, X), torch.fx.symbolic_trace])
def test_threads_trace_at_once_each_its_own_program(trace):
    class Inner(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(3, 3)

        def forward(self, x):
            return self.linear(x) * 2

    module = Inner()
    traced = trace(module)
    with torch.no_grad():
        module.linear.weight.add_(1)
    assert torch.equal(traced(X), module(X))


@pytest.mark.usefixtures("traced_elsewhere")
def test_draws_and_functions_are_steps_of_what_their_own_thread_traces():
    def program(x):
        return _Double.apply(x) + torch.rand(3)

    traced = torch.jit.trace(program, X, check_trace=False)
    assert "_Double_apply(x)" in traced.code
    assert "torch.rand(3)" in traced.code


def test_layers_that_load_during_a_trace_find_parameters_as_usual_afterwards():
    # Loaded while `Module.__getattr__` records, they held what records for the usual one.
    program = """if True:
        import pullback as torch

        class Adds(torch.nn.Module):
            def forward(self, x):
                torch.nn.Linear(1, 1)(torch.ones(1))
                return x + 1

        torch.jit.trace(Adds(), torch.ones(1), check_trace=False)
        traced = torch.jit.trace(torch.nn.Linear(1, 1), torch.ones(1))
        assert traced.code.count("weight") > 0, traced.code
    """
    subprocess.run([sys.executable, "-c", program], check=True)
