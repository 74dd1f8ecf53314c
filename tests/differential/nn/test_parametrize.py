"""Parametrizations, old norms by hooks, pruning: state, text and values next to torch's."""

import copy
import warnings

import numpy
import pytest

import pullback
from tests.differential.nn.sides import (
    LIBRARIES,
    close,
    compare,
    given,
    numbers,
    random,
    same_outcome,
    with_weights_of,
)

torch = pytest.importorskip("torch")


def utils(library, name):
    import importlib

    return importlib.import_module(f"{library.__name__}.nn.utils.{name}")


def both(make):
    theirs, ours = make(torch), make(pullback)
    assert repr(ours) == repr(theirs)
    return with_weights_of(ours, theirs), theirs


LAYERS = {
    "linear": (lambda t: t.nn.Linear(3, 5).double(), (2, 3)),
    "wide": (lambda t: t.nn.Linear(5, 3).double(), (2, 5)),
    "square": (lambda t: t.nn.Linear(4, 4).double(), (2, 4)),
    "conv": (lambda t: t.nn.Conv2d(2, 3, 2).double(), (1, 2, 4, 4)),
    "transposed": (lambda t: t.nn.ConvTranspose2d(2, 3, 2).double(), (1, 2, 4, 4)),
}


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("dim", [0, 1, None])
def test_weight_norm(layer, dim):
    make, shape = LAYERS[layer]
    modules = both(lambda t: t.nn.utils.parametrizations.weight_norm(make(t), dim=dim))
    compare(modules, lambda t, m, x: (m(x), m.weight), [random(*shape)])


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("dim", [0, None])
def test_weight_norm_by_a_hook(layer, dim):
    make, shape = LAYERS[layer]

    def made(t):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return t.nn.utils.weight_norm(make(t), dim=dim)

    modules = both(made)
    compare(modules, lambda t, m, x: m(x), [random(*shape)])
    for library, module in zip(LIBRARIES, modules, strict=True):
        library.nn.utils.remove_weight_norm(module)
    assert list(modules[0].state_dict()) == list(modules[1].state_dict())
    close(modules[0].weight, modules[1].weight)


def test_the_state_of_an_old_weight_norm_fits_the_new_one():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        old = pullback.nn.utils.weight_norm(pullback.nn.Linear(3, 2))
    new = pullback.nn.utils.parametrizations.weight_norm(pullback.nn.Linear(3, 2))
    new.load_state_dict(old.state_dict())
    x = pullback.ones(1, 3)
    assert pullback.allclose(new(x), old(x))


@pytest.mark.parametrize("layer", LAYERS)
@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("way", ["new", "hook"])
def test_spectral_norm(layer, training, way):
    make, shape = LAYERS[layer]

    def made(t):
        where = t.nn.utils if way == "hook" else t.nn.utils.parametrizations
        return where.spectral_norm(make(t), n_power_iterations=2)

    ours, theirs = both(made)
    ours.train(training)
    theirs.train(training)
    compare((ours, theirs), lambda t, m, x: (m(x), m(x)), [random(*shape)])
    for one, other in zip(ours.buffers(), theirs.buffers(), strict=True):
        close(one, other)


def test_spectral_norm_says_its_version_and_goes():
    layer = pullback.nn.utils.spectral_norm(pullback.nn.Linear(3, 2))
    assert layer.state_dict()._metadata[""]["spectral_norm"] == {"weight.version": 1}
    again = copy.deepcopy(layer)
    again.load_state_dict(layer.state_dict())
    pullback.nn.utils.remove_spectral_norm(layer)
    assert list(layer.state_dict()) == ["bias", "weight"]
    with pytest.raises(ValueError, match="not normalised"):
        pullback.nn.utils.remove_spectral_norm(layer)


@pytest.mark.parametrize("layer", ["linear", "wide", "square"])
@pytest.mark.parametrize("map", ["matrix_exp", "cayley", "householder", None])
@pytest.mark.parametrize("trivial", [True, False])
def test_orthogonal(layer, map, trivial):
    make, shape = LAYERS[layer]

    def made(t):
        return t.nn.utils.parametrizations.orthogonal(
            make(t), orthogonal_map=map, use_trivialization=trivial
        )

    modules = both(made)
    compare(modules, lambda t, m, x: (m(x), m.weight), [random(*shape)])
    weight = numbers(modules[0].weight)
    product = weight @ weight.T if weight.shape[0] < weight.shape[1] else weight.T @ weight
    numpy.testing.assert_allclose(product, numpy.eye(len(product)), atol=1e-10)


