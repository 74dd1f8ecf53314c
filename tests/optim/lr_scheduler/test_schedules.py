"""Schedules: state, order, chaining, and the two ways of saying one rate."""

import copy
import pickle

import pytest

import pullback as torch
from pullback.optim import lr_scheduler as schedulers

CLOSED = {
    "StepLR": {"step_size": 3},
    "MultiStepLR": {"milestones": [2, 5, 5]},
    "ConstantLR": {"factor": 0.5, "total_iters": 4},
    "LinearLR": {"total_iters": 6},
    "ExponentialLR": {"gamma": 0.9},
    "PolynomialLR": {"total_iters": 9, "power": 2.0},
    "CosineAnnealingLR": {"T_max": 5, "eta_min": 0.1},
}


def optimizer_of(lr=1.0, **options):
    return torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=lr, **options)


def rates(schedule, count):
    seen = []
    for _ in range(count):
        seen += schedule.get_last_lr()
        schedule.optimizer.step()
        schedule.step()
    return seen


@pytest.mark.parametrize("name", CLOSED)
def test_step_by_step_and_closed_form_agree(name):
    schedule = getattr(schedulers, name)(optimizer_of(), **CLOSED[name])
    for epoch in range(12):
        schedule.last_epoch = epoch
        closed = schedule._get_closed_form_lr()
        assert schedule.get_last_lr() == pytest.approx(closed)
        schedule.optimizer.step()
        schedule.step()


def test_two_schedules_on_one_optimizer_multiply():
    optimizer = optimizer_of()
    halving = schedulers.ExponentialLR(optimizer, 0.5)
    stepping = schedulers.StepLR(optimizer, 2, 0.1)
    seen = []
    for _ in range(4):
        seen.append(optimizer.param_groups[0]["lr"])
        optimizer.step()
        halving.step()
        stepping.step()
    assert seen == pytest.approx([1.0, 0.5, 0.025, 0.0125])


def test_a_schedule_before_the_first_optimizer_step_warns_once():
    optimizer = optimizer_of()
    schedule = schedulers.StepLR(optimizer, 2)
    with pytest.warns(UserWarning, match="before the optimizer"):
        schedule.step()
    schedule.step()


def test_a_replaced_step_is_noticed():
    optimizer = optimizer_of()
    schedule = schedulers.StepLR(optimizer, 2)
    optimizer.step = lambda: None
    with pytest.warns(UserWarning, match="replaced"):
        schedule.step()


def test_get_lr_points_to_get_last_lr():
    schedule = schedulers.StepLR(optimizer_of(), 2)
    with pytest.warns(UserWarning, match="get_last_lr"):
        assert schedule.get_lr() == [1.0]


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda x: pickle.loads(pickle.dumps(x))])
def test_copies_go_on_by_themselves(copied):
    schedule = schedulers.ExponentialLR(optimizer_of(), 0.5)
    rates(schedule, 2)
    other = copied(schedule)
    rates(other, 1)
    assert schedule.get_last_lr() == [0.25]
    assert other.get_last_lr() == [0.125]
    assert other.optimizer is not schedule.optimizer


def test_groups_added_later_are_left_alone_by_the_schedule():
    optimizer = optimizer_of()
    schedule = schedulers.LambdaLR(optimizer, lambda epoch: 0.5)
    optimizer.add_param_group({"params": torch.ones(1, requires_grad=True), "lr": 3.0})
    optimizer.step()
    schedule.step()
    assert [group["lr"] for group in optimizer.param_groups] == [0.5, 3.0]


def test_plateaus_follow_groups_added_later():
    optimizer = optimizer_of()
    schedule = schedulers.ReduceLROnPlateau(optimizer, patience=0, min_lr=0.2)
    optimizer.add_param_group({"params": torch.ones(1, requires_grad=True), "lr": 3.0})
    schedule.step(1.0)
    schedule.step(1.0)
    assert schedule.get_last_lr() == pytest.approx([0.2, 0.3])


def test_beta1_cycles_where_there_is_no_momentum():
    optimizer = torch.optim.Adam([torch.ones(1, requires_grad=True)])
    schedule = schedulers.OneCycleLR(optimizer, 0.1, total_steps=10)
    seen = []
    for _ in range(4):
        seen.append(optimizer.param_groups[0]["betas"])
        optimizer.step()
        schedule.step()
    assert [beta[0] for beta in seen] == pytest.approx([0.95, 0.9, 0.85, 0.85495], abs=1e-4)
    assert {beta[1] for beta in seen} == {0.999}


def test_cyclic_scale_functions_with_attributes_are_kept_in_state_dicts():
    class Scale:
        def __init__(self, factor):
            self.factor = factor

        def __call__(self, x):
            return self.factor**x

    def made(factor):
        return schedulers.CyclicLR(
            optimizer_of(momentum=0.5), 0.1, 1.0, 2, scale_fn=Scale(factor), cycle_momentum=False
        )

    first, second = made(0.5), made(0.9)
    second.load_state_dict(first.state_dict())
    assert second.scale_fn(2) == 0.25


def test_modules_of_users_can_be_schedules_by_either_name():
    for kind in (schedulers.LRScheduler, schedulers._LRScheduler):

        class Mine(kind):
            def get_lr(self):
                return [base / (1 + self.last_epoch) for base in self.base_lrs]

        assert rates(Mine(optimizer_of()), 3) == [1.0, 0.5, pytest.approx(1 / 3)]


@pytest.mark.parametrize("kind", ["LambdaLR", "MultiplicativeLR"])
@pytest.mark.parametrize("given", [0.95, [0.95], None])
def test_a_schedule_by_functions_refuses_what_is_none_at_once(kind, given):
    optimizer = torch.optim.SGD([torch.ones(1, requires_grad=True)], lr=1.0)
    with pytest.raises(TypeError, match="function of the epoch"):
        getattr(torch.optim.lr_scheduler, kind)(optimizer, given)
