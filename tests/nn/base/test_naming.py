"""Errors say which module they were raised in."""

import pytest

import pullback as torch
from pullback import nn


def model():
    return nn.ModuleDict(
        {"body": nn.Sequential(nn.Linear(4, 9), nn.ReLU(), nn.Linear(8, 2)), "head": nn.Tanh()}
    )


class Wrapper(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return self.inner["body"](x)


def notes(function, *args):
    with pytest.raises(Exception) as raised:  # noqa: PT011 (any will do)
        function(*args)
    return getattr(raised.value, "__notes__", [])


def test_the_path_is_that_from_the_outermost_module():
    wrapper = Wrapper(model())
    assert notes(wrapper, torch.ones(1, 4)) == ["in the module inner.body.2: Linear(8, 2)"]
    assert notes(wrapper.inner["body"], torch.ones(1, 4)) == ["in the module 2: Linear(8, 2)"]
    assert notes(nn.Linear(2, 3), torch.ones(1, 4)) == ["in the module Linear(2, 3)"]


def test_hooked_modules_say_it_too():
    wrapper = Wrapper(model())
    wrapper.register_forward_hook(lambda *_: None)
    wrapper.inner["body"][2].register_forward_pre_hook(lambda *_: None)
    assert notes(wrapper, torch.ones(1, 4)) == ["in the module inner.body.2: Linear(8, 2)"]


def test_modules_that_are_held_by_nobody_keep_their_own_name():
    stray = nn.Linear(2, 3)

    class Calls(nn.Module):
        def forward(self, x):
            return stray(x)

    assert notes(Calls(), torch.ones(1, 4)) == ["in the module Linear(2, 3)"]


def test_the_error_keeps_no_module_alive():
    import gc
    import weakref

    net = Wrapper(model())
    gone = weakref.ref(net)
    error = None
    try:
        net(torch.ones(1, 4))
    except RuntimeError as raised:
        error = raised.with_traceback(None)
    del net
    gc.collect()
    assert gone() is None
    assert error is not None
