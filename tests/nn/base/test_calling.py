"""Calls of modules with hooks around them."""

import pytest

import pullback as torch
from pullback import nn
from pullback.func import functional_call
from pullback.nn.modules import module as of_all


def test_a_second_derivative_passes_a_full_backward_hook():
    called = []
    loss = nn.MSELoss()
    loss.register_full_backward_hook(lambda *args: called.append(1))
    x = torch.ones(1, requires_grad=True)
    (g,) = torch.autograd.grad(loss(x, torch.zeros(1)), x, create_graph=True)
    (second,) = torch.autograd.grad(g, x)
    assert second.item() == 2.0
    assert called == [1]


def test_hooks_for_all_modules_come_first_and_go():
    order = []
    layer = nn.Sequential(nn.ReLU())
    layer.register_forward_pre_hook(lambda *args: order.append("own before"))
    layer.register_forward_hook(lambda *args: order.append("own after"))
    handles = [
        of_all.register_module_forward_pre_hook(lambda m, args: order.append(type(m).__name__)),
        of_all.register_module_forward_hook(lambda m, args, out: order.append("all after")),
    ]
    layer(torch.ones(1))
    assert order == [
        *("Sequential", "own before", "ReLU", "all after", "all after", "own after"),
    ]
    for handle in handles:
        handle.remove()
    order.clear()
    layer(torch.ones(1))
    assert order == ["own before", "own after"]


def test_hooks_for_all_modules_see_kwargs_and_failures():
    class Failing(nn.Module):
        def forward(self, x, *, scale=1):
            raise KeyError(scale)

    seen = []
    with (
        of_all.register_module_forward_hook(
            lambda m, args, kwargs, out: seen.append((kwargs, out)),
            with_kwargs=True,
            always_call=True,
        ),
        pytest.raises(KeyError),
    ):
        Failing()(torch.ones(1), scale=3)
    assert seen == [({"scale": 3}, None)]


@pytest.mark.filterwarnings("ignore:A backward hook of the old kind")
def test_backward_hooks_for_all_modules():
    seen = []
    handles = [
        of_all.register_module_full_backward_pre_hook(lambda m, g: seen.append("before")),
        of_all.register_module_full_backward_hook(lambda m, gi, go: seen.append(go[0].item())),
    ]
    try:
        x = torch.ones(1, requires_grad=True)
        (nn.Identity()(x * 2) * 3).backward()
    finally:
        for handle in handles:
            handle.remove()
    assert seen == ["before", 3.0]
    with of_all.register_module_backward_hook(lambda m, gi, go: seen.append(gi)):
        x = torch.ones(1, requires_grad=True)
        nn.ReLU()(x).backward()
    assert len(seen) == 3


def test_both_kinds_of_backward_hooks_for_all_modules_cannot_be_mixed():
    with (
        of_all.register_module_full_backward_hook(lambda *args: None),
        pytest.raises(RuntimeError, match="old kind"),
    ):
        of_all.register_module_backward_hook(lambda *args: None)


def test_registrations_are_seen_and_replaced():
    seen = []
    handles = [
        of_all.register_module_parameter_registration_hook(lambda m, n, p: seen.append(n)),
        of_all.register_module_buffer_registration_hook(lambda m, n, b: b + 1),
        of_all.register_module_module_registration_hook(lambda m, n, c: seen.append(n)),
    ]
    try:
        module = nn.Module()
        module.inner = nn.Linear(1, 1)
        module.register_buffer("count", torch.zeros(1))
        module.count = torch.ones(1)
    finally:
        for handle in handles:
            handle.remove()
    assert seen == ["weight", "bias", "inner"]
    assert module.count.item() == 2.0


class Counting(nn.Module):
    def __init__(self):
        super().__init__()
        self.plain = torch.ones(1)
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x):
        self.count = self.count + 1
        return x * self.plain


def test_functional_call_replaces_plain_tensors_and_writes_assignments_back():
    module = Counting()
    given = {"plain": torch.full((1,), 5.0), "count": torch.full((1,), 7.0)}
    assert functional_call(module, given, torch.ones(1)).item() == 5.0
    assert given["count"].item() == 8.0
    assert module.count.item() == 0.0
    assert module.plain.item() == 1.0


def test_functional_call_replaces_tensors_only():
    with pytest.raises(TypeError, match="only tensors"):
        functional_call(nn.Sequential(nn.ReLU()), {"0": torch.ones(1)}, torch.ones(1))


def test_compile_needs_a_compiler_and_uses_it(monkeypatch):
    layer = nn.ReLU()
    monkeypatch.setattr(torch, "compile", lambda f, **options: lambda x: f(x) + 1, raising=False)
    layer.compile()
    assert layer(torch.ones(1)).item() == 2.0


@pytest.mark.parametrize(
    ("forward", "reason"),
    [
        (lambda x: x.exp(), None),
        (lambda x: (x.exp(),), None),
        (lambda x: x.detach(), None),
        (lambda x: {"a": x * 2}, "something else than"),
        (lambda x: [x * 2], "something else than"),
        (lambda x: (x * 2, x * 3), "different nodes"),
        (lambda x: x * 2 + 1, "multiple nodes"),
    ],
)
def test_a_hook_of_the_old_kind_says_where_it_misses_gradients(forward, reason):

    class Made(torch.nn.Module):
        def forward(self, x):
            return forward(x)

    module = Made()
    module.register_backward_hook(lambda *args: None)
    x = torch.ones(2, requires_grad=True) * 1
    if reason is None:
        module(x)
        return
    with pytest.warns(FutureWarning, match=reason) as heard:
        module(x)
    assert heard[0].filename == __file__
