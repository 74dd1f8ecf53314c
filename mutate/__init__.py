"""`make mutate`: one change of the source at a time, and whether a test fails by it.

What no test notices is either not needed, or not tested. `changes` finds what can be changed,
`covering` which tests come by a line, `trying` runs them on a copy of the tree, `kept.toml` lists
changes that may survive, each with its reason.
"""

from __future__ import annotations

# Where a wrong sign is wrong everywhere. Families of operators have gradcheck and the oracle.
SCOPE = (
    "pullback/core",
    "pullback/engine",
    "pullback/transforms",
    "pullback/operators/running",
    "pullback/compiled/capture",
    "pullback/compiled/interpreter",
    "pullback/compiled/runtime",
)

# The tests whose lines are recorded. Those that go through all operators are left out: they come by
# every line of the core, and take a quarter of an hour.
TESTS = (
    "tests/core",
    "tests/engine",
    "tests/transforms",
    "tests/func",
    "tests/autograd",
    "tests/library",
    "tests/compiled",
    "tests/operators/running",
    "tests/operators/dispatch",
    "tests/operators/writing",
    "tests/operators/shape",
    "tests/operators/tensor",
    "tests/amp",
    "tests/serialization",
    "tests/torch_names",
    "tests/utils",
)
LEFT_OUT = (
    "tests/compiled/test_all_operators.py",
    "tests/compiled/test_random_programs.py",
    "tests/compiled/backward/test_all_operators.py",
    "tests/compiled/export",
    "tests/compiled/cuda",
)
