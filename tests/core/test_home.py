"""Whose a class or function is: not by what it says of itself, which the stand-in changes."""

import ast
import functools
from contextlib import contextmanager
from pathlib import Path

import pytest

import pullback
from pullback.checking.standing_in import standing_in
from pullback.core.home import home_of, is_in_package, is_ours, path_of

PACKAGE = Path(pullback.__file__).parent


@pytest.fixture(params=["plain", "standing in"])
def either(request):
    if request.param == "plain":
        yield
        return
    with standing_in():
        yield


@pytest.mark.usefixtures("either")
def test_classes_and_functions_are_at_home_where_they_were_written():
    from pullback.compiled.capture.traced import TracedArray

    assert home_of(pullback.nn.Linear) == "pullback.nn.modules.linear"
    assert home_of(pullback.Tensor) == "pullback.core.tensor"
    assert home_of(TracedArray) == "pullback.compiled.capture.traced"
    assert path_of(pullback.nn.init.ones_) == "pullback.nn.init.ones_"
    assert home_of(pullback.mul) == "pullback.operators.pointwise.arithmetic"
    assert home_of(pullback.__getattr__) == "pullback"
    assert is_ours(pullback.nn.Linear, "optim", "nn")
    assert not is_ours(pullback.nn.Linear, "nn.modules.lin")


@pytest.mark.usefixtures("either")
def test_what_says_that_it_is_ours_need_not_be():
    @functools.wraps(pullback.nn.init.ones_)
    def wrapper(): ...

    class Mine:
        pass

    assert wrapper.__module__ == pullback.nn.init.ones_.__module__
    assert home_of(wrapper) == home_of(Mine) == __name__
    assert not is_ours(wrapper)
    assert not is_in_package("pullbacks")


@pytest.mark.usefixtures("either")
def test_decorators_leave_a_function_to_who_wrote_it():
    @contextmanager
    def block():
        yield

    @pullback.no_grad()
    def plain(x): ...

    @functools.cache
    def kept(): ...

    assert home_of(block) == home_of(plain) == home_of(kept) == __name__
    assert home_of(pullback.autograd.profiler.record_function) == "pullback.autograd.profiler"
    assert is_ours(pullback.narrow, "operators.shape")  # behind a decorator of ours


def test_a_renamed_class_has_its_name_back():
    before = pullback.nn.Linear.__module__
    with standing_in():
        assert pullback.nn.Linear.__module__ == "torch.nn.modules.linear"
    assert pullback.nn.Linear.__module__ == before
    assert home_of(pullback.nn.Linear) == "pullback.nn.modules.linear"


# A law, read from the source -------------------------------------------------------------------

# Who may go by names of modules: how many lines of a file, and why.
ALLOWED = {
    "compiled/show.py": (1, "the name that a user types"),
    "checking/children/sitecustomize.py": (1, "looks whether the package is loaded"),
    "checking/standing_in.py": (7, "is who renames"),
    "compiled/interpreter/library.py": (1, "knows modules of the standard library that are fixed"),
    "compiled/interpreter/sources.py": (2, "for a message"),
    "compiled/export/values.py": (2, "looks for what NumPy and Python have, by identity"),
    "core/explain/absent.py": (2, "reads what errors and modules are called, for a message"),
    "core/home.py": (4, "is whom everybody asks"),
    "core/trees/text.py": (1, "writes into a text what is looked up by name when it is read"),
    "fx/_names.py": (2, "writes names into code, and makes sure that they lead to the object"),
    "jit/_serialization.py": (1, "reads the mark of a file"),
    "library/call/executing.py": (1, "for a message"),
    "library/call/bail_out.py": (1, "for a message"),
    "library/registry.py": (1, "compares namespaces of operators"),
    "operators/create/legacy.py": (1, "is typename(), which tells what a class says"),
    "serialization/allowed.py": (1, "knows classes of users by the name that files have for them"),
    "serialization/written.py": (1, "is asked for the name that pickles find it by"),
}


