"""`dir()` of every public module shows its public names, all of them and no others.

Public modules are the package and the modules that public modules show.
"""

import collections.abc
import importlib
import types
import typing
import warnings

import pytest

import pullback

# Objects in the place of modules, which keep lists of their own: settings, and operators by name.
OBJECTS = {"pullback.compiler.config", "pullback.ops"}
# What modules import for their annotations.
IMPORTED = {"annotations", *typing.__all__, *collections.abc.__all__}
# Refused when asked for, as what they need is not here.
WANTING = {"tensorboard"}


def shown(module):
    return {name for name in dir(module) if not name.startswith("_")}


def found(module, name):
    """What a public name stands for; some modules load when first asked for."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return getattr(module, name)
        except AttributeError:
            return importlib.import_module(f"{module.__name__}.{name}")


def is_ours(value):
    return isinstance(value, types.ModuleType) and value.__name__.startswith("pullback.")


def public_modules():
    known, waiting = {}, [pullback]
    while waiting:
        module = waiting.pop()
        if module.__name__ not in known:
            known[module.__name__] = module
            names = shown(module) - WANTING if module.__name__ not in OBJECTS else ()
            waiting += [value for name in names if is_ours(value := found(module, name))]
    return known


MODULES = public_modules()


@pytest.mark.parametrize("name", sorted(MODULES.keys() - OBJECTS))
def test_a_public_module_shows_its_public_names_and_no_others(name):
    module = MODULES[name]
    promised = {one for one in module.__all__ if not one.startswith("_")}
    assert promised <= shown(module)
    for extra in shown(module) - promised - WANTING:  # not for `import *`, but its own
        found(module, extra)
        assert extra not in IMPORTED


def test_the_public_modules_are_those_that_users_know():
    wanted = """
        amp autograd autograd.forward_ad autograd.functional autograd.graph autograd.profiler
        backends cuda distributed distributions distributions.transforms fft func fx jit library
        linalg nn nn.functional nn.init nn.utils.parametrize optim optim.lr_scheduler
        signal.windows sparse special testing utils.checkpoint utils.data
    """
    assert {f"pullback.{name}" for name in wanted.split()} <= MODULES.keys()


def test_graph_shows_its_tools_and_not_its_imports():
    names = dir(pullback.autograd.graph)
    assert {"show", "plan", "hooks"} <= set(names)
    assert not {"Any", "Callable", "bump"} & set(names)
