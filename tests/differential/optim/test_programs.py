"""Random lives of an optimizer: whatever users do between steps, both libraries end alike."""

import copy
import io

import numpy
import pytest

from tests.differential.optim.sides import LIBRARIES, assert_same, give_gradients, parameters

KINDS = {
    "SGD": {"momentum": 0.8, "nesterov": True},
    "Adam": {"amsgrad": True},
    "AdamW": {},
    "RMSprop": {"momentum": 0.5, "centered": True, "eps": 0.1},
    "NAdam": {},
    "ASGD": {"t0": 3},
    "Adagrad": {"lr_decay": 0.1},
    "Adadelta": {"lr": 1.0},
}
SHAPES = ((3, 4), (5,), (), (2, 2), (7,), (1, 3))


class Life:
    """An optimizer of one library, and what can happen to it; numbers come from the seed alone."""

    def __init__(self, library, name, seed):
        self.library = library
        self.random = numpy.random.default_rng(seed)
        self.params = parameters(library, "float64", SHAPES)
        options = {"lr": 0.05, **KINDS[name]}
        groups = [{"params": self.params[:3]}, {"params": self.params[3:5], "lr": 0.02}]
        self.optimizer = getattr(library.optim, name)(groups, **options)
        self.schedule = library.optim.lr_scheduler.ExponentialLR(self.optimizer, 0.9)
        self.count = 0

    def pick(self, count):
        return int(self.random.integers(count))

    def act(self):
        ways = (self.step, self.step, self.step_some, self.load, self.tamper, self.other)
        ways[self.pick(len(ways))]()

    def step(self, without=()):
        self.count += 1
        give_gradients(self.library, self.params, self.count, without=without)
        self.optimizer.step()

    def step_some(self):
        self.step([n for n in range(len(self.params)) if self.pick(3) == 0])

    def load(self):
        state = self.optimizer.state_dict()
        if self.pick(2):
            state = copy.deepcopy(state)
        else:
            file = io.BytesIO()
            self.library.save(state, file)
            file.seek(0)
            state = self.library.load(file)
        self.optimizer.load_state_dict(state)

    def tamper(self):
        """With the state, the data or the options of some parameter."""
        p = self.params[self.pick(len(self.params))]
        what = self.pick(5)
        state = self.optimizer.state.get(p, {})
        if what == 0 and state:
            del self.optimizer.state[p]
            if type(self.optimizer).__name__ == "Adagrad":  # torch makes that state at the start
                self.optimizer.state[p].update(
                    step=self.library.tensor(0.0), sum=self.library.zeros_like(p)
                )
        elif what == 1:
            for name, value in list(state.items()):
                if value.shape == p.shape and name != "step":
                    state[name] = value.clone()
        elif what == 2:
            for name, value in state.items():
                if name not in ("step", "mu", "eta", "mu_product"):
                    value.mul_(0.5)
        elif what == 3:
            p.data = p.data.clone() * 0.9
        else:
            with self.library.no_grad():
                p.add_(0.1)

    def other(self):
        what = self.pick(5)
        if what == 0 and len(self.optimizer.param_groups) == 2:
            self.optimizer.add_param_group({"params": self.params[5:], "lr": 0.01})
            self.optimizer.param_groups[2].setdefault("initial_lr", 0.01)
        elif what == 1 and self.count:
            self.schedule.step()
        elif what == 2:
            self.optimizer.param_groups[0]["weight_decay"] = 0.01 * self.pick(3)
        elif what == 3:
            self.optimizer.zero_grad(set_to_none=bool(self.pick(2)))
            self.optimizer.step()
        else:
            self.optimizer.param_groups[1]["lr"] *= 0.7


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("name", KINDS)
def test_random_lives_end_alike(name, seed):
    ends = []
    for library in LIBRARIES:
        life = Life(library, name, seed)
        life.step()
        for _ in range(25):
            life.act()
        ends.append((life.params, life.optimizer.state_dict()))
    assert_same(ends[0][0], ends[1][0], 1e-6)
    assert_same(ends[0][1]["param_groups"], ends[1][1]["param_groups"], 1e-9)
    ours, theirs = (end[1]["state"] for end in ends)
    assert sorted(ours) == sorted(theirs)
    for number in theirs:
        assert_same(ours[number], theirs[number], 1e-6, f"state of {number}")
