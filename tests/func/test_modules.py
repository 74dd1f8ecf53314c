"""functional_call, stack_module_state and functionalize, on a class with a module's interface."""

import pytest

import pullback as torch
from pullback.func import (
    functional_call,
    functionalize,
    grad,
    replace_all_batch_norm_modules_,
    stack_module_state,
    vmap,
)

tensor = torch.tensor


class Layer:
    """The part of a module that these functions ask for."""

    training = True

    def __init__(self, weight, child=None):
        self._parameters = {"weight": weight}
        self._buffers = {"count": tensor(0.0)}
        self.child = child

    def _walk(self, table, prefix=""):
        for name, value in getattr(self, table).items():
            yield prefix + name, value
        if self.child is not None:
            yield from self.child._walk(table, prefix + "child.")

    def named_parameters(self, remove_duplicate=True):
        return self._walk("_parameters")

    def named_buffers(self, remove_duplicate=True):
        return self._walk("_buffers")

    def __call__(self, v, scale=1.0):
        self._buffers["count"].add_(1)
        out = v * self._parameters["weight"] * scale
        return out if self.child is None else self.child(out)


def layer():
    return Layer(tensor(2.0), Layer(tensor(3.0)))


def test_given_tensors_stand_in_and_the_own_come_back():
    """T-103"""
    module = layer()
    made = functional_call(module, {"weight": tensor(5.0)}, tensor(1.0), {"scale": 2.0})
    assert made.item() == 30
    assert module(tensor(1.0)).item() == 6
    with pytest.raises(TypeError):
        functional_call(module, {"weight": tensor(5.0)}, (1, 2, 3))
    assert module._parameters["weight"].item() == 2


def test_several_dicts_and_their_mistakes():
    """T-103"""
    module = layer()
    both = ({"weight": tensor(5.0)}, {"child.weight": tensor(7.0)})
    assert functional_call(module, both, (tensor(1.0),)).item() == 35
    for wrong in (({"weight": 1}, {"weight": 2}), [3], 3):
        with pytest.raises(ValueError, match="functional_call"):
            functional_call(module, wrong, (tensor(1.0),))


def test_strictness():
    """T-104"""
    module = layer()
    assert functional_call(module, {"unknown": tensor(1.0)}, (tensor(1.0),)).item() == 6
    with pytest.raises(RuntimeError, match="unknown"):
        functional_call(module, {"unknown": tensor(1.0)}, (tensor(1.0),), strict=True)


def test_tied_weights_change_together():
    """T-105"""
    shared = tensor(2.0)
    module = Layer(shared, Layer(shared))
    given = {"weight": tensor(3.0)}
    assert functional_call(module, given, (tensor(1.0),)).item() == 9
    assert functional_call(module, given, (tensor(1.0),), tie_weights=False).item() == 6
    with pytest.raises(ValueError, match="tied"):
        functional_call(
            module, {"weight": tensor(3.0), "child.weight": tensor(4.0)}, (tensor(1.0),)
        )


def test_writes_to_buffers_go_to_the_given_ones():
    """T-106"""
    module, count = layer(), tensor(0.0)
    functional_call(module, {"count": count}, (tensor(1.0),))
    assert count.item() == 1
    assert module._buffers["count"].item() == 0


def test_gradient_with_respect_to_the_parameters():
    """T-86, T-103"""
    module = layer()
    params = dict(module.named_parameters())
    made = grad(lambda p, v: functional_call(module, p, (v,)))(params, tensor(1.0))
    assert made["weight"].item() == 3
    assert made["child.weight"].item() == 2


def test_ensembles_are_mapped():
    """T-107"""
    models = [Layer(tensor(float(n))) for n in range(3)]
    params, buffers = stack_module_state(models)
    base = Layer(tensor(0.0))
    made = vmap(lambda p, b: functional_call(base, (p, b), (tensor(2.0),)))(params, buffers)
    assert made.tolist() == [0, 2, 4]
    assert not params["weight"].requires_grad


def test_stacking_refuses_what_differs():
    """T-107"""
    with pytest.raises(RuntimeError, match="none"):
        stack_module_state([])
    evaluating = Layer(tensor(1.0))
    evaluating.training = False
    with pytest.raises(RuntimeError, match="mode"):
        stack_module_state([Layer(tensor(1.0)), evaluating])

    class Another(Layer):
        pass

    with pytest.raises(RuntimeError, match="class"):
        stack_module_state([Layer(tensor(1.0)), Another(tensor(1.0))])
    with pytest.raises(RuntimeError, match="weight"):
        stack_module_state([Layer(tensor(1.0)), Layer(tensor(1.0, requires_grad=True))])


def test_batch_norms_lose_their_running_statistics():
    """T-155"""

    class BatchNorm1d:
        running_mean = running_var = num_batches_tracked = 1
        track_running_stats = True

        def modules(self):
            return [self]

    norm = BatchNorm1d()
    assert replace_all_batch_norm_modules_(norm) is norm
    assert norm.running_mean is None
    assert not norm.track_running_stats


def test_functionalize_writes_to_arguments_at_the_end():
    """T-108"""
    seen = []
    value = tensor([1.0, 2.0])

    def f(v):
        v.add_(1)
        seen.append(value.tolist())
        return v * 2

    made = functionalize(f)(value)
    assert seen == [[1, 2]]
    assert value.tolist() == [2, 3]
    assert made.tolist() == [4, 6]
    with pytest.raises(RuntimeError, match="mutations_and_views"):
        functionalize(f, remove="views")


def test_a_further_name_is_an_attribute_during_the_call():
    class Shifted(torch.nn.Linear):
        def forward(self, x):
            return super().forward(x) + self.extra

    layer = Shifted(2, 1, bias=False)
    extra = torch.ones(1, requires_grad=True)
    given = {"weight": torch.ones(1, 2), "extra": extra}
    out = functional_call(layer, given, torch.ones(2))
    assert torch.autograd.grad(out.sum(), extra)[0].tolist() == [1.0]
    assert out.item() == 3.0
    assert not hasattr(layer, "extra")


@pytest.mark.parametrize(
    ("name", "error"),
    [("", KeyError), ("nobody.weight", AttributeError), ("in_features", TypeError)],
)
def test_a_name_that_leads_nowhere_is_refused(name, error):
    with pytest.raises(error, match="functional_call"):
        functional_call(torch.nn.Linear(2, 1), {name: torch.ones(1)}, torch.ones(2))


def test_a_module_that_holds_itself_can_be_called_untied():
    class Held(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = torch.nn.Linear(1, 1, bias=False)
            self.myself = self

        def forward(self, x):
            return self.linear(x)

    given = {"linear.weight": torch.full((1, 1), 3.0)}
    made = torch.func.functional_call(Held(), given, torch.ones(1), tie_weights=False)
    assert made.item() == 3.0
