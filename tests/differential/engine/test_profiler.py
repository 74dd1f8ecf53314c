"""The profiler beside torch's: names, links, nesting, schedules."""

import pytest

torch = pytest.importorskip("torch")

import pullback


def program(lib):
    class Twice(lib.autograd.Function):
        @staticmethod
        def forward(ctx, x, factor):
            return x * factor

        @staticmethod
        def backward(ctx, g):
            return g * 2, None

    def run():
        x = lib.ones(3, 4, requires_grad=True)
        w = lib.ones(4, 2, requires_grad=True)
        with lib.autograd.profiler.record_function("mine"):
            y = Twice.apply(lib.mm(x, w), 2.0).tanh()
        (y.exp() * y).sum().backward()

    return run


def events(lib):
    run = program(lib)
    run()
    with lib.autograd.profiler.profile(record_shapes=True) as prof:
        run()
    return list(prof.function_events)


NAMES = ("mine", "Twice", "aten::mm", "aten::tanh", "aten::exp", "aten::mul", "aten::sum")


def forward_of(found):
    end = next(i for i, event in enumerate(found) if "evaluate_function" in event.name)
    return [event for event in found[:end] if event.name in NAMES]


def test_the_forward_has_the_same_events_shapes_and_nesting():
    """B-87, B-89, F-110"""

    def facts(lib):
        rows = []
        for event in forward_of(events(lib)):
            parent = event.cpu_parent.name if event.cpu_parent is not None else None
            shapes = [shape for shape in event.input_shapes if shape]
            rows.append((event.name, parent, shapes))
        return rows

    assert facts(pullback) == facts(torch)


def test_the_backward_has_the_same_nodes_in_the_same_order():
    """E-164"""

    def nodes(lib):
        evaluations = [e for e in events(lib) if "evaluate_function" in e.name]
        return [event.name for event in evaluations if "AccumulateGrad" not in event.name]

    assert nodes(pullback) == nodes(torch)


def test_forward_and_backward_are_linked_alike():
    """B-88, F-110"""

    def links(lib):
        found = events(lib)
        by_number = {event.sequence_nr: event.name for event in forward_of(found)[::-1]}
        nodes = [e for e in found if e.name.endswith(("Backward0", "Backward")) and e.scope == 1]
        return {event.name: by_number[event.sequence_nr] for event in nodes}

    assert links(pullback) == links(torch)


@pytest.mark.parametrize(
    "options",
    [
        {"wait": 1, "warmup": 1, "active": 2, "repeat": 2, "skip_first": 1},
        {"wait": 0, "warmup": 0, "active": 1},
        {"wait": 2, "warmup": 1, "active": 1, "repeat": 1, "skip_first": 2, "skip_first_wait": 1},
        {"wait": 2, "warmup": 0, "active": 2, "repeat": 2, "skip_first_wait": 1},
    ],
)
@pytest.mark.filterwarnings("ignore:Profiler won.t be using warmup")
def test_schedules_agree(options):
    """B-92"""
    ours, theirs = pullback.profiler.schedule(**options), torch.profiler.schedule(**options)
    assert [ours(step).name for step in range(20)] == [theirs(step).name for step in range(20)]


def test_the_tables_have_the_same_columns():
    """B-90"""

    def columns(lib):
        with lib.autograd.profiler.profile(record_shapes=True, profile_memory=True) as prof:
            lib.ones(3).exp()
        table = prof.key_averages(group_by_input_shape=True).table()
        return [name.strip() for name in table.splitlines()[1].split("  ") if name.strip()]

    assert columns(pullback) == columns(torch)
