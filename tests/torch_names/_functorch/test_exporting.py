"""`aot_export_module`: one functional graph of a module, its state first, with its backward."""

import copy

import pytest
from pullback._functorch.aot_autograd import aot_export_module

import pullback as torch
from pullback import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)
        self.norm = nn.BatchNorm1d(2)
        self.unused = nn.Parameter(torch.ones(1))

    def forward(self, x):
        y = self.norm(self.layer(x))
        return y.sin().sum(), x * 2


@pytest.fixture(autouse=True)
def _seeded():
    torch.manual_seed(0)


def state(module):
    return [*module.parameters(), *module.buffers()]


@pytest.mark.parametrize("options", [{}, {"pre_dispatch": True}, {"dynamic_shapes": False}])
def test_writes_are_outputs_and_results_the_modules(options):
    module, x = Model(), torch.randn(3, 2)
    graph, signature = aot_export_module(module, (x,), trace_joint=False, **options)
    eager = copy.deepcopy(module)
    loss, doubled = eager(x)
    before = [one.clone() for one in module.buffers()]
    *written, found, other = graph(*state(module), x)
    for one, wanted in zip(written, eager.buffers(), strict=True):
        assert torch.allclose(one, wanted)
    assert torch.allclose(found, loss, atol=1e-5)
    assert torch.equal(other, doubled)
    assert all(torch.equal(a, b) for a, b in zip(module.buffers(), before, strict=True))
    names = [name for name, _ in module.named_buffers()]
    assert list(signature.buffers_to_mutate.values()) == signature.buffers == names
    assert signature.parameters == [name for name, _ in module.named_parameters()]
    assert len(signature.user_outputs) == 2
    assert signature.backward_signature is None


def test_gradients_come_last():
    module, x = Model(), torch.randn(3, 2, requires_grad=True)
    graph, signature = aot_export_module(module, (x,), trace_joint=True, output_loss_index=0)
    outputs = zip(graph.graph.output_node().args[0], graph(*state(module), x), strict=True)
    made = {node.name: one for node, one in outputs if node is not None}
    module(x)[0].backward()
    backward = signature.backward_signature
    by_name = dict(module.named_parameters())
    assert set(backward.gradients_to_parameters.values()) == set(by_name) - {"unused"}
    for name, target in backward.gradients_to_parameters.items():
        assert torch.allclose(made[name], by_name[target].grad, atol=1e-5)
    ((name, target),) = backward.gradients_to_user_inputs.items()
    assert target == signature.user_inputs[0]
    assert torch.allclose(made[name], x.grad, atol=1e-5)
    assert backward.loss_output == signature.user_outputs[0]


def test_what_cannot_be_exported_so():
    module, x = Model(), torch.ones(3, 2)
    with pytest.raises(RuntimeError, match="output_loss_index"):
        aot_export_module(module, (x,), trace_joint=True)
    with pytest.raises(RuntimeError, match="no loss"):
        aot_export_module(module, (x,), trace_joint=True, output_loss_index=1)
    with pytest.raises(NotImplementedError, match="export"):
        aot_export_module(module, (x,), trace_joint=False, dynamic_shapes=True)
