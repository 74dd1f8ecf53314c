"""Every schedule next to torch's over thirty epochs: rates, momenta, state dicts, warnings."""

import math
import warnings

import pytest

import pullback
from tests.differential.optim.sides import LIBRARIES, assert_same, outcome, torch

EPOCHS = 30


class Halving:
    """A function of the epoch with attributes, which state dicts keep."""

    def __init__(self):
        self.base = 0.5

    def __call__(self, epoch):
        return self.base**epoch


def shrinking(epoch):
    return 0.95**epoch


# Name -> the schedule, given `lr_scheduler`, `swa_utils` and an optimizer with two groups.
SCHEDULES = {
    "lambda": lambda s, o, _: s.LambdaLR(o, shrinking),
    "lambdas": lambda s, o, _: s.LambdaLR(o, [shrinking, Halving()]),
    "multiplicative": lambda s, o, _: s.MultiplicativeLR(o, lambda epoch: 1 - 0.01 * epoch),
    "step": lambda s, o, _: s.StepLR(o, 4, 0.5),
    "milestones": lambda s, o, _: s.MultiStepLR(o, [3, 9, 9, 20], 0.3),
    "constant": lambda s, o, _: s.ConstantLR(o, 0.2, 6),
    "constant long": lambda s, o, _: s.ConstantLR(o, 0.5, 50),
    "line up": lambda s, o, _: s.LinearLR(o, 0.1, 1.0, 8),
    "line down": lambda s, o, _: s.LinearLR(o, 1.0, 0.0, 25),
    "exponential": lambda s, o, _: s.ExponentialLR(o, 0.9),
    "polynomial": lambda s, o, _: s.PolynomialLR(o, 12, 2.0),
    "cosine": lambda s, o, _: s.CosineAnnealingLR(o, 7, 0.01),
    "cosine long": lambda s, o, _: s.CosineAnnealingLR(o, 40),
    "triangular": lambda s, o, _: s.CyclicLR(o, 0.1, [0.5, 0.9], 4, 3),
    "triangular2": lambda s, o, _: s.CyclicLR(o, [0.1, 0.2], 0.5, 3, mode="triangular2"),
    "exp_range": lambda s, o, _: s.CyclicLR(o, 0.1, 0.5, 3, mode="exp_range", gamma=0.95),
    "own scale": lambda s, o, _: s.CyclicLR(
        o, 0.1, 0.5, 3, scale_fn=lambda x: 0.8**x, scale_mode="iterations", cycle_momentum=False
    ),
    "one cycle": lambda s, o, _: s.OneCycleLR(o, 0.7, 40),
    "one cycle, three phases": lambda s, o, _: s.OneCycleLR(
        o, [0.7, 0.3], epochs=4, steps_per_epoch=9, three_phase=True, anneal_strategy="linear"
    ),
    "restarts": lambda s, o, _: s.CosineAnnealingWarmRestarts(o, 4),
    "longer restarts": lambda s, o, _: s.CosineAnnealingWarmRestarts(o, 2, 2, 0.05),
    "one after another": lambda s, o, _: s.SequentialLR(
        o,
        [s.LinearLR(o, 0.1, 1.0, 5), s.CosineAnnealingLR(o, 10), s.ExponentialLR(o, 0.8)],
        [5, 18],
    ),
    "at once": lambda s, o, _: s.ChainedScheduler([s.LinearLR(o, 0.2), s.ExponentialLR(o, 0.95)]),
    "nested": lambda s, o, _: s.SequentialLR(
        o,
        [s.ChainedScheduler([s.ConstantLR(o, 0.5, 3), s.StepLR(o, 2)]), s.ExponentialLR(o, 0.9)],
        [6],
    ),
    "nested twice": lambda s, o, _: s.SequentialLR(
        o,
        [s.SequentialLR(o, [s.ConstantLR(o, 0.5, 3), s.StepLR(o, 2)], [4]), s.LinearLR(o)],
        [9],
    ),
    "swa": lambda s, o, swa: swa.SWALR(o, [0.05, 0.9], 6),
    "swa, line": lambda s, o, swa: swa.SWALR(o, 0.05, 9, "linear"),
    "swa at once": lambda s, o, swa: swa.SWALR(o, 0.05, 0),
}


