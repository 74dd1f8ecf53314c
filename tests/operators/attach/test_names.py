"""What the generated tables say is what the families have, and it loads when it is first used."""

import inspect
import subprocess
import sys
from importlib import import_module

import pytest

import pullback as torch
from pullback.operators.attach import faces, methods, names
from pullback.operators.declare import METHODS, OPERATORS

FAMILIES = sorted({*names.FUNCTIONS, *names.METHODS})


def run(program):
    return subprocess.run([sys.executable, "-c", program], check=True, capture_output=True).stdout


@pytest.mark.parametrize("family", FAMILIES)
def test_functions_of_a_family_are_its_own(family):
    module = methods.load(family)
    for public, own in faces.pairs(names.FUNCTIONS.get(family, "")):
        assert getattr(torch, public) is faces.look_up(module, own)


@pytest.mark.parametrize("space", sorted(names.FACES))
def test_a_public_module_has_what_families_say_is_found_there(space):
    face = import_module(f"pullback.{space}")
    for family, listed in names.FACES[space].items():
        module = import_module(f"pullback.operators.{family}")
        for public, own in faces.pairs(listed):
            assert inspect.unwrap(getattr(face, public)) is inspect.unwrap(
                faces.look_up(module, own)
            )
            assert public in face.__all__


@pytest.mark.parametrize("family", FAMILIES)
def test_methods_of_a_family_are_listed_and_no_others(family):
    methods.load(family)
    module = f"pullback.operators.{family}"
    own = [op for op in OPERATORS.values() if op.forward.__module__ == module]
    found = {op.name for op in own if op.method} | {f"{op.name}_" for op in own if op.inplace}
    found |= {name for name, function in METHODS.items() if function.__module__ == module}
    others = {name for name, f in METHODS.items() if f.__module__ != module}
    for alias, target in names.ALIASES.items():
        found |= {alias + end for end in ("", "_") if target + end in found}
    listed = set(names.METHODS.get(family, "").split())
    assert listed - found <= others
    assert found - listed <= others


def test_what_is_loaded_with_the_package_is_there_at_once():
    program = """
import pullback
from pullback.operators.attach import faces, names
first = {public for words in names.FIRST.values() for public, _ in faces.pairs(words)}
print(sorted(first - vars(pullback).keys()))
"""
    assert run(program).strip() == b"[]"


def test_a_method_loads_its_family_on_first_use():
    program = """
import sys, pullback as torch
assert 'pullback.operators.reduce.sorting' not in sys.modules
print(torch.tensor([2., 1.]).sort().values.tolist())
assert type(torch.Tensor.__dict__['topk']).__name__ == 'function'
"""
    assert run(program).strip() == b"[1.0, 2.0]"


def test_the_matrix_sign_works_before_its_family_is_loaded():
    program = """
import sys, pullback as torch
assert 'pullback.operators.linalg.products' not in sys.modules
print((torch.ones(2, 2) @ torch.ones(2, 2)).tolist(), torch.ones(2, 2).__rmatmul__)
"""
    assert run(program).startswith(b"[[2.0, 2.0], [2.0, 2.0]]")


def test_a_subclass_finds_methods_that_load_later():
    program = """
import pullback as torch
class Mine(torch.Tensor):
    pass
assert callable(Mine.softmax)
assert 'cumsum' in dir(Mine)
assert 'cumsum' in dir(torch) and 'cumsum' in torch.__all__
"""
    run(program)


def test_special_methods_load_their_family_on_first_use():
    program = """
import copy, pickle, sys, pullback as torch
from pullback.operators.attach.methods import _SPECIAL_LATER
assert not [f for f in _SPECIAL_LATER if 'pullback.operators.' + f in sys.modules]
x = torch.ones(2)
assert repr(x) == 'tensor([1., 1.])' and f'{x.sum()}' == '2.0'
for copied in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
    assert copied.tolist() == [1.0, 1.0]
for family, listed in _SPECIAL_LATER.items():
    made = sys.modules['pullback.operators.' + family].DUNDERS
    assert sorted(made) == sorted(listed)
    assert all(vars(torch.Tensor)[name] is function for name, function in made.items())
assert torch.Tensor.__repr__.__name__ == '__repr__'
"""
    run(program)


def test_a_subclass_that_calls_on_a_method_that_loads_later_is_called_once():
    program = """
import pullback as torch
calls = []
class Mine(torch.Tensor):
    def cumsum(self, dim):
        calls.append(dim)
        return super().cumsum(dim)
    def __repr__(self):
        calls.append('repr')
        return 'Mine'
x = torch.ones(2).as_subclass(Mine)
assert x.cumsum(0).tolist() == [1.0, 2.0] and torch.Tensor.__repr__(x) == 'Mine([1., 1.])'
assert calls == [0], calls
"""
    run(program)


def test_the_engine_loads_with_the_first_pass():
    program = """
import sys, pullback as torch
x = torch.ones(2, requires_grad=True)
y = (x * x).sum()
assert not [name for name in sys.modules if name.startswith('pullback.engine')]
y.backward()
assert x.grad.tolist() == [2.0, 2.0]
assert torch.autograd.grad(x.sum(), x)[0].tolist() == [1.0, 1.0]
"""
    run(program)


@pytest.mark.parametrize(
    "first",
    [
        "torch.autograd.backward(x.sum())",
        "assert torch.autograd.grad(x.sum(), x)[0].tolist() == [1.0, 1.0]",
        "torch.autograd.graph.get_gradient_edge(x).node(torch.ones(2))",
        "assert torch.autograd._is_checkpoint_valid()",
        "assert torch.autograd.Variable._execution_engine.is_checkpoint_valid()",
        "assert torch.autograd.gradcheck(torch.sin, x.double())",
        "assert torch.func.grad(torch.sum)(x).tolist() == [1.0, 1.0]",
        "assert torch.func.jvp(torch.sin, (x,), (x,))[1].shape == (2,)",
    ],
)
def test_whoever_comes_first_finds_the_engine(first):
    run(f"import pullback as torch\nx = torch.ones(2, requires_grad=True)\n{first}")
