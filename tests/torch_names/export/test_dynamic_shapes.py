"""Sizes of exported programs that vary, and the conditions on them."""

import pytest
from pullback.export import Dim, dims, export

import pullback as torch
from pullback import nn
from pullback.torch_names.export._conditions import Condition


class Module(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *args):
        return self.function(*args)


def of(function, args, shapes):
    return export(Module(function), args, dynamic_shapes=shapes)


def test_one_size_in_two_places():
    program = of(lambda x, y: x + y.sum(), (torch.ones(8, 2), torch.ones(8)), [{0: Dim("n")}] * 2)
    run = program.module()
    assert run(torch.ones(5, 2), torch.ones(5))[0, 0] == 6
    with pytest.raises(AssertionError, match="Guard failed"):
        run(torch.ones(5, 2), torch.ones(6))
    assert len(program.range_constraints) == 1


def test_numbers_follow_sizes():
    def function(x):
        count = x.shape[0]
        return x.reshape(count * 2, -1)[: count // 2] + torch.arange(count // 2)[:, None], count

    program = of(function, (torch.ones(8, 4),), ({0: Dim("n", max=64)},))
    for later in (program, program.run_decompositions()):
        for size in (8, 6, 21, 64):
            x = torch.randn(size, 4)
            found, count = later.module()(x)
            wanted, _ = function(x)
            assert count == size
            assert torch.equal(found, wanted)


def test_an_encoder_takes_other_batches_and_lengths():
    layer = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True).eval()
    shapes = ({0: Dim("batch"), 1: Dim("length", max=32)},)
    program = export(layer, (torch.ones(2, 3, 4),), dynamic_shapes=shapes)
    x = torch.randn(5, 7, 4)
    for later in (program, program.run_decompositions()):
        assert torch.allclose(later.module()(x), layer(x), atol=1e-6)


def branching(x):
    return x * 2 if x.shape[0] > 4 else x - 1


def test_what_a_module_decides_by_a_size_is_a_condition():
    run = of(branching, (torch.ones(8),), ({0: Dim.DYNAMIC},)).module()
    assert torch.equal(run(torch.ones(6)), torch.full((6,), 2.0))
    with pytest.raises(AssertionError, match="Guard failed"):
        run(torch.ones(3))


def test_a_range_in_which_the_module_decides_otherwise_is_refused():
    with pytest.raises(ValueError, match=r"n"):
        of(branching, (torch.ones(8),), ({0: Dim("n", min=3, max=20)},))
    program = of(branching, (torch.ones(8),), ({0: Dim("n", min=5, max=20)},))
    assert str(program.range_constraints) == "{'s0': VR[5, 20]}"
    with pytest.raises(AssertionError, match="<= 20"):
        program.module()(torch.ones(21))


def test_automatic_sizes_stay_where_they_cannot_vary():
    def function(x):
        return sum(x[n] for n in range(x.shape[0]))

    program = of(function, (torch.ones(3, 2),), ({0: Dim.AUTO},))
    assert program.range_constraints == {}
    with pytest.raises(AssertionError, match="Guard failed"):
        program.module()(torch.ones(4, 2))
    with pytest.raises(ValueError, match="vary"):
        of(function, (torch.ones(3, 2),), ({0: Dim.DYNAMIC},))


@pytest.mark.parametrize(
    ("shapes", "says"),
    [
        ({"q": None}, "names of the arguments"),
        ([{3: Dim("n")}], "dimension 3"),
        ([{0: 5}], "size 5"),
        ([{0: Dim("n", min=9)}], "between 9"),
        ([None, None], "2 entries"),
    ],
)
def test_wrong_shapes_are_refused(shapes, says):
    class One(nn.Module):
        def forward(self, x):
            return x

    with pytest.raises(ValueError, match=says):
        export(One(), (torch.ones(4),), dynamic_shapes=shapes)


def test_dims():
    assert repr(dims("a", "b", max=4)) == "(Dim('a', min=0, max=4), Dim('b', min=0, max=4))"
    assert (Dim("a", min=2).min, Dim.AUTO() == Dim.AUTO, Dim.AUTO == Dim.DYNAMIC) == (
        2,
        True,
        False,
    )
    with pytest.raises(NotImplementedError, match="expressions of others"):
        Dim("a") + 1
    with pytest.raises(AssertionError):
        Dim("a", min=3, max=2)


def test_lengths_of_parts_are_conditions_and_nothing_near_them_is():
    part = Condition("len(range((2 * s0))[None:(s0 // 2):1]) == (s0 // 2)", True, {"s0"})
    assert part.holds({"s0": 7})
    assert not part.holds({"s0": -7})
    assert not Condition("len(range(s0)[1:9:0]) == 3", True, {"s0"}).holds({"s0": 4})
    assert not Condition("len(range(s0 / 2)[1:9:1]) == 3", True, {"s0"}).holds({"s0": 4})
    others = """
        len(s0) len(range(s0)) len(range(s0)[1]) len(list(s0)[1:2]) range(s0)[1:2]
        len(range(open(s0))[1:2]) len(range(s0)[None:s1])
    """
    for text in others.split():
        with pytest.raises(ValueError, match="no arithmetic"):
            Condition(f"{text} == 1", True, {"s0"})


def test_conditions_of_slices_and_rounded_sizes_are_kept_in_the_program():
    def function(x):
        return x[10:150] * (x.shape[0] // 100 + 1) + (x * (x.shape[0] >> 9)).sum()

    program = of(function, (torch.ones(40),), ({0: Dim("n", min=20)},))
    for size in (40, 44, 60, 90):
        x = torch.randn(size)
        assert torch.allclose(program.module()(x), function(x), atol=1e-5)
    for size in (150, 200, 600):
        with pytest.raises(AssertionError, match="Guard failed"):
            program.module()(torch.ones(size))


def test_pools_keep_how_many_windows_there_are():
    def function(x):
        return torch.nn.functional.avg_pool1d(x[None], 64, 64)

    program = of(function, (torch.ones(80),), ({0: Dim("n")},))
    for size in (80, 90, 127):
        x = torch.randn(size)
        assert torch.allclose(program.module()(x), function(x), atol=1e-5)
    with pytest.raises(AssertionError, match="Guard failed"):
        program.module()(torch.ones(128))
