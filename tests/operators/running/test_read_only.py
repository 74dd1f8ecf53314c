"""No operator writes to read-only memory: each refuses in words that say what to do."""

import numpy
import pytest

import pullback as torch

pytestmark = pytest.mark.filterwarnings("ignore:.*read-only")

VALUES = [1.0, 2.0, 3.0, 4.0]
# These change what a tensor is, not its elements; or call back for each element.
NOT_WRITES = {
    "requires_grad_", "share_memory_", "set_", "resize_", "resize_as_", "as_strided_", "detach_",
    "t_", "transpose_", "swapaxes_", "swapdims_", "squeeze_", "unsqueeze_", "apply_", "map_",
    "map2_", "rename_",
}  # fmt: skip
NAMES = sorted(
    name
    for name in dir(torch.Tensor)
    if name.endswith("_") and not name.startswith("_") and name not in NOT_WRITES
)


def arguments():
    """Arguments of which most methods take one or another."""
    place, one, mask = torch.tensor([0]), torch.ones(1), torch.ones(4, dtype=torch.bool)
    four = torch.full((4,), 2.0)
    yield from [(), (2.0,), (four,), (0,), (2, 3), (0.5,), (0, 1), (four, four), (four, 0.5)]
    yield from [(mask, 5.0), (mask, four), (place, one), ((place,), one), ((place,), one, True)]
    yield from [(place, one, True), (0, place, 2.0), (0, place, one), (2, 0, 1.0)]
    yield from [(0, place, one, way) for way in ("sum", "prod", "amax", "amin", "mean")]


def fixed(values, shape=(-1,)):
    array = numpy.array(values, numpy.float32).reshape(shape)
    array.flags.writeable = False
    return torch.from_numpy(array)


def works(name, given):
    try:
        getattr(torch.tensor(VALUES), name)(*given)
    except Exception:
        return False
    return True


@pytest.mark.parametrize("name", NAMES)
def test_in_place_methods_refuse_read_only_memory(name):
    for given in arguments():
        if not works(name, given):
            continue
        x = fixed(VALUES)
        with pytest.raises(RuntimeError, match="read-only"):
            getattr(x, name)(*given)
        assert x.tolist() == VALUES


OTHERS = {
    "element": lambda x: x.__setitem__(0, 1.0),
    "slice": lambda x: x.__setitem__(slice(2), torch.zeros(2)),
    "places": lambda x: x.__setitem__(torch.tensor([0]), torch.zeros(1)),
    "mask": lambda x: x.__setitem__(x > 1, 0.0),
    "out": lambda x: torch.add(torch.ones(4), 1, out=x),
    "several outs": lambda x: torch.sort(torch.ones(4), out=(x, torch.zeros(4).long())),
    "view": lambda x: x.view(2, 2).t().add_(torch.ones(2, 2)),
    "addmm_": lambda x: x.view(2, 2).addmm_(torch.ones(2, 2), torch.ones(2, 2)),
    "fill_diagonal_": lambda x: x.view(2, 2).fill_diagonal_(0.0),
    "tril_": lambda x: x.view(2, 2).tril_(),
    "foreach": lambda x: torch._foreach_add_([x], 1.0),
    "dropout": lambda x: torch.nn.functional.dropout(x, 0.5, inplace=True),
    "relu": lambda x: torch.nn.functional.relu_(x),
    "init": lambda x: torch.nn.init.uniform_(x),
    "batch_norm": lambda x: torch.nn.functional.batch_norm(
        torch.randn(3, 4), x, torch.ones(4), training=True
    ),
}


@pytest.mark.parametrize("write", OTHERS.values(), ids=OTHERS)
def test_other_writes_refuse_read_only_memory(write):
    x = fixed(VALUES)
    for _ in range(2):  # the first call of an operator takes another way
        with pytest.raises(RuntimeError, match="read-only"):
            write(x)
        assert x.tolist() == VALUES
