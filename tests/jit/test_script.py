"""Scripts run as Python, in the classes that TorchScript's users know."""

import copy
import pickle

import pytest

import pullback as torch
from pullback import nn
from pullback.jit.frontend import NotSupportedError

X = torch.ones(1, 2)


class Net(nn.Module):
    __constants__ = ("scale",)
    scale: torch.jit.Final[float]

    def __init__(self):
        super().__init__()
        self.layer = nn.Sequential(nn.Linear(2, 2), nn.Tanh())
        self.scale = 2.0

    def forward(self, x):
        return self.layer(x) * self.scale

    @torch.jit.export
    def shifted(self, x):
        return self.forward(x) + 1

    @torch.jit.ignore
    def plain(self, x):
        return x


def double(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def test_module_computes_the_same_and_shares_its_parameters():
    model = Net()
    scripted = torch.jit.script(model)
    assert isinstance(scripted, torch.jit.RecursiveScriptModule)
    assert isinstance(scripted.layer[0], torch.jit.ScriptModule)
    assert torch.equal(scripted(X), model(X))
    assert torch.equal(scripted.shifted(X), model(X) + 1)
    assert [id(p) for p in scripted.parameters()] == [id(p) for p in model.parameters()]
    assert sorted(scripted.state_dict()) == sorted(model.state_dict())
    assert scripted.original_name == "Net"
    assert repr(scripted).startswith("RecursiveScriptModule(")
    assert "self.scale" in scripted.code
    assert not isinstance(model, torch.jit.ScriptModule)


def test_scripted_module_trains_and_changes_its_mode_alone():
    model = Net()
    scripted = torch.jit.script(model)
    scripted(X).sum().backward()
    assert model.layer[0].weight.grad is not None
    scripted.eval()
    assert model.training
    assert not scripted.layer[1].training


def test_what_is_scripted_already_comes_back():
    scripted = torch.jit.script(Net())
    assert torch.jit.script(scripted) is scripted


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_scripted_modules_are_copied(copied):
    scripted = torch.jit.script(Net())
    other = copied(scripted)
    assert isinstance(other, torch.jit.ScriptModule)
    assert torch.equal(other(X), scripted(X))
    assert other.layer[0].weight is not scripted.layer[0].weight


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_scripted_graph_modules_are_copied(copied):
    scripted = torch.jit.script(torch.fx.symbolic_trace(Net()))
    other = copied(scripted)
    assert isinstance(other, torch.jit.ScriptModule)
    assert torch.equal(other(X), scripted(X))
    assert other.original_name == "Net"


def test_function_keeps_working_and_tells_its_source():
    scripted = torch.jit.script(double)
    assert isinstance(scripted, torch.jit.ScriptFunction)
    assert scripted(X).tolist() == [[2, 2]]
    assert scripted.code.startswith("def double")
    assert (scripted.name, scripted.qualified_name) == ("double", "__torch__.double")
    with pytest.raises(NotImplementedError, match="symbolic_trace"):
        scripted.graph


def test_scripted_function_is_a_method_where_it_stands_in_a_class():
    class Holder:
        def __init__(self):
            self.by = 3

        @torch.jit.script
        def times(self, x):
            return x * self.by

    assert Holder().times(2) == 6


def test_classes_and_interfaces_come_back_and_other_things_are_refused():
    class Pair:
        pass

    assert torch.jit.script(Pair) is Pair
    assert torch.jit.interface(Pair) is Pair
    with pytest.raises(RuntimeError, match="classes"):
        torch.jit.interface(3)
    with pytest.raises(TypeError, match="int"):
        torch.jit.script(3)
    with pytest.raises(NotImplementedError, match="Python"):
        torch.jit.CompilationUnit("def f(x): return x")


def test_script_modules_may_be_subclassed():
    class Twice(torch.jit.ScriptModule):
        def __init__(self):
            super().__init__()
            self.by = torch.jit.Attribute(2, int)

        @torch.jit.script_method
        def forward(self, x):
            return x * self.by

    assert Twice()(X).tolist() == [[2, 2]]


def test_marks_are_kept_and_change_nothing():
    from pullback import _jit_internal as marks

    assert marks.get_torchscript_modifier(Net.shifted) == marks.FunctionModifiers.EXPORT
    assert marks.is_ignored_fn(Net.plain)
    assert marks.module_has_exports(Net())
    assert not torch.jit.is_scripting()
    assert torch.jit.unused(double) is double
    assert torch.jit.ignore(drop=True)(double) is double
    assert torch.jit._overload(double) is double
    del double._torchscript_modifier


def test_small_helpers():
    assert torch.jit.annotate(list[int], []) == []
    assert torch.jit.isinstance([1, 2], list[int])
    assert not torch.jit.isinstance([1, "a"], list[int])
    assert torch.jit.isinstance({"a": (1, 2.0)}, dict[str, tuple[int, float]])
    assert torch.jit.isinstance(None, int | None)
    assert torch.jit.wait(torch.jit.fork(double, 3)) == 6
    before = torch.jit.set_fusion_strategy([("STATIC", 1)])
    assert torch.jit.set_fusion_strategy(before) == [("STATIC", 1)]
    torch.jit.enable_onednn_fusion(True)
    assert torch.jit.onednn_fusion_enabled()
    torch.jit.enable_onednn_fusion(False)
    with torch.jit.strict_fusion(), torch.jit.fuser("fuser1"):
        assert issubclass(NotSupportedError, Exception)


def test_frozen_module_is_a_copy_without_gradients():
    scripted = torch.jit.script(Net())
    with pytest.raises(RuntimeError, match="eval"):
        torch.jit.freeze(scripted)
    with pytest.raises(RuntimeError, match="script"):
        torch.jit.freeze(Net())
    frozen = torch.jit.freeze(scripted.eval())
    assert not frozen(X).requires_grad
    assert scripted(X).requires_grad
    assert torch.equal(torch.jit.optimize_for_inference(scripted)(X), scripted(X))
