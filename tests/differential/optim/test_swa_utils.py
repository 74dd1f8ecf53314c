"""Averaged models next to torch's."""

import numpy
import pytest

from tests.differential.optim.sides import LIBRARIES, assert_same

AVERAGES = {
    "plain": lambda swa: {},
    "buffers": lambda swa: {"use_buffers": True},
    "ema": lambda swa: {"multi_avg_fn": swa.get_ema_multi_avg_fn(0.9)},
    "ema, one by one": lambda swa: {"avg_fn": swa.get_ema_avg_fn(0.7), "use_buffers": True},
    "ema, with buffers": lambda swa: {
        "multi_avg_fn": swa.get_ema_multi_avg_fn(0.9),
        "use_buffers": True,
    },
    "swa": lambda swa: {"multi_avg_fn": swa.get_swa_multi_avg_fn()},
    "swa, one by one": lambda swa: {"avg_fn": swa.get_swa_avg_fn()},
    "own": lambda swa: {"avg_fn": lambda mine, other, n: mine * 0.5 + other * 0.25 * n},
}


def model_of(library, seed):
    random = numpy.random.default_rng(seed)
    nn = library.nn
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 2))
    refill(library, model, random)
    return model


def refill(library, model, random):
    with library.no_grad():
        for p in (*model.parameters(), *model.buffers()):
            array = numpy.abs(random.standard_normal(tuple(p.shape)))
            p.copy_(library.tensor(array * 9 if not p.is_floating_point() else array))


@pytest.mark.parametrize("name", AVERAGES)
def test_averages_are_torchs(name):
    ends = []
    for library in LIBRARIES:
        swa = library.optim.swa_utils
        model = model_of(library, 0)
        averaged = swa.AveragedModel(model, **AVERAGES[name](swa))
        random = numpy.random.default_rng(3)
        for _ in range(4):
            averaged.update_parameters(model)
            refill(library, model, random)
        ends.append(dict(averaged.state_dict()))
    assert_same(ends[0], ends[1], 1e-5)


def test_batch_norm_statistics_are_computed_anew():
    ends = []
    for library in LIBRARIES:
        model = model_of(library, 1).eval()
        random = numpy.random.default_rng(4)
        arrays = [random.standard_normal((6, 3)).astype("float32") for _ in range(3)]
        batches = [library.tensor(array) for array in arrays]
        library.optim.swa_utils.update_bn([(batch, "label") for batch in batches], model)
        ends.append([dict(model.state_dict()), model.training, model[1].momentum])
    assert_same(ends[0], ends[1], 1e-5)