def optimizer_of(library, kind="SGD"):
    params = [library.ones(2, requires_grad=True) for _ in range(2)]
    groups = [{"params": params[:1]}, {"params": params[1:], "lr": 0.4}]
    options = {"momentum": 0.9} if kind == "SGD" else {}
    return getattr(library.optim, kind)(groups, lr=0.6, **options)


def made(library, name, optimizer):
    with warnings.catch_warnings():
        if name.startswith("nested"):  # whose inner schedules step before the optimizer does
            warnings.simplefilter("ignore")
        return SCHEDULES[name](library.optim.lr_scheduler, optimizer, library.optim.swa_utils)


def shown(optimizer):
    return [
        {key: value for key, value in group.items() if key != "params"}
        for group in optimizer.param_groups
    ]


def epochs(schedule, optimizer, count):
    rates = []
    for _ in range(count):
        rates.append(list(schedule.get_last_lr()))
        optimizer.step()
        schedule.step()
    return rates


@pytest.mark.parametrize("kind", ["SGD", "Adam"])
@pytest.mark.parametrize("name", SCHEDULES)
def test_thirty_epochs_have_the_rates_and_the_state_of_torch(name, kind):
    ends = []
    for library in LIBRARIES:
        optimizer = optimizer_of(library, kind)
        schedule = made(library, name, optimizer)
        rates = epochs(schedule, optimizer, EPOCHS)
        state = dict(sorted(schedule.state_dict().items()))
        ends.append((rates, shown(optimizer), state))
    for ours, theirs in zip(*ends, strict=True):
        compare_loosely(ours, theirs)


def compare_loosely(ours, theirs):
    """As `assert_same`, but dicts in any order: those of schedules are sets of attributes."""
    if isinstance(theirs, dict):
        assert sorted(map(str, ours)) == sorted(map(str, theirs))
        for key in theirs:
            compare_loosely(ours[key], theirs[key])
    elif isinstance(theirs, list):
        assert len(ours) == len(theirs)
        for one, other in zip(ours, theirs, strict=True):
            compare_loosely(one, other)
    else:
        assert_same(ours, theirs, 1e-12)


@pytest.mark.parametrize("name", SCHEDULES)
def test_a_state_dict_continues_where_it_was_written(name):
    whole, resumed = [], []
    optimizer = optimizer_of(pullback)
    whole = epochs(made(pullback, name, optimizer), optimizer, EPOCHS)
    first = optimizer_of(pullback)
    schedule = made(pullback, name, first)
    resumed = epochs(schedule, first, 11)
    saved, options = schedule.state_dict(), first.state_dict()
    second = optimizer_of(pullback)
    again = made(pullback, name, second)
    second.load_state_dict(options)
    again.load_state_dict(saved)
    resumed += epochs(again, second, EPOCHS - 11)
    compare_loosely(resumed, whole)


@pytest.mark.parametrize("epoch", [0, 3, 5, 6, 8, 11, 17])
@pytest.mark.parametrize(
    "name", [name for name in SCHEDULES if not name.startswith(("one after", "at once", "nested"))]
)
def test_resuming_by_last_epoch_is_torchs(name, epoch):
    """A schedule made with the groups of another, and told where that one was."""

    def program(library):
        optimizer = optimizer_of(library)
        schedule = made(library, name, optimizer)
        epochs(schedule, optimizer, epoch)
        second = optimizer_of(library)
        second.load_state_dict(optimizer.state_dict())
        again = resumed(library, type(schedule), schedule, second, epoch)
        return epochs(again, second, 5)

    ours, theirs = outcome(pullback, program), outcome(torch, program)
    if isinstance(theirs, type):
        assert ours is theirs
    else:
        compare_loosely(ours, theirs)


