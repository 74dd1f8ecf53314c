"""Objects of the package as source: found, named apart, and in an order that runs."""

import linecache

import numpy as np
import pytest

from pullback.compiled.export.definitions import Definitions
from pullback.compiled.export.source import Source
from pullback.compiled.export.values import CannotWrite
from pullback.operators.arrays import reductions
from pullback.operators.nn.image.taps import Taps
from pullback.operators.nn.pool import average, kernels


def run(definitions):
    definitions.finish()
    imports, lines = definitions.texts()
    scope = {}
    exec("\n".join([*imports, *lines]), scope)
    return scope


def test_functions_of_one_name_get_names_of_their_own():
    definitions = Definitions()
    names = [definitions.of(one._few, "_few", (one.__name__, "_few")) for one in (average, kernels)]
    assert names == ["_few", "_few_kernels"]
    assert {"_few", "_few_kernels"} <= run(definitions).keys()


def test_no_name_hides_a_builtin_function():
    definitions = Definitions()
    definitions.of(kernels.maxima_and_places, "")
    scope = run(definitions)
    assert not scope.keys() & {"sum", "max", "min", "abs", "all", "any", "range", "round"}


def test_constants_of_a_module_are_the_statements_that_make_them():
    definitions = Definitions()
    name = definitions.of(reductions.NOT_GIVEN, "", (reductions.__name__, "NOT_GIVEN"))
    made = run(definitions)[name]
    assert type(made).__name__ == "_NotGiven"
    assert type(made) is not type(reductions.NOT_GIVEN)


def test_an_object_is_made_as_pickle_would_restore_it():
    table = Taps([0, 1, 1], [2, 0, 1], [1.0, 0.5, 0.5], 2, 3)
    wanted = table.matrix(np.float64)
    definitions = Definitions()
    name = definitions.of(table, "table")
    made = run(definitions)[name]
    np.testing.assert_array_equal(made.matrix(np.float64), wanted)
    np.testing.assert_array_equal(made.transposed().matrix(np.float64), wanted.T)


@pytest.mark.parametrize(
    "value",
    [1.5, float("inf"), (1, [2j, {"a": None}]), slice(1, None), np.float32(2), np.dtype("<f2"),
     np.arange(600).reshape(2, 300), np.array(3), np.empty((0, 2)), frozenset([3])],
)  # fmt: skip
def test_plain_values_come_back(value):
    definitions = Definitions()
    text = definitions.of(value, "value")
    scope = run(definitions)
    made = eval(text, scope)
    np.testing.assert_equal(made, value)
    assert type(made) is type(value)


def test_functions_of_others_are_refused_by_name():
    with pytest.raises(CannotWrite, match=r"the function run of .*test_definitions"):
        Definitions().of(run, "run")


def test_the_function_of_a_code_is_found_among_several_in_a_line():
    text = "made = [lambda a: (a, lambda b: b + 1), lambda c: c * 2]\n"
    scope = {}
    exec(compile(text, "<lambdas>", "exec"), scope)
    source = Source("lambdas", text)
    first, second = scope["made"]
    found = [source.function(one.__code__) for one in (first, first(0)[1], second)]
    assert [one.args.args[0].arg for one in found] == ["a", "b", "c"]
    assert "<lambdas>" not in linecache.cache
