"""Small modules of utils: contexts as decorators, devices, modes, DLPack, the environment."""

import subprocess
import sys

import numpy
import pytest

import pullback as torch
from pullback.utils import _contextlib, _device, _foreach_utils, _mode_utils, collect_env, dlpack
from pullback.utils._python_dispatch import TorchDispatchMode


class Counted(_contextlib._DecoratorContextManager):
    entered = 0

    def __enter__(self):
        Counted.entered += 1

    def __exit__(self, *error):
        pass


def test_contexts_are_decorators_that_enter_for_each_call():
    Counted.entered = 0

    @Counted()
    def double(x):
        return 2 * x

    @Counted()
    def numbers():
        yield 1
        yield 2

    assert double(2) == 4
    assert double(3) == 6
    assert Counted.entered == 2
    assert list(numbers()) == [1, 2]
    assert Counted.entered == 5  # each piece of the generator's body


def test_contexts_without_arguments_decorate_without_parentheses():
    class Plain(_contextlib._NoParamDecoratorContextManager):
        __enter__ = Counted.__enter__
        __exit__ = Counted.__exit__

    Counted.entered = 0
    assert Plain(lambda: 3)() == 3
    assert Plain()(lambda: 4)() == 4
    with Plain():
        assert Counted.entered == 3
    with pytest.raises(NotImplementedError, match="__enter__"):
        _contextlib._DecoratorContextManager().__enter__()


def test_functions_of_contexts_decorate():
    decorated = _contextlib.context_decorator(torch.no_grad, torch.is_grad_enabled)
    assert decorated() is False
    assert torch.is_grad_enabled()


def test_devices_as_modes_and_decorators():
    with _device.DeviceContext("meta"):
        assert torch.ones(2).is_meta
        assert torch.ones(2, device="cpu").is_cpu
    assert _device.set_device("meta")(lambda: torch.zeros(3))().is_meta
    assert torch.ones in _device._device_constructors()
    assert torch.ones(1).is_cpu


def test_no_dispatch_hides_modes():
    class Log(TorchDispatchMode):
        seen = 0

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            Log.seen += 1
            return func(*args, **(kwargs or {}))

    x = torch.ones(2)
    with Log():
        x + 1
        with _mode_utils.no_dispatch():
            x + 1
    assert Log.seen == 1
    assert _mode_utils.all_same_mode([1, 1])
    assert not _mode_utils.all_same_mode([1, 2])


def test_tensors_are_grouped_by_device_and_dtype():
    singles, doubles = [torch.ones(1), torch.ones(3)], [torch.ones(2, dtype=torch.float64)]
    mixed = [singles[0], doubles[0], singles[1]]
    groups = _foreach_utils._group_tensors_by_device_and_dtype([mixed, [None, None, None]], True)
    assert {key[1]: places for key, (_, places) in groups.items()} == {
        torch.float32: [0, 2],
        torch.float64: [1],
    }
    (lists, _) = groups[torch.device("cpu"), torch.float32]
    assert lists[0][1] is singles[1]
    assert _foreach_utils._has_foreach_support(mixed, torch.device("cpu"))
    assert not _foreach_utils._has_foreach_support(mixed, torch.device("meta"))


def test_dlpack_shares_memory():
    x = torch.arange(3.0)
    assert dlpack.DLDeviceType.kDLCPU == 1
    dlpack.from_dlpack(x).add_(1)
    assert x.tolist() == [1, 2, 3]
    numpy.from_dlpack(x)
    assert dlpack.from_dlpack(dlpack.to_dlpack(x)).tolist() == [1, 2, 3]
    with pytest.raises(TypeError, match="list"):
        dlpack.to_dlpack([1])


def test_the_environment_is_described():
    text = collect_env.get_pretty_env_info()
    assert f"numpy=={numpy.__version__}" in text
    assert collect_env.get_env_info().python_version.split()[0] == sys.version.split()[0]
    command = [sys.executable, "-m", "pullback.utils.collect_env"]
    assert "python version" in subprocess.run(command, capture_output=True, text=True).stdout


def test_set_module():
    def f(): ...

    torch.utils.set_module(f, "mine")
    assert f.__module__ == "mine"
    with pytest.raises(TypeError, match="int"):
        torch.utils.set_module(f, 3)
