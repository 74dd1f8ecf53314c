"""Random fills of tensors of other classes, and of fake ones."""

import subprocess
import sys

import pytest
from pullback._subclasses.fake_tensor import FakeTensor, FakeTensorMode

import pullback as torch

FILLS = {
    "uniform_": (2.0, 3.0),
    "normal_": (2.0, 3.0),
    "random_": (2, 30),
    "bernoulli_": (0.25,),
    "exponential_": (2.0,),
    "cauchy_": (2.0, 3.0),
    "log_normal_": (2.0, 3.0),
    "geometric_": (0.25,),
}


@pytest.mark.parametrize("name", FILLS)
def test_a_class_is_asked_with_the_arguments_of_the_user(name):
    calls = []

    class Asked(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            if func is getattr(torch.Tensor, name):
                calls.append(args[1:])
            return super().__torch_function__(func, types, args, kwargs or {})

    x = torch.empty(50).as_subclass(Asked)
    generator = torch.Generator().manual_seed(3)
    made = getattr(x, name)(*FILLS[name], generator=generator)
    wanted = getattr(torch.empty(50), name)(*FILLS[name], generator=generator.manual_seed(3))
    assert calls == [FILLS[name]]
    assert torch.equal(made.as_subclass(torch.Tensor), wanted)


def test_probabilities_come_as_a_tensor():
    given = []

    class Asked(torch.Tensor):
        @classmethod
        def __torch_function__(cls, func, types, args=(), kwargs=None):
            if func is torch.Tensor.bernoulli_:
                given.append(args[1])
            return super().__torch_function__(func, types, args, kwargs or {})

    p = torch.tensor([0.0, 1.0])
    made = torch.empty(2).as_subclass(Asked).bernoulli_(p)
    assert made.tolist() == [0, 1]
    assert isinstance(given[0], torch.Tensor)


@pytest.mark.parametrize("name", FILLS)
def test_fake_tensors_are_filled(name):
    with FakeTensorMode():
        for given in (FILLS[name], FILLS[name] if name == "geometric_" else ()):
            assert type(getattr(torch.empty(3), name)(*given)) is FakeTensor


def test_layers_are_made_of_fake_tensors_in_a_new_process():
    program = (
        "import pullback as torch\n"
        "from pullback import nn\n"
        "from pullback._subclasses.fake_tensor import FakeTensor, FakeTensorMode\n"
        "with FakeTensorMode():\n"
        "    made = [nn.Linear(2, 2), nn.Conv2d(2, 3, 3), nn.Embedding(4, 2), nn.LSTM(2, 3),\n"
        "            nn.BatchNorm1d(2), nn.LayerNorm(2), nn.MultiheadAttention(4, 2)]\n"
        "    out = made[0](torch.ones(5, 2))\n"
        "print(type(out) is FakeTensor, tuple(out.shape))\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.stdout.strip() == "True (5, 2)", done.stderr


def test_new_memory_with_strides_is_on_the_device_of_its_origin():
    made = torch.empty(2, device="meta").new_empty_strided((2, 3), (1, 2))
    assert made.device.type == "meta"
    assert made.stride() == (1, 2)
