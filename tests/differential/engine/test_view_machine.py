"""Two libraries, one program: hypothesis writes it, step by step, and shortens what differs.

After every step values, versions, flags, names of nodes, bases and gradients are the same, and a
step that one refuses the other refuses with the same type of error. Beside the seeded programs of
test_view_programs.py: here passes run in the middle, grad modes stay on across steps, and hooks
report what they see.
"""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, initialize, multiple, rule

import pullback

torch = pytest.importorskip("torch")

LIBRARIES = (torch, pullback)
ERRORS = (RuntimeError, IndexError, TypeError, ValueError)
# Where torch fails by its own mistake, or only after having written: nothing follows from there.
TORCH_ONLY = ("INTERNAL ASSERT", "more than one element", "Inplace update to inference tensor")

VIEWS = {
    "all": lambda t: t[:],
    "first": lambda t: t[0],
    "tail": lambda t: t[1:],
    "row": lambda t: t.select(-1, 0),
    "flat": lambda t: t.reshape(-1),
    "shaped": lambda t: t.view(-1),
    "turned": lambda t: t.transpose(0, -1),
    "wide": lambda t: t.unsqueeze(0),
    "narrow": lambda t: t.squeeze(),
    "expanded": lambda t: t.unsqueeze(0).expand(2, *t.shape),
    "diagonal": lambda t: t.diagonal(),
    "one of several": lambda t: t.unbind(0)[-1],
    "last part": lambda t: t.split(1)[-1],
    "strided": lambda t: t[::2],
}
WRITES = {
    "mul_": lambda t: t.mul_(0.5),
    "add_": lambda t: t.add_(1.0),
    "sin_": lambda t: t.sin_(),
    "exp_": lambda t: t.exp_(),
    "zero_": lambda t: t.zero_(),
    "pow_": lambda t: t.pow_(2),
    "item": lambda t: t.__setitem__(0, 3.0),
    "slice": lambda t: t.__setitem__(slice(1, None), 0.5),
    "nothing": lambda t: t.__setitem__(slice(0, 0), 0.5),
}
PAIRS = {
    "mul_": lambda t, o: t.mul_(o),
    "sub_": lambda t, o: t.sub_(o),
    "copy_": lambda t, o: t.copy_(o),
    "iadd": lambda t, o: t.__iadd__(o),
    "item": lambda t, o: t.__setitem__(0, o),
    "slice": lambda t, o: t.__setitem__(slice(1, None), o),
}