def test_an_orthogonal_matrix_can_be_assigned():
    q = numpy.linalg.qr(random(4, 4))[0]
    for trivial, map in ((True, "matrix_exp"), (True, "cayley"), (False, "householder")):
        layer = pullback.nn.Linear(4, 4).double()
        pullback.nn.utils.parametrizations.orthogonal(
            layer, orthogonal_map=map, use_trivialization=trivial
        )
        layer.weight = pullback.tensor(q)
        numpy.testing.assert_allclose(numbers(layer.weight), q, atol=1e-10)


def symmetric(library):
    class Symmetric(library.nn.Module):
        def forward(self, x):
            return x.triu() + x.triu(1).transpose(-1, -2)

        def right_inverse(self, x):
            return x.triu()

    return Symmetric()


def doubled(library):
    class Doubled(library.nn.Module):
        def forward(self, x):
            return 2 * x

        def right_inverse(self, x):
            return x / 2

    return Doubled()


def test_parametrizations_in_a_row():
    def made(t):
        layer = t.nn.Linear(3, 3).double()
        register = utils(t, "parametrize").register_parametrization
        register(layer, "weight", symmetric(t))
        register(layer, "weight", doubled(t))
        register(layer, "bias", doubled(t))
        return layer

    modules = both(made)
    compare(modules, lambda t, m, x: m(x), [random(2, 3)])
    value = random(3, 3)
    value = value + value.T
    for library, module in zip(LIBRARIES, modules, strict=True):
        module.weight = given(library, value)
        numpy.testing.assert_allclose(numbers(module.weight), value)
        parametrize = utils(library, "parametrize")
        assert parametrize.is_parametrized(module)
        assert parametrize.is_parametrized(module, "bias")
        assert parametrize.type_before_parametrizations(module).__name__ == "Linear"
        copied = copy.deepcopy(module)
        numpy.testing.assert_allclose(numbers(copied.weight), value)
        parametrize.remove_parametrizations(module, "bias")
        parametrize.remove_parametrizations(module, "weight", leave_parametrized=False)
        assert type(module).__name__ == "Linear"
        assert not hasattr(module, "parametrizations")
        assert isinstance(module.weight, library.nn.Parameter)
        assert parametrize.is_parametrized(copied)
    close(modules[0].weight, modules[1].weight)
    close(modules[0].bias, modules[1].bias)


def test_cached_values_are_computed_once():
    calls = []

    class Counted(pullback.nn.Module):
        def forward(self, x):
            calls.append(1)
            return x * 1

    layer = pullback.nn.Linear(2, 2)
    parametrize = utils(pullback, "parametrize")
    parametrize.register_parametrization(layer, "weight", Counted())
    calls.clear()
    with parametrize.cached():
        assert layer.weight is layer.weight
    assert len(calls) == 1
    layer.weight, layer.weight
    assert len(calls) == 3


def test_transfer_of_parametrizations():
    def run(t):
        source, target = t.nn.Linear(3, 3).double(), t.nn.Linear(3, 3).double()
        parametrize = utils(t, "parametrize")
        parametrize.register_parametrization(source, "weight", symmetric(t))
        source.weight = given(t, random(3, 3) + random(3, 3).T)
        parametrize.transfer_parametrizations_and_params(source, target)
        assert type(target.parametrizations.weight[0]).__name__ == "Symmetric"
        return target.weight

    close(*(run(library) for library in LIBRARIES))


REFUSED = [
    lambda t: register(t, t.nn.Linear(3, 3), "nope", symmetric(t)),
    lambda t: register(t, t.nn.Linear(3, 3), "weight", t.nn.Flatten(0)),
    lambda t: utils(t, "parametrize").remove_parametrizations(t.nn.Linear(1, 1), "weight"),
    lambda t: t.nn.utils.parametrizations.orthogonal(t.nn.Linear(3, 3), "bias"),
    lambda t: t.nn.utils.parametrizations.orthogonal(t.nn.Linear(3, 3), "nope"),
    lambda t: t.nn.utils.parametrizations.orthogonal(t.nn.Linear(3, 3), orthogonal_map="x"),
    lambda t: t.nn.utils.parametrizations.spectral_norm(t.nn.Linear(3, 3), dim=4),
    lambda t: t.nn.utils.parametrizations.spectral_norm(t.nn.Linear(3, 3), n_power_iterations=0),
]


def register(library, layer, name, parametrization):
    utils(library, "parametrize").register_parametrization(layer, name, parametrization)


