"""Folds of repeated structure, and the layout of still pictures."""

import itertools
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

import pullback as torch
from pullback.autograd.graph import show
from pullback.autograd.show.groups import LARGEST, Group
from pullback.autograd.show.layered import Layers
from pullback.nn import Parameter


def block(x, w):
    return x + (x @ w).tanh().sigmoid()


def deep(layers):
    weights = [Parameter(torch.ones(3, 3) * 0.1) for _ in range(layers)]
    x = torch.ones(2, 3)
    for w in weights:
        x = block(x, w)
    return x.mean()


def groups_in(group):
    for item in group.items:
        if isinstance(item, Group):
            yield item
            yield from groups_in(item)


def test_the_layers_of_a_net_are_one_fold_of_rounds():
    page = show(deep(24))
    (repeat,) = [item for item in page.groups.items if isinstance(item, Group)]
    assert repeat.label == "block(), 24 times"
    assert len(repeat.items) == 24
    assert all(len(list(round_.nodes())) == 5 for round_ in repeat.items[1:])
    assert [round_.label for round_ in repeat.items][:2] == ["round 1 of 24", "round 2 of 24"]


def test_each_node_is_in_exactly_one_place():
    page = show(deep(24))
    assert sorted(page.groups.nodes()) == list(range(len(page)))


def test_a_leaf_is_where_all_who_use_it_are():
    shared, own = Parameter(torch.ones(3, 3)), [Parameter(torch.ones(3)) for _ in range(6)]
    x = torch.ones(2, 3)
    for bias in own:
        x = (x @ shared).tanh() + bias
    page = show(x.sum())
    (repeat,) = [item for item in page.groups.items if isinstance(item, Group)]
    labels = [page.graph.nodes[leaf].label for leaf in repeat.leaves]
    assert labels == ["shared"]
    assert all(len(round_.leaves) == 1 for round_ in repeat.items)


def test_inner_loops_fold_inside_outer_ones():
    x = torch.ones(2, requires_grad=True)
    y = x
    for _ in range(3):
        for _ in range(4):
            y = y.sin()
            y = y.cos()
        y = y * 2
    page = show(y)
    (outer,) = page.groups.items
    assert outer.label.endswith("3 times")
    inner = [item for item in outer.items[0].items if isinstance(item, Group)]
    assert [one.label.split(", ")[1] for one in inner] == ["4 times"]


def test_a_short_program_has_no_folds():
    x = torch.ones(2, requires_grad=True)
    assert list(groups_in(show((x.exp() + x).sin().sum()).groups)) == []


def long(steps):
    w, h = torch.ones(2, requires_grad=True), torch.zeros(2)
    total = torch.zeros(())
    for _ in range(steps):
        h = (h * w).tanh()
        total = total + h.sum()
    return total


def test_no_fold_holds_more_than_a_picture_can_show():
    page = show(long(500))
    assert all(len(group.items) <= LARGEST for group in [page.groups, *groups_in(page.groups)])
    assert sorted(page.groups.nodes()) == list(range(len(page)))


def test_a_graph_that_repeats_nothing_is_cut_in_pieces():
    import random

    chooser = random.Random(0)
    values = [torch.ones(2, requires_grad=True)]
    for _ in range(400):
        step = chooser.choice([torch.sin, torch.cos, torch.tanh])
        values.append(step(values[-1]) * values[chooser.randrange(len(values))])
    page = show(values[-1].sum())
    assert len(page.groups.items) <= LARGEST
    assert sorted(page.groups.nodes()) == list(range(len(page)))


def test_five_thousand_nodes_are_described_and_written_in_seconds():
    loss = long(1250)
    start = time.perf_counter()
    page = show(loss)
    assert len(page) > 5000
    assert len(page.html()) < 4_000_000
    assert "times" in page.svg()
    assert page.svg(expand=True).count("<g transform") == len(page)
    assert time.perf_counter() - start < 30


def test_a_folded_picture_has_few_boxes_and_an_expanded_one_all():
    page = show(deep(24))
    assert page.svg().count("<g transform") < 50
    assert page.svg(expand=True).count("<g transform") == len(page)
    assert page.dot(expand=True).count("label=") == len(page)


@st.composite
def graphs(draw):
    count = draw(st.integers(1, 25))
    pairs = st.tuples(st.integers(0, count - 1), st.integers(0, count - 1))
    found = draw(st.lists(pairs, max_size=50))
    return count, [(min(a, b), max(a, b)) for a, b in found if a != b]


@given(graphs(), st.integers(0, 3))
def test_boxes_never_overlap_and_edges_go_down(graph, seed):
    count, edges = graph
    widths = [20 + 17 * ((i * 7 + seed) % 5) for i in range(count)]
    heights = [10 + 9 * ((i * 5 + seed) % 3) for i in range(count)]
    layers = Layers(widths, heights, edges)
    for a in range(count):
        for b in range(a):
            across = abs(layers.x[a] - layers.x[b]) - (widths[a] + widths[b]) / 2
            down = abs(layers.y[a] - layers.y[b]) - (heights[a] + heights[b]) / 2
            assert across >= -1e-6 or down >= -1e-6
    for a, b in edges:
        assert layers.y[a] < layers.y[b]
        points = layers.points((a, b))
        assert all(p[1] <= q[1] for p, q in itertools.pairwise(points))
    assert min(x - w / 2 for x, w in zip(layers.x, widths, strict=False)) >= -1e-6


def test_a_tree_is_drawn_without_crossings_and_a_parent_in_the_middle():
    layers = Layers([10] * 7, [10] * 7, [(0, 1), (0, 2), (1, 3), (1, 4), (2, 5), (2, 6)])
    assert layers._crossings() == 0
    assert layers.x[1] == pytest.approx((layers.x[3] + layers.x[4]) / 2, abs=6)
