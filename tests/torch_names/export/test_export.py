"""`torch.export.export`: the graph computes what the module does, gradients and writes included."""

import copy
import warnings

import pytest
from pullback.export import export

import pullback as torch
from pullback import nn
from tests.torch_names.export.programs import CASES, Written


def outcome(module, state, x):
    """Result, gradients of parameters and input, and buffers after a call."""
    torch.manual_seed(0)
    x = x.clone().requires_grad_()
    result = module(x)
    if result.requires_grad:
        result.double().sum().backward()
    gradients = [x.grad, *(one.grad for one in state.parameters())]
    made = [result.detach(), *(g if g is not None else torch.zeros(()) for g in gradients)]
    made += [one.clone() for one in state.buffers()]
    for one in state.parameters():
        one.grad = None
    return made


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("stage", ["exported", "decomposed", "of core operators"])
def test_program_does_what_the_module_does(name, stage):
    function, example = CASES[name]
    torch.manual_seed(1)
    module, x = Written(function), example()
    wanted = outcome(twin := copy.deepcopy(module), twin, x)
    program = export(module, (x,))
    if stage != "exported":
        program = program.run_decompositions({} if stage == "decomposed" else None)
    program.validate()
    for one, other in zip(outcome(program.module(), module, x), wanted, strict=True):
        assert torch.allclose(one, other, atol=1e-4, rtol=1e-4)
    assert not any(str(node.target).startswith("pullback.") for node in program.graph.nodes)


def test_exporting_changes_nothing():
    module = nn.BatchNorm1d(2)
    before = {name: one.clone() for name, one in module.state_dict().items()}
    export(module, (torch.randn(4, 2),))
    assert all(torch.equal(one, before[name]) for name, one in module.state_dict().items())


def test_state_is_shared_with_the_module():
    module = nn.Linear(2, 2)
    program = export(module, (torch.ones(1, 2),))
    assert program.module().weight is module.weight
    assert [name for name, _ in program.named_parameters()] == ["weight", "bias"]


def test_tied_parameters_stay_tied():
    module = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    module[1].weight = module[0].weight
    made = export(module, (torch.ones(1, 2),)).module()
    assert made.get_submodule("0").weight is made.get_submodule("1").weight
    assert len(list(made.parameters())) == 3


class Nested(nn.Module):
    def __init__(self):
        super().__init__()
        self.shift = torch.ones(2)
        self.register_buffer("seen", torch.zeros(2))
        self.register_buffer("scale", torch.full((2,), 3.0), persistent=False)

    def forward(self, x, pair, *, table, factor=2):
        self.seen = self.seen + x.detach().sum(0)
        y = x * factor * self.scale + pair[0] + table["a"] + torch.tensor([1.0, 2.0])
        return {"sum": (y + self.shift, 3), "seen": self.seen * 1}


def nested():
    x, pair = torch.ones(3, 2), (torch.ones(2), None)
    return (x, pair), {"table": {"a": torch.ones(1)}, "factor": 4}


def test_arguments_and_results_nest():
    module = Nested()
    args, kwargs = nested()
    wanted = copy.deepcopy(module)(*args, **kwargs)
    program = export(module, args, kwargs)
    for one in (program, program.run_decompositions()):
        module.seen.zero_()
        found = one.module()(*args, **kwargs)
        assert torch.equal(found["sum"][0], wanted["sum"][0])
        assert found["sum"][1] == 3
        assert torch.equal(found["seen"], wanted["seen"])
        assert torch.equal(module.seen, torch.full((2,), 3.0))


def test_signature_says_what_is_what():
    args, kwargs = nested()
    program = export(Nested(), args, kwargs)
    signature = program.graph_signature
    assert signature.buffers == ("seen", "scale")
    assert signature.non_persistent_buffers == ("scale",)
    assert sorted(signature.lifted_tensor_constants) == ["lifted_tensor_0", "shift"]
    assert signature.user_inputs == ("x", "pair_0", None, "table_a", 4)
    assert list(program.state_dict) == ["seen"]
    assert set(program.constants) == {"scale", "shift", "lifted_tensor_0"}
    written = program.run_decompositions().graph_signature
    assert list(written.buffers_to_mutate.values()) == ["seen"]
    assert len(written.user_outputs) == 3


