"""The page's data know modules, norms and parameters that are not reached."""

import math

import pytest

import pullback as torch
from pullback import nn
from pullback.autograd.graph import name_modules, show
from pullback.autograd.show.groups import Group


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.down(self.up(x).relu())


class Model(nn.Module):
    def __init__(self, blocks=2):
        super().__init__()
        self.embed = nn.Linear(4, 8)
        self.blocks = nn.Sequential(*[Block(8) for _ in range(blocks)])
        self.extra = nn.Linear(8, 8)

    def forward(self, x):
        return self.blocks(self.embed(x))


def page(watched=True, blocks=2, **options):
    torch.manual_seed(0)
    model = Model(blocks)
    if watched:
        with name_modules(model):
            loss = model(torch.randn(5, 4)).pow(2).mean()
    else:
        loss = model(torch.randn(5, 4)).pow(2).mean()
    return show(loss, params=model, **options)


def labels(group):
    found = []
    for item in group.items:
        if isinstance(item, Group):
            found += [item.label, *labels(item)]
    return found


@pytest.mark.parametrize("watched", [True, False])
def test_modules_are_groups_inside_groups(watched):
    found = labels(page(watched).groups)
    assert found[:3] == ["blocks: Sequential", "blocks.0: Block", "blocks.1: Block"]


def test_blocks_that_repeat_are_one_fold():
    found = labels(page(blocks=6).groups)
    assert any(label.endswith("6 times") for label in found)


def test_every_node_is_in_one_group_and_groups_make_no_cycle():
    made = page()
    numbers = list(made.groups.nodes())
    assert sorted(numbers) == list(range(len(made)))


def test_parameters_that_are_not_reached_are_boxes_without_edges():
    made = page()
    apart = [node for node in made.graph.nodes if node.kind == "unreached"]
    assert [node.label for node in apart] == ["extra.weight", "extra.bias"]
    assert all(not node.edges and "was not used" in node.why for node in apart)
    assert made.graph.counts["unreached"] == 2
    assert "extra.weight" in made.svg(expand=True)
    assert "extra.weight" in made.dot(expand=True)


def test_norms_are_those_of_a_pass_that_leaves_nothing_behind():
    torch.manual_seed(0)
    model = Model()
    loss = model(torch.randn(5, 4)).pow(2).mean()
    made = show(loss, params=model, norms=True)
    assert model.embed.weight.grad is None
    loss.backward()
    norms = {node.label: node.norm for node in made.graph.nodes if node.kind == "parameter"}
    for name, parameter in model.named_parameters():
        if not name.startswith("extra"):
            assert norms[name] == pytest.approx(parameter.grad.norm().item(), rel=1e-4)
    assert all(node.norm is None for node in show(loss).graph.nodes)


def test_norms_that_are_not_finite_can_be_written():
    x = torch.zeros(2, requires_grad=True)
    made = show((x.sqrt() * 0).sum(), norms=True)
    assert any(node.norm is not None and math.isnan(node.norm) for node in made.graph.nodes)
    assert '"norm":"nan"' in made.html()


def test_pairs_from_a_generator_name_leaves_and_what_is_missing():
    model = Model()
    made = show(model(torch.randn(5, 4)).sum(), params=model.named_parameters())
    shown = {node.label for node in made.graph.nodes if node.label}
    assert {"embed.weight", "extra.bias"} <= shown