class Questions(ast.NodeVisitor):
    """Lines of a file that ask for a module by name: of a class, of a function, of globals."""

    def __init__(self):
        self.found = []
        self.names = set()  # constants of the file that are names of modules

    def look(self, tree):
        for one in tree.body:
            if isinstance(one, ast.Assign) and is_of_packages(one.value):
                self.names |= {t.id for t in one.targets if isinstance(t, ast.Name)}
        self.visit(tree)
        return self.found

    def visit_JoinedStr(self, node):
        """For people to read."""

    def visit_Assign(self, node):
        targets = ast.dump(ast.Module(node.targets, []))
        if "attr='__module__'" not in targets:  # a copy takes over what the original says
            self.generic_visit(node)

    def visit_Dict(self, node):
        for key, value in zip(node.keys, node.values, strict=True):
            if not (isinstance(key, ast.Constant) and key.value == "__module__"):
                self.visit(value)

    def visit_Attribute(self, node):
        if node.attr == "__module__":
            self.found.append(node.lineno)
        self.generic_visit(node)

    def visit_Subscript(self, node):
        if isinstance(node.slice, ast.Constant) and node.slice.value in ("__name__", "__module__"):
            self.found.append(node.lineno)
        self.generic_visit(node)

    def visit_Call(self, node):
        called = getattr(node.func, "attr", getattr(node.func, "id", ""))
        words = [one.value for one in node.args if isinstance(one, ast.Constant)]
        if called in ("get", "getattr") and {"__name__", "__module__"} & set(words[:1]):
            of_scope = called == "getattr" and "__name__" in words  # the name of a function
            if not of_scope:
                self.found.append(node.lineno)
        if called in ("startswith", "removeprefix") and any(map(self.is_asked, node.args)):
            self.found.append(node.lineno)
        self.generic_visit(node)

    def visit_Compare(self, node):
        if any(map(self.is_asked, (node.left, *node.comparators))):
            self.found.append(node.lineno)
        self.generic_visit(node)

    def is_asked(self, node):
        return is_of_packages(node) or (isinstance(node, ast.Name) and node.id in self.names)


def is_of_packages(node):
    if isinstance(node, ast.Tuple):
        return any(map(is_of_packages, node.elts))
    value = node.value if isinstance(node, ast.Constant) else None
    return isinstance(value, str) and value.partition(".")[0] == "pullback"


def questions_in(source):
    return sorted(set(Questions().look(ast.parse(source))))


def test_nobody_goes_by_the_name_of_a_module():
    found = {}
    for file in sorted(PACKAGE.rglob("*.py")):
        lines = questions_in(file.read_text())
        if lines:
            found[file.relative_to(PACKAGE).as_posix()] = lines
    known = {name: count for name, (count, _) in ALLOWED.items()}
    more = {name: lines for name, lines in found.items() if len(lines) > known.get(name, 0)}
    assert more == {}, "ask pullback.core.home whose it is, or compare objects"
    assert {name: len(lines) for name, lines in found.items()} == known, "fewer than allowed"


@pytest.mark.parametrize(
    "line",
    [
        'kind.__module__.startswith("pullback.")',
        'kind.__module__ == "torch.nn.parameter"',
        'getattr(kind, "__module__", "").partition(".")',
        'function.__globals__.get("__name__", "")',
        'frame.f_globals["__name__"] in KNOWN',
        'name.startswith(("torch.", "pullback."))',
        'OURS = "pullback.nn."\nname.startswith(OURS)',
        'name.partition(".")[0] == "pullback"',
    ],
)
def test_the_law_sees(line):
    assert questions_in(line) == [line.count("\n") + 1]


@pytest.mark.parametrize(
    "line",
    [
        "made.__module__ = function.__module__",
        'members = {"__module__": kind.__module__}',
        'raise TypeError(f"{kind.__module__} cannot be")',
        'import_module("pullback.nn")',
        'name = getattr(function, "__name__", None)',
    ],
)
def test_the_law_lets_pass(line):
    assert questions_in(line) == []
