"""Layers read their tensors as Python reads attributes: instance, class, then `__getattr__`."""

import inspect
import zlib

import numpy
import pytest

import pullback
from tests.differential.nn.sides import LIBRARIES, close, given, random
from tests.differential.test_nn_modules import CASES

torch = pytest.importorskip("torch")

STEPS = (random(5, 2, 3),)
ONE_STEP = (random(2, 3),)
FURTHER = [
    ("LSTM", (3, 4), {"num_layers": 2, "bidirectional": True}, STEPS),
    ("LSTM", (3, 4), {"proj_size": 2}, STEPS),
    ("GRU", (3, 4), {}, STEPS),
    ("RNN", (3, 4), {}, STEPS),
    *((f"{kind}Cell", (3, 4), {}, ONE_STEP) for kind in ("LSTM", "GRU", "RNN")),
    ("BatchNorm2d", (4,), {}, (random(2, 4, 3, 3),)),
    ("InstanceNorm1d", (4,), {"affine": True}, (random(2, 4, 5),)),
    ("SyncBatchNorm", (4,), {}, (random(2, 4, 3, 3),)),
    ("TransformerEncoderLayer", (6, 2, 8, 0.0), {}, (random(3, 2, 6),)),
    ("TransformerDecoderLayer", (6, 2, 8, 0.0), {}, (random(3, 2, 6), random(4, 2, 6))),
    ("CrossEntropyLoss", (), {"weight": True}, (random(5, 4), numpy.arange(5) % 4)),
    ("NLLLoss", (), {"weight": True}, (random(5, 4), numpy.arange(5) % 4)),
    ("BCEWithLogitsLoss", (), {"weight": True}, (random(5, 4), numpy.full((5, 4), 0.3))),
]


def layer(library, name, args, options):
    if "weight" in options:
        options = {"weight": library.tensor(numpy.arange(1.0, 5.0))}
    made = getattr(library.nn, name)(*args, **options).double().eval()
    for module in made.modules():
        for table in (module._parameters, module._buffers):
            for key, one in table.items():
                if one is not None and one.is_floating_point():
                    numbers = numpy.abs(random(*one.shape, seed=zlib.crc32(key.encode()))) + 0.5
                    with library.no_grad():
                        one.copy_(library.tensor(numbers))
    return made


def has_tensors(case):
    made = layer(pullback, *case[:3])
    return case[3] is not None and bool([*made.parameters(), *made.buffers()])


LAYERS = [case for case in [*CASES, *FURTHER] if has_tensors(case)]
each_layer = pytest.mark.parametrize("case", LAYERS, ids=lambda c: f"{c[0]}{c[1]}{[*c[2]]}")


def swapped(module):
    """Other tensors for those that the module has itself, by name."""
    own = {**module._parameters, **module._buffers}
    return {
        name: one.detach() * 1.5 + 0.25
        for name, one in own.items()
        if one is not None and one.is_floating_point()
    }


def outcomes(case, run):
    name, args, options, arrays = case
    made = []
    for library in LIBRARIES:
        module = layer(library, name, args, options)
        inputs = [given(library, array) for array in arrays]
        made.append(run(library, module, inputs))
    return made


@each_layer
def test_what_stands_in_the_instance_comes_first(case):
    def run(library, module, inputs):
        module(*inputs)  # what was learnt of the class in an earlier call must not matter
        for one in module.modules():
            one.__dict__.update(swapped(one))
        return module(*inputs)

    close(*outcomes(case, run))


@each_layer
def test_a_getattr_of_the_users_is_asked(case):
    def run(library, module, inputs):
        module(*inputs)

        def __getattr__(self, name):  # noqa: N807 (of the class below)
            others = self.__dict__.get("others", {})
            return others[name] if name in others else super(type(self), self).__getattr__(name)

        for one in module.modules():
            base = type(one)
            one.__class__ = type(base.__name__, (base,), {"__getattr__": __getattr__})
            one.__dict__["others"] = swapped(one)
        return module(*inputs)

    close(*outcomes(case, run))


@each_layer
def test_a_getattr_put_on_a_class_that_was_used_is_asked(case, monkeypatch):
    def run(library, module, inputs):
        module(*inputs)
        before = library.nn.Module.__getattr__
        others = {id(one): swapped(one) for one in module.modules()}

        def replaced(self, name):
            return others[id(self)][name] if name in others[id(self)] else before(self, name)

        with monkeypatch.context() as patch:
            patch.setattr(library.nn.Module, "__getattr__", replaced)
            return module(*inputs)

    close(*outcomes(case, run))


class Stand:
    """A `self` that is no module and has a module's attributes and methods, of these names."""

    def __init__(self, module, names):
        for name in names:
            one = getattr(module, name, None)
            bound = inspect.ismethod(one) and not isinstance(one.__self__, type)
            self.__dict__[name] = one.__func__.__get__(self) if bound else one


# Their forward is in several methods here, which have names of our own.
IN_PARTS = ("LSTM", "GRU", "RNN", "BatchNorm", "InstanceNorm", "SyncBatchNorm", "Transformer")


@each_layer
def test_forward_takes_a_self_that_is_no_module(case):
    name, args, options, _ = case
    theirs = dir(layer(torch, name, args, options))

    def run(library, module, inputs):
        names = dir(module) if name.startswith(IN_PARTS) else theirs
        stand = Stand(module, [one for one in names if not one.startswith("__")])
        try:
            return type(module).forward(stand, *inputs)
        except Exception as error:
            return type(error).__name__

    close(*outcomes(case, run))


def test_a_linear_layer_asks_a_self_that_is_no_module_for_weight_and_bias_alone():
    class Pair:
        def __init__(self, library):
            self.weight, self.bias = library.ones(3, 2), library.zeros(3)

    close(*(library.nn.Linear.forward(Pair(library), library.ones(1, 2)) for library in LIBRARIES))
