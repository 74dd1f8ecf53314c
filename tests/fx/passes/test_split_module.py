"""A graph as several: each part a submodule, results handed from one to the next."""

import pytest

import pullback as torch
from pullback import fx, nn
from pullback.fx.passes.split_module import split_module

X = torch.ones(2, 3)


def test_parts_compute_what_the_whole_does():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = nn.Linear(3, 3), nn.Linear(3, 3)
            self.scale = nn.Parameter(torch.full((3,), 2.0))

        def forward(self, x):
            a = self.first(x)
            b = a * self.scale
            return self.second(b) + a, b

    whole = fx.symbolic_trace(Net())
    places = {"first": 0, "mul": 0, "second": 1, "add": 1}
    names = {}
    split = split_module(whole, whole, lambda node: places[node.name], names)
    assert [name for name, _ in split.named_children()] == ["submod_0", "submod_1"]
    for ours, theirs in zip(split(X), whole(X), strict=True):
        assert torch.equal(ours, theirs)
    assert names == {
        "submod_0.first": "first",
        "submod_0.scale": "scale",
        "submod_1.second": "second",
    }


def test_parts_that_need_each_other_are_refused():
    whole = fx.symbolic_trace(lambda x: x.sin().cos().tan())
    with pytest.raises(RuntimeError, match="need"):
        split_module(whole, whole, lambda node: int(node.name == "cos"))