def resumed(library, kind, like, optimizer, epoch):
    names = {
        "LambdaLR": ("lr_lambda=lr_lambdas",),
        "MultiplicativeLR": ("lr_lambda=lr_lambdas",),
        "StepLR": ("step_size", "gamma"),
        "MultiStepLR": ("milestones", "gamma"),
        "ConstantLR": ("factor", "total_iters"),
        "LinearLR": ("start_factor", "end_factor", "total_iters"),
        "ExponentialLR": ("gamma",),
        "PolynomialLR": ("total_iters", "power"),
        "CosineAnnealingLR": ("T_max", "eta_min"),
        "CyclicLR": ("base_lr=base_lrs", "max_lr=max_lrs", "mode", "gamma"),
        "CosineAnnealingWarmRestarts": ("T_0", "T_mult", "eta_min"),
        "OneCycleLR": ("total_steps",),
        "SWALR": ("anneal_epochs",),
    }[kind.__name__]
    options = {}
    for name in names:
        argument, _, attribute = name.partition("=")
        options[argument] = getattr(like, attribute or argument)
    if kind.__name__ == "CyclicLR":
        options["scale_fn"] = None
        options["mode"] = "triangular2"
    if kind.__name__ == "OneCycleLR":
        options["max_lr"] = 0.7
    if kind.__name__ == "SWALR":
        options["swa_lr"] = 0.05
    return kind(optimizer, last_epoch=epoch, **options)


@pytest.mark.parametrize("name", [name for name in SCHEDULES if name not in ("lambdas",)])
def test_tensor_rates_stay_the_same_tensors_with_torchs_values(name):
    ends = []
    for library in LIBRARIES:
        optimizer = optimizer_of(library)
        rates = [library.tensor(0.6, dtype=library.float64) for _ in range(2)]
        for group, lr in zip(optimizer.param_groups, rates, strict=True):
            group["lr"] = lr
        schedule = made(library, name, optimizer)
        lists = [[float(lr) for lr in row] for row in epochs(schedule, optimizer, 12)]
        same = [g["lr"] is lr for g, lr in zip(optimizer.param_groups, rates, strict=True)]
        ends.append((lists, same, [lr.item() for lr in rates]))
    assert_same(ends[0], ends[1], 1e-9)


@pytest.mark.parametrize("name", ["step", "milestones", "constant", "line up", "exponential"])
@pytest.mark.parametrize("epoch", [0, 4, 7, 25])
def test_an_epoch_that_is_named_uses_the_closed_form_and_warns(name, epoch):
    ends = []
    for library in LIBRARIES:
        optimizer = optimizer_of(library)
        schedule = made(library, name, optimizer)
        optimizer.step()
        with pytest.warns(UserWarning, match="epoch"):
            schedule.step(epoch)
        ends.append((schedule.get_last_lr(), schedule.last_epoch))
    assert_same(ends[0], ends[1], 1e-12)


METRICS = [3.0, 2.0, 2.0, 2.1, 1.9999, 1.5, 1.5, 1.6, 1.6, 1.5, 1.49, math.nan, 1.4, *[2.0] * 17]


@pytest.mark.parametrize(
    "options",
    [
        {"patience": 2},
        {"patience": 1, "factor": 0.5, "cooldown": 2, "min_lr": 0.2},
        {"mode": "max", "patience": 0, "threshold_mode": "abs", "threshold": 0.1},
        {"mode": "max", "patience": 3, "threshold": 0.3, "min_lr": [0.1, 0.01], "eps": 0.1},
        {"threshold_mode": "abs", "patience": 0, "cooldown": 1, "factor": 0.9},
    ],
)
def test_plateaus_are_seen_as_torch_sees_them(options):
    ends = []
    for library in LIBRARIES:
        optimizer = optimizer_of(library)
        schedule = library.optim.lr_scheduler.ReduceLROnPlateau(optimizer, **options)
        rates = []
        for number, metric in enumerate(METRICS):
            schedule.step(library.tensor(metric) if number % 2 else metric)
            rates.append([*schedule.get_last_lr(), schedule.num_bad_epochs, schedule.in_cooldown])
        state = {k: v for k, v in sorted(schedule.state_dict().items()) if k != "best"}
        ends.append((rates, shown(optimizer), state, float(schedule.best)))
    for ours, theirs in zip(*ends, strict=True):
        compare_loosely(ours, theirs)