@pytest.mark.parametrize("number", range(len(REFUSED)))
def test_what_cannot_be_parametrized_is_refused_as_torch_does(number):
    same_outcome(REFUSED[number])


def test_pickling_a_parametrized_module_is_refused():
    import pickle

    layer = pullback.nn.utils.parametrizations.weight_norm(pullback.nn.Linear(1, 1))
    with pytest.raises(RuntimeError, match="state_dict"):
        pickle.dumps(layer)


# Pruning ------------------------------------------------------------------------------------------


def linear(library):
    layer = library.nn.Linear(4, 3).double()
    state = {"weight": random(3, 4, seed=1), "bias": random(3, seed=2)}
    layer.load_state_dict({name: given(library, value) for name, value in state.items()})
    return layer


METHODS = {
    "l1": lambda p, t, m: p.l1_unstructured(m, "weight", 0.3),
    "l1 by scores": lambda p, t, m: p.l1_unstructured(
        m, "weight", 3, importance_scores=given(t, random(3, 4, seed=9))
    ),
    "ln rows": lambda p, t, m: p.ln_structured(m, "weight", 1, 2, 0),
    "ln columns": lambda p, t, m: p.ln_structured(m, "weight", 0.5, 1, -1),
    "ln inf": lambda p, t, m: p.ln_structured(m, "weight", 1, float("inf"), 1),
    "identity": lambda p, t, m: p.identity(m, "weight"),
    "mask": lambda p, t, m: p.custom_from_mask(m, "weight", t.tensor([[0, 1, 1, 1]] * 3)),
}


@pytest.mark.parametrize("first", METHODS)
@pytest.mark.parametrize("second", METHODS)
def test_pruning_twice(first, second):
    modules = []
    for library in LIBRARIES:
        layer = linear(library)
        for name in (first, second):
            METHODS[name](utils(library, "prune"), library, layer)
        modules.append(layer)
    ours, theirs = modules
    assert list(ours.state_dict()) == list(theirs.state_dict())
    close(ours.weight_mask, theirs.weight_mask)
    compare((ours, theirs), lambda t, m, x: m(x), [random(2, 4)])
    for library, module in zip(LIBRARIES, modules, strict=True):
        assert utils(library, "prune").is_pruned(module)
        utils(library, "prune").remove(module, "weight")
        assert not utils(library, "prune").is_pruned(module)
    assert list(ours.state_dict()) == list(theirs.state_dict())
    close(ours.weight, theirs.weight)


def test_global_pruning():
    def run(t):
        prune = utils(t, "prune")
        layers = [linear(t), linear(t)]
        layers[1].weight.data.mul_(2)
        pairs = [(layer, "weight") for layer in layers]
        prune.global_unstructured(pairs, prune.L1Unstructured, amount=0.4)
        prune.global_unstructured(pairs, prune.L1Unstructured, amount=2)
        return [layer.weight_mask for layer in layers]

    close(*(run(library) for library in LIBRARIES))


def test_random_pruning_takes_as_many_as_asked():
    prune = utils(pullback, "prune")
    layer = prune.random_unstructured(linear(pullback), "weight", 5)
    assert int((layer.weight_mask == 0).sum()) == 5
    layer = prune.random_structured(linear(pullback), "weight", 2, 1)
    assert int((layer.weight_mask.sum(0) == 0).sum()) == 2


UNPRUNED = [
    lambda p, t: p.remove(linear(t), "weight"),
    lambda p, t: p.l1_unstructured(linear(t), "weight", 100),
    lambda p, t: p.l1_unstructured(linear(t), "weight", 1.5),
    lambda p, t: p.l1_unstructured(linear(t), "weight", "a"),
    lambda p, t: p.l1_unstructured(linear(t), "weight", -1),
    lambda p, t: p.ln_structured(linear(t), "bias", 1, 2, 0),
    lambda p, t: p.ln_structured(linear(t), "weight", 1, 2, 5),
    lambda p, t: p.random_structured(linear(t), "weight", 10, 0),
    lambda p, t: p.global_unstructured(3, p.L1Unstructured, amount=1),
    lambda p, t: p.global_unstructured([(linear(t), "weight")], p.LnStructured, amount=1, n=2),
]


@pytest.mark.parametrize("number", range(len(UNPRUNED)))
def test_what_cannot_be_pruned_is_refused_as_torch_does(number):
    same_outcome(lambda t: UNPRUNED[number](utils(t, "prune"), t))