def test_writes_to_arguments_are_outputs_after_decomposition():
    class Doubles(nn.Module):
        def forward(self, x):
            x.mul_(2)
            return x + 1

    program = export(Doubles(), (torch.ones(2),)).run_decompositions()
    assert list(program.graph_signature.user_inputs_to_mutate.values()) == ["x"]
    x = torch.ones(2)
    assert torch.equal(program.module()(x), torch.full((2,), 3.0))
    assert torch.equal(x, torch.full((2,), 2.0))


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda run: run(torch.ones(4, 2), k=3), r"x\.size\(\)\[0\] == 3"),
        (lambda run: run(torch.ones(3, 2), k=4), "k == 3"),
        (lambda run: run(torch.ones(3, 2), k=3.0), "k == 3"),
        (lambda run: run(torch.ones(3, 2, dtype=torch.float64), k=3), "dtype"),
        (lambda run: run(torch.ones(3), k=3), "len"),
        (lambda run: run(2, k=3), "tensor"),
    ],
)
def test_calls_that_do_not_fit_are_refused(call, says):
    class Scaled(nn.Module):
        def forward(self, x, *, k):
            return x * k

    program = export(Scaled(), (torch.ones(3, 2),), {"k": 3})
    with pytest.raises(AssertionError, match=says):
        call(program.module())
    assert program.module(check_guards=False)(torch.ones(5, 2), k=9).shape == (5, 2)


def test_what_decides_by_values_is_refused_with_the_line():
    class Decides(nn.Module):
        def forward(self, x):
            return x if x.sum() > 0 else -x

    with pytest.raises(RuntimeError, match="no value to read") as error:
        export(Decides(), (torch.ones(2),))
    assert "test_export.py" in str(error.traceback)


@pytest.mark.parametrize(
    ("args", "kind"),
    [
        ((lambda x: x, (torch.ones(1),)), ValueError),
        ((nn.ReLU(), [torch.ones(1)]), TypeError),
        ((nn.ReLU(), (object(),)), ValueError),
    ],
)
def test_wrong_calls_of_export(args, kind):
    with pytest.raises(kind):
        export(*args)


def test_assigned_attributes_are_warned_of_and_taken_back():
    class Counts(nn.Module):
        calls = 0

        def forward(self, x):
            self.calls += 1
            return x * self.calls

    module = Counts()
    with pytest.warns(UserWarning, match="calls"):
        export(module, (torch.ones(1),))
    assert module.calls == 0
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        export(nn.ReLU(), (torch.ones(1),))


def test_a_program_is_not_called_itself():
    program = export(nn.ReLU(), (torch.ones(1),))
    with pytest.raises(RuntimeError, match=r"module\(\)"):
        program(torch.ones(1))
    assert "aten.relu" in str(program)
    assert "USER_INPUT" in repr(program)


def test_tables_of_definitions_reach_whole_functions():
    class Layer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(2, 2)

        def forward(self, x):
            return self.inner(x)

    program = export(Layer(), (torch.ones(1, 2),))
    table = {torch.ops.aten.linear.default: lambda x, w, b=None: x.sin()}
    made = program.run_decompositions(table)
    names = [str(node.target) for node in made.graph.nodes if node.op == "call_function"]
    assert names == ["aten.sin.default"]


def test_one_tensor_at_several_places_stands_for_several():
    attention = nn.MultiheadAttention(4, 2, batch_first=True)
    x = torch.randn(2, 3, 4)
    given = [torch.randn(2, 3, 4) for _ in range(3)]
    for program in (one := export(attention, (x, x, x)), one.run_decompositions()):
        for found, wanted in zip(program.module()(*given), attention(*given), strict=True):
            assert torch.allclose(found, wanted, atol=1e-6)


def test_an_argument_that_is_a_parameter_stands_for_others():
    class Adds(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(2))

        def forward(self, x):
            return x - self.weight

    module = Adds()
    run = export(module, (module.weight,)).module()
    assert torch.equal(run(torch.full((2,), 3.0)), torch.full((2,), 2.0))


class Shadowing(nn.Module):
    """Inputs called as builtins, operators and steps of the graph are."""

    def forward(self, input, sum, slice, add, mul_1=None):
        return (input * sum + add)[:, 1:].sum() + slice.max()


NAMES = {
    "Linear": (nn.Linear(3, 2), ["p_weight", "p_bias", "input", "linear", "output"]),
    "ReLU": (nn.ReLU(), ["input", "relu", "output"]),
}


@pytest.mark.parametrize("name", NAMES)
def test_inputs_have_the_names_that_forward_gives_them(name):
    module, names = NAMES[name]
    program = export(module, (torch.ones(2, 3),))
    assert [node.name for node in program.graph.nodes] == names
    assert program.graph_signature.user_inputs == ("input",)
    given = torch.randn(2, 3)
    assert torch.equal(program.module()(input=given), module(given))


@pytest.mark.parametrize("stage", ["exported", "saved", "decomposed"])
def test_inputs_hide_neither_builtins_nor_steps(stage, tmp_path):
    given = (torch.randn(2, 3), torch.ones(3), torch.arange(4.0), torch.ones(1))
    program = export(Shadowing(), given)
    if stage == "saved":
        torch.export.save(program, tmp_path / "program.pt2")
        program = torch.export.load(tmp_path / "program.pt2")
    if stage == "decomposed":
        program = program.run_decompositions()
    inputs = [node.name for node in program.graph.nodes if node.op == "placeholder"]
    assert inputs == ["input", "sum", "slice", "add"]
    program.validate()
    assert torch.equal(program.module()(*given), Shadowing()(*given))
