"""Schedules that are given tensors: what the caller writes to them later counts as in torch."""

import warnings

import pytest

import pullback

torch = pytest.importorskip("torch")

# All settings that are numbers, by schedule.
SCHEDULES = [
    ("StepLR", {"step_size": 2, "gamma": 0.5}),
    ("MultiStepLR", {"milestones": [1, 3], "gamma": 0.5}),
    ("ConstantLR", {"factor": 0.5, "total_iters": 2}),
    ("LinearLR", {"start_factor": 0.5, "end_factor": 0.9, "total_iters": 3}),
    ("ExponentialLR", {"gamma": 0.7}),
    ("PolynomialLR", {"total_iters": 4, "power": 2.0}),
    ("CosineAnnealingLR", {"T_max": 4, "eta_min": 0.01}),
    ("CosineAnnealingWarmRestarts", {"T_0": 2, "eta_min": 0.01}),
    (
        "CyclicLR",
        {"base_lr": 0.1, "max_lr": 0.9, "step_size_up": 2, "gamma": 0.9}
        | {"base_momentum": 0.7, "max_momentum": 0.9},
    ),
    (
        "CyclicLR",
        {"base_lr": [0.1, 0.2], "max_lr": [0.9, 0.8], "step_size_up": 2}
        | {"base_momentum": [0.7, 0.6], "max_momentum": [0.9, 0.8]},
    ),
    (
        "OneCycleLR",
        {"max_lr": 0.9, "total_steps": 7, "div_factor": 20.0, "final_div_factor": 100.0}
        | {"base_momentum": 0.7, "max_momentum": 0.9},
    ),
    (
        "OneCycleLR",
        {"max_lr": [0.9, 0.8], "total_steps": 7}
        | {"base_momentum": [0.7, 0.6], "max_momentum": [0.9, 0.8]},
    ),
    ("ReduceLROnPlateau", {"factor": 0.5, "min_lr": 0.01, "patience": 0, "eps": 1e-8}),
    ("ReduceLROnPlateau", {"factor": 0.5, "min_lr": [0.01, 0.3], "patience": 0}),
    ("SWALR", {"swa_lr": 0.05, "anneal_epochs": 3}),
    ("SWALR", {"swa_lr": [0.05, 0.02], "anneal_epochs": 3}),
]


def numbers_among(settings):
    return [
        name
        for name, value in settings.items()
        if isinstance(value[0] if isinstance(value, list) else value, float)
    ]


CASES = [
    (kind, settings, name)
    for kind, settings in SCHEDULES
    for name in (*numbers_among(settings), "every one")
]


def plain(value):
    if isinstance(value, list | tuple):
        return [plain(one) for one in value]
    return round(float(value), 6)


def course(library, kind, settings, name, optimizer, *, rates_are_tensors):
    def given(value):
        made.append(library.tensor(value, dtype=library.float64))
        return made[-1]

    made = []
    groups = [
        {
            "params": [library.ones(1, requires_grad=True)],
            "lr": library.tensor(lr) if rates_are_tensors else lr,
        }
        for lr in (0.5, 0.25)
    ]
    more = {"momentum": 0.9} if optimizer == "SGD" else {}
    optimizer = getattr(library.optim, optimizer)(groups, **more)
    settings = dict(settings)
    for one in numbers_among(settings) if name == "every one" else [name]:
        value = settings[one]
        settings[one] = [*map(given, value)] if isinstance(value, list) else given(value)
    places = (library.optim.lr_scheduler, library.optim.swa_utils)
    schedule = next(getattr(p, kind) for p in places if hasattr(p, kind))(optimizer, **settings)
    for one in made:
        one.fill_(0.33)
    rows = []
    for _ in range(6):
        optimizer.step()
        schedule.step(*([1.0] if kind == "ReduceLROnPlateau" else []))
        rows += [
            [plain(group[key]) for key in ("lr", "momentum", "betas") if key in group]
            for group in optimizer.param_groups
        ]
        rows.append(plain(schedule.get_last_lr()))
    return rows, plain(made)


@pytest.mark.parametrize("rates_are_tensors", [True, False])
@pytest.mark.parametrize("optimizer", ["SGD", "Adam"])
@pytest.mark.parametrize(("kind", "settings", "name"), CASES)
def test_a_schedule_goes_on_as_torchs(kind, settings, name, optimizer, rates_are_tensors):
    outcomes = []
    for library in (pullback, torch):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            try:
                outcome = course(
                    library, kind, settings, name, optimizer, rates_are_tensors=rates_are_tensors
                )
            except Exception as error:
                outcome = type(error).__name__
        outcomes.append(outcome)
    assert outcomes[0] == outcomes[1]
