"""Exported programs against torch's: signature, operators, ranges and what is refused."""

import pullback.export
import pytest

import pullback

torch = pytest.importorskip("torch")


def modules(m):
    class Nested(m.nn.Module):
        def __init__(self):
            super().__init__()
            self.shift = m.ones(2)
            self.register_buffer("scale", m.ones(2), persistent=False)

        def forward(self, x, pair, k):
            return {"a": x * k + self.scale, "b": [pair[0] + self.shift, 3]}

    class Assigns(m.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("seen", m.zeros(2))

        def forward(self, x):
            self.seen = self.seen + x
            return self.seen * 2

    class Writes(m.nn.Module):
        def forward(self, x):
            x.mul_(2)
            return x + 1

    net = m.nn.Sequential(
        m.nn.Conv2d(1, 2, 3), m.nn.BatchNorm2d(2), m.nn.ReLU(), m.nn.MaxPool2d(2), m.nn.Flatten(),
        m.nn.Linear(18, 3), m.nn.Softmax(-1),
    )  # fmt: skip
    norm = m.nn.Sequential(m.nn.Linear(2, 4), m.nn.LayerNorm(4), m.nn.GELU(), m.nn.Dropout())
    return {
        "net": (net, (m.ones(2, 1, 8, 8),)),
        "norm": (norm, (m.ones(3, 2),)),
        "nested": (Nested(), (m.ones(3, 2), (m.ones(2), 1.5), 2)),
        "assigns": (Assigns(), (m.ones(2),)),
        "writes": (Writes(), (m.ones(2),)),
    }


NAMES = ("net", "norm", "nested", "assigns", "writes")


def exported(m, name):
    module, args = modules(m)[name]
    return m.export.export(module, args)


def kinds(specs):
    return [(one.kind.name, one.target, getattr(one, "persistent", None)) for one in specs]


@pytest.mark.parametrize("name", NAMES)
def test_signatures_and_operators_are_torchs(name):
    ours, theirs = exported(pullback, name), exported(torch, name)
    assert kinds(ours.graph_signature.input_specs) == kinds(theirs.graph_signature.input_specs)
    assert kinds(ours.graph_signature.output_specs) == kinds(theirs.graph_signature.output_specs)
    assert list(ours.state_dict) == list(theirs.state_dict)
    assert set(ours.constants) == set(theirs.constants)

    def called(program):
        nodes = program.graph.find_nodes(op="placeholder")
        calls = [str(n.target) for n in program.graph.nodes if n.op == "call_function"]
        # What switches recording around an assigned buffer is inside of the operator there.
        return len(nodes), [one for one in calls if "grad_enabled" not in one]

    assert called(ours) == called(theirs)


@pytest.mark.filterwarnings("ignore::FutureWarning")  # of torch's, about itself
@pytest.mark.parametrize("name", ["nested", "assigns", "writes"])
def test_what_is_written_is_an_output_as_in_torch(name):
    ours, theirs = (exported(m, name).run_decompositions() for m in (pullback, torch))

    def outputs(program):
        return [one.kind.name for one in program.graph_signature.output_specs]

    assert outputs(ours) == outputs(theirs)
    assert (
        kinds(ours.graph_signature.output_specs)[0][1]
        == (kinds(theirs.graph_signature.output_specs)[0][1])
    )


def test_ranges_follow_from_what_is_decided():
    def ranges(m):
        class Decides(m.nn.Module):
            def forward(self, x):
                return x * 2 if x.shape[0] > 4 else x

        dim = m.export.Dim("n", min=5, max=100)
        program = m.export.export(Decides(), (m.ones(8),), dynamic_shapes=({0: dim},))
        ((_, found),) = program.range_constraints.items()
        return int(found.lower), int(found.upper)

    assert ranges(pullback) == ranges(torch) == (5, 100)