class Views(RuleBasedStateMachine):
    """Tensors are known by their number; each library has its own list of them."""

    tensors = Bundle("tensors")

    def __init__(self):
        super().__init__()
        self.worlds = ([], [])
        self.seen = ([], [])  # what hooks saw
        self.modes = []
        self.over = False
        self.quiet = warnings.catch_warnings()
        self.quiet.__enter__()
        warnings.simplefilter("ignore")

    def teardown(self):
        while self.modes:
            self.leave_mode()
        self.quiet.__exit__(None, None, None)

    @initialize(target=tensors)
    def leaves(self):
        for lib, world in zip(LIBRARIES, self.worlds, strict=True):
            world.append(lib.from_numpy(np.arange(1.0, 7.0).reshape(2, 3)).requires_grad_())
            world.append(lib.from_numpy(np.array([0.5, -1.0, 2.0])).requires_grad_())
            world.append(lib.from_numpy(np.ones((2, 3))))
            world.append(world[0] * 1)
        return multiple(0, 1, 2, 3)

    def step(self, do):
        """Run one step on both; the number of the tensor it made, if it made one."""
        if self.over:
            return multiple()
        outcomes = [self.attempt(do, *pair) for pair in zip(LIBRARIES, self.worlds, strict=True)]
        (theirs, their_error), (ours, our_error) = outcomes
        if any(text in str(their_error) for text in TORCH_ONLY):
            self.over = True
            return multiple()
        both = their_error is not None and our_error is not None
        # Of two reasons for a refusal (a stale view, a bad index) either may come first.
        if not (both and "is a view" in str(their_error)):
            assert type(our_error) is type(their_error), (their_error, our_error)
        assert (ours is None) == (theirs is None)
        made = multiple()
        if theirs is not None:
            made = len(self.worlds[0])
            self.worlds[0].append(theirs)
            self.worlds[1].append(ours)
        self.compare()
        return made

    @staticmethod
    def attempt(do, lib, world):
        try:
            return do(lib, world), None
        except ERRORS as error:
            return None, error

    def compare(self):
        for number, (theirs, ours) in enumerate(zip(*self.worlds, strict=True)):
            np.testing.assert_allclose(read(ours), read(theirs), err_msg=f"tensor {number}")
            assert state_of(ours, self.worlds[1]) == state_of(theirs, self.worlds[0]), number
        for theirs, ours in zip(*self.seen, strict=True):
            np.testing.assert_allclose(ours, theirs)

    # Tensors from tensors

    @rule(target=tensors, which=tensors, kind=st.sampled_from(sorted(VIEWS)))
    def view(self, which, kind):
        return self.step(lambda lib, world: VIEWS[kind](world[which]))

    @rule(target=tensors, which=tensors, other=tensors)
    def multiply(self, which, other):
        return self.step(lambda lib, world: world[which] * world[other])

    @rule(target=tensors, which=tensors)
    def clone(self, which):
        return self.step(lambda lib, world: world[which].clone())

    @rule(target=tensors, which=tensors)
    def detach(self, which):
        return self.step(lambda lib, world: world[which].detach())

    @rule(target=tensors, which=tensors)
    def data(self, which):
        return self.step(lambda lib, world: world[which].data)

    # Changes

    @rule(which=tensors, kind=st.sampled_from(sorted(WRITES)))
    def write(self, which, kind):
        def do(lib, world):
            if kind not in ("zero_", "item", "slice") or 0 not in world[which].stride():
                WRITES[kind](world[which])

        self.step(do)

    @rule(which=tensors, other=tensors, kind=st.sampled_from(sorted(PAIRS)))
    def write_tensor(self, which, other, kind):
        def do(lib, world):
            if kind not in ("item", "slice") or 0 not in world[which].stride():
                PAIRS[kind](world[which], world[other])

        self.step(do)

    @rule(which=tensors, flag=st.booleans())
    def require(self, which, flag):
        def do(lib, world):
            world[which].requires_grad_(flag)

        self.step(do)

    @rule(which=tensors)
    def detach_in_place(self, which):
        def do(lib, world):
            world[which].detach_()

        self.step(do)

    @rule(which=tensors)
    def retain(self, which):
        def do(lib, world):
            if not world[which].is_leaf:
                world[which].retain_grad()

        self.step(do)

    @rule(which=tensors, scale=st.sampled_from([None, 2.0, -1.0]))
    def hook(self, which, scale):
        def do(lib, world):
            seen = self.seen[LIBRARIES.index(lib)]

            def watch(g):
                seen.append(None if g is None else np.array(g.detach().numpy()).sum())
                return None if scale is None or g is None else g * scale

            world[which].register_hook(watch)

        self.step(do)

    # Modes

    @rule(mode=st.sampled_from(["no_grad", "enable_grad"]))
    def enter_mode(self, mode):
        if len(self.modes) < 3:
            self.modes.append([getattr(lib, mode)() for lib in LIBRARIES])
            for context in self.modes[-1]:
                context.__enter__()

    @rule()
    def leave_mode(self):
        if self.modes:
            for context in self.modes.pop():
                context.__exit__(None, None, None)

    # Passes

    @rule(which=tensors, keep=st.booleans())
    def backward(self, which, keep):
        for seen in self.seen:
            seen.clear()

        def do(lib, world):
            with lib.enable_grad():
                world[which].sum().backward(retain_graph=keep)

        self.step(do)

    @rule(which=tensors, other=tensors)
    def grad(self, which, other):
        for seen in self.seen:
            seen.clear()

        def do(lib, world):
            with lib.enable_grad():
                root = world[which].sum()
            g = lib.autograd.grad(root, world[other], retain_graph=True, allow_unused=True)[0]
            return (
                None if g is None else g.clone()
            )  # how often a pass wrote to it is its own affair

        self.step(do)


def read(t):
    return np.array(t.detach().numpy())


def state_of(t, world):
    """What a program can see of a tensor."""
    try:
        node = None if t.grad_fn is None else type(t.grad_fn).__name__
        seen = (node, t.is_leaf, t.output_nr, node is not None and t.retains_grad)
    except RuntimeError:
        return "refused"
    grad = t.grad if t.is_leaf or t.retains_grad else None
    base = next((i for i, one in enumerate(world) if one is t._base), None)
    total = None if grad is None else round(float(read(grad).sum()), 6)
    return (*seen, t.requires_grad, t._version, base, tuple(t.shape), total)


TestViews = Views.TestCase
TestViews.settings = settings(
    max_examples=settings().max_examples * 3,
    stateful_step_count=20,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    print_blob=True,
)