@pytest.mark.parametrize("point", [0.0, 0.5, 3.2, 9.5, 21.7, 2.0])
def test_restarts_take_parts_of_an_epoch(point):
    ends = []
    for library in LIBRARIES:
        optimizer = optimizer_of(library)
        for times in (1, 2):
            kind = library.optim.lr_scheduler.CosineAnnealingWarmRestarts
            schedule = kind(optimizer, 3, times)
            schedule.step(point)
            ends.append((schedule.get_last_lr(), schedule.T_cur, schedule.T_i, schedule.last_epoch))
    assert_same(ends[:2], ends[2:], 1e-12)


MISTAKES = [
    "StepLR(5, 3)",
    "StepLR(o, 3, last_epoch=4)",
    "LambdaLR(o, [len])",
    "ConstantLR(o, 2.0)",
    "LinearLR(o, 0.0)",
    "LinearLR(o, 0.5, 2.0)",
    "SequentialLR(o, [], [])",
    "SequentialLR(o, [StepLR(o, 1)], [3])",
    "SequentialLR(o, [StepLR(o, 1), StepLR(other, 1)], [3])",
    "SequentialLR(o, [ReduceLROnPlateau(o), StepLR(o, 1)], [3])",
    "ChainedScheduler([])",
    "ChainedScheduler([StepLR(o, 1), StepLR(other, 1)])",
    "ChainedScheduler([1])",
    "ReduceLROnPlateau(o, factor=1.0)",
    "ReduceLROnPlateau(o, mode='x')",
    "ReduceLROnPlateau(o, threshold_mode='x')",
    "ReduceLROnPlateau(o, min_lr=[1.0])",
    "ReduceLROnPlateau(o).step('a')",
    "CyclicLR(o, 0.1, 0.2, mode='x')",
    "CyclicLR(o, [0.1], 0.2)",
    "CyclicLR(without, 0.1, 0.2)",
    "OneCycleLR(o, 0.1)",
    "OneCycleLR(o, 0.1, -3)",
    "OneCycleLR(o, 0.1, 3.0)",
    "OneCycleLR(o, 0.1, epochs=3, steps_per_epoch=-1)",
    "OneCycleLR(o, 0.1, 3, pct_start=2.0)",
    "OneCycleLR(o, 0.1, 3, anneal_strategy='x')",
    "OneCycleLR(o, [0.1], 3)",
    "OneCycleLR(without, 0.1, 3)",
    "CosineAnnealingWarmRestarts(o, 0)",
    "CosineAnnealingWarmRestarts(o, 3, 0.5)",
    "CosineAnnealingWarmRestarts(o, 3).step(-1)",
    "SWALR(o, [0.1])",
    "SWALR(o, 0.1, -1)",
    "SWALR(o, 0.1, anneal_strategy='x')",
    "[s.step() for s in [OneCycleLR(o, 0.1, 3)] for _ in range(5) if not o.step()]",
]


@pytest.mark.parametrize("expression", MISTAKES)
def test_mistakes_raise_what_torch_raises(expression):
    def program(library):
        scope = {**vars(library.optim.lr_scheduler), "SWALR": library.optim.swa_utils.SWALR}
        scope["o"], scope["other"] = optimizer_of(library), optimizer_of(library)
        scope["without"] = library.optim.Adagrad([library.ones(1, requires_grad=True)])
        return eval(expression, scope)

    ours, theirs = outcome(pullback, program), outcome(torch, program)
    assert isinstance(theirs, type), "torch does not mind"
    assert isinstance(ours, type)
    assert issubclass(ours, theirs) or (ours, theirs) == (TypeError, AttributeError)


@pytest.mark.parametrize("case", ["too early", "in order", "replaced", "get_lr"])
def test_warnings_come_when_torch_warns(case):
    caught = []
    for library in LIBRARIES:
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            optimizer = optimizer_of(library)
            schedule = library.optim.lr_scheduler.StepLR(optimizer, 3)
            if case == "replaced":
                optimizer.step = lambda: None
            if case == "in order":
                optimizer.step()
            if case == "get_lr":
                schedule.get_lr()
                optimizer.step()
            schedule.step()
            schedule.step()
        caught.append([w.category for w in seen])
    assert caught[0] == caught[1]
    assert len(caught[0]) == (case != "in order")
