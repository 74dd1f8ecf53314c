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
    assert pullback.nn.Linear.__module__ == before == home_of(pullback.nn.Linear)


# A law, read from the source -----------------------------------------------------------------------

# Who may go by names of modules, and why.
ALLOWED = {
    "checking/standing_in.py": "renames",
    "checking/children/sitecustomize.py": "finds torch by its name",
    "core/home.py": "is where everybody asks",
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
    return isinstance(value, str) and value.partition(".")[0] in ("pullback", "torch")


def questions_in(source):
    return sorted(set(Questions().look(ast.parse(source))))


def test_nobody_goes_by_the_name_of_a_module():
    found = {}
    for file in sorted(PACKAGE.rglob("*.py")):
        name = file.relative_to(PACKAGE).as_posix()
        lines = questions_in(file.read_text())
        if lines and name not in ALLOWED:
            found[name] = lines
    assert found == {}, "ask pullback.core.home whose it is, or compare objects"
