"""A function, class or statement of a module with other names for what it finds outside of itself.

Branches that only tensors, or arrays of other kinds than NumPy's, would take are left out, and so
are annotations.
"""

from __future__ import annotations

import ast
import pickle
from collections.abc import Iterable
from typing import Any, Protocol

from pullback.compiled.export.source import bound_by
from pullback.core.home import is_in_package

__all__ = ["Names", "rewritten"]

_NOTHING: frozenset[str] = frozenset()


class Names(Protocol):
    """What a part of a source finds outside of itself; `closed` is what a function closes over."""

    closed: dict[str, Any]

    def expression(
        self, name: str, attributes: list[str], bound: frozenset[str]
    ) -> tuple[ast.expr | None, int]:
        """What stands for `name.attributes`, and how many of the attributes it has taken in.

        None: the name itself. `bound` are names that mean something else at that place.
        """

    def partial(
        self, name: str, attributes: list[str], bound: frozenset[str]
    ) -> tuple[ast.expr, list[ast.expr]] | None:
        """Where it is a function with arguments bound: that function, and the arguments."""

    def value(self, name: str, attributes: list[str]) -> Any:
        """The object that it is; `Ellipsis` where that is not known."""

    def is_never(self, value: Any) -> bool:
        """Whether it is a class that no array of the exported program is of."""

    def bring(self, name: str, module: str, attribute: str) -> None:
        """An import within a function binds a name."""


def rewritten(node: Any, names: Names) -> Any:
    """A copy of the node, with what `names` say in place of each name from outside."""
    return _Rewriting(names).visit(pickle.loads(pickle.dumps(node)))  # a quarter of deepcopy's time


class _Rewriting(ast.NodeTransformer):
    def __init__(self, names: Names) -> None:
        self.names = names
        self.bound = _NOTHING  # by the functions around
        self.in_class = False

    # Names ----------------------------------------------------------------------------------

    def visit_Name(self, node: ast.Name) -> Any:
        return self._named(node, node, [])

    def visit_Attribute(self, node: ast.Attribute) -> Any:
        root, attributes = _chain(node)
        if root is None:
            return self.generic_visit(node)
        return self._named(node, root, attributes)

    def _named(self, node: Any, root: ast.Name, attributes: list[str]) -> Any:
        if root.id in self.bound:
            return node
        made, used = self.names.expression(root.id, attributes, self.bound)
        if made is None:
            return node
        if isinstance(made, ast.Name):
            made = ast.Name(made.id, node.ctx if used == len(attributes) else ast.Load())
        for number, attribute in enumerate(attributes[used:], used + 1):
            last = number == len(attributes)
            made = ast.Attribute(made, attribute, node.ctx if last else ast.Load())
        return made

    def visit_Call(self, node: ast.Call) -> Any:
        """A call of a function with some arguments bound has them written before its own."""
        root, attributes = _chain(node.func)
        bound = None
        if root is not None and root.id not in self.bound:
            bound = self.names.partial(root.id, attributes, self.bound)
        if bound is None:
            return self.generic_visit(node)
        function, args = bound
        node.args = [*args, *[self.visit(one) for one in node.args]]
        node.keywords = [self.visit(one) for one in node.keywords]
        node.func = function
        return node

    def visit_Global(self, node: ast.Global) -> Any:
        names = [self._named(one := ast.Name(n, ast.Load()), one, []).id for n in node.names]
        return ast.Global(names)

    # Scopes ---------------------------------------------------------------------------------

    def visit_FunctionDef(self, node: ast.FunctionDef) -> Any:
        node.decorator_list = [self.visit(one) for one in node.decorator_list]
        node.returns = None
        _shorten_docstring(node)
        self._inside(node, node.body)
        node.body = node.body or [ast.Pass()]
        return node

    def visit_Lambda(self, node: ast.Lambda) -> Any:
        self._inside(node, None)
        return node

    def _inside(self, node: ast.FunctionDef | ast.Lambda, body: list[ast.stmt] | None) -> None:
        """Visit a function: its defaults from outside, its body with its names bound."""
        arguments = node.args
        arguments.defaults = [self.visit(one) for one in arguments.defaults]
        arguments.kw_defaults = [one and self.visit(one) for one in arguments.kw_defaults]
        listed = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
        listed += [one for one in (arguments.vararg, arguments.kwarg) if one is not None]
        for one in listed:
            one.annotation = None
        names = {one.arg for one in listed}
        outside: set[str] = set()
        for statement in body or ():
            names |= bound_by(statement)
            outside |= _not_local(statement)
        before, self.bound = self.bound, self.bound - outside | (names - outside)
        was_class, self.in_class = self.in_class, False
        if body is None:
            node.body = self.visit(node.body)  # type: ignore[arg-type]  # a lambda's
        else:
            body[:] = self._statements(body)
        self.bound, self.in_class = before, was_class

    def _statements(self, body: Iterable[ast.stmt]) -> list[ast.stmt]:
        made: list[ast.stmt] = []
        for one in body:
            seen = self.visit(one)
            made += seen if isinstance(seen, list) else [seen] if seen is not None else []
        return made

    def visit_ClassDef(self, node: ast.ClassDef) -> Any:
        node.decorator_list = [self.visit(one) for one in node.decorator_list]
        node.bases = [self.visit(one) for one in node.bases]
        _shorten_docstring(node)
        own = frozenset().union(*map(bound_by, node.body))
        body, was_class = [], self.in_class
        for one in node.body:
            is_function = isinstance(one, ast.FunctionDef)  # which does not see the class's names
            before, self.bound = self.bound, self.bound if is_function else self.bound | own
            self.in_class = True
            seen = self.visit(one)
            self.bound = before
            body += seen if isinstance(seen, list) else [seen] if seen is not None else []
        self.in_class = was_class
        node.body = body or [ast.Pass()]
        return node

    def _comprehension(self, node: Any) -> Any:
        targets = frozenset().union(*(bound_by(one.target) for one in node.generators))
        node.generators[0].iter = self.visit(node.generators[0].iter)
        before, self.bound = self.bound, self.bound | targets
        for number, one in enumerate(node.generators):
            if number:
                one.iter = self.visit(one.iter)
            one.ifs = [self.visit(test) for test in one.ifs]
        for part in ("elt", "key", "value"):
            if hasattr(node, part):
                setattr(node, part, self.visit(getattr(node, part)))
        self.bound = before
        return node

    # The names are those that `ast.NodeTransformer` calls.
    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _comprehension  # noqa: N815

    # What is left out -----------------------------------------------------------------------

    def visit_AnnAssign(self, node: ast.AnnAssign) -> Any:
        if self.in_class:  # fields of a NamedTuple
            node.value = node.value and self.visit(node.value)
            node.annotation = ast.Name("object", ast.Load())
            return node
        if node.value is None:
            return None
        return self.visit(ast.copy_location(ast.Assign([node.target], node.value), node))

    def visit_ImportFrom(self, node: ast.ImportFrom) -> Any:
        module = node.module or ""
        if not is_in_package(module):
            return node
        for one in node.names:
            self.names.bring(one.asname or one.name, module, one.name)
        return None

    def visit_If(self, node: ast.If) -> Any:
        known = self._known(node.test)
        if known is not None:
            return self._statements(node.body if known else node.orelse)
        node.test = self._shortened(node.test)
        node.body = self._statements(node.body) or [ast.Pass()]
        node.orelse = self._statements(node.orelse)
        return node

    def visit_IfExp(self, node: ast.IfExp) -> Any:
        known = self._known(node.test)
        if known is not None:
            return self.visit(node.body if known else node.orelse)
        node.test = self._shortened(node.test)
        node.body, node.orelse = self.visit(node.body), self.visit(node.orelse)
        return node

    def visit_BoolOp(self, node: ast.BoolOp) -> Any:
        return self._shortened(node)

    def _shortened(self, test: ast.expr) -> Any:
        """A condition without the parts that are known and decide nothing."""
        if not isinstance(test, ast.BoolOp):
            return self.visit(test)
        neutral = isinstance(test.op, ast.And)
        left = []
        for one in test.values:
            known = self._known(one)
            if known is not neutral:
                left.append(ast.Constant(known) if known is not None else self._shortened(one))
            if known is (not neutral):
                break
        if not left:
            return ast.Constant(neutral)
        return left[0] if len(left) == 1 else ast.BoolOp(test.op, left)

    def _known(self, test: ast.expr) -> bool | None:
        """What a condition comes to for every exported program, where that is known."""
        if isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not):
            inner = self._known(test.operand)
            return None if inner is None else not inner
        if isinstance(test, ast.BoolOp):
            parts = [self._known(one) for one in test.values]
            decisive = isinstance(test.op, ast.Or)
            if decisive in parts:
                return decisive
            return None if None in parts else not decisive
        if isinstance(test, ast.Call) and isinstance(test.func, ast.Name) and len(test.args) == 2:
            is_check = test.func.id == "isinstance" and test.func.id not in self.bound
            return False if is_check and self._is_never(test.args[1]) else None
        if isinstance(test, ast.Compare) and len(test.ops) == 1:
            return self._compared(test.left, test.ops[0], test.comparators[0])
        if isinstance(test, ast.Name):
            value = self._closed(test)
            return value if isinstance(value, bool) else None
        return None

    def _compared(self, left: ast.expr, op: ast.cmpop, right: ast.expr) -> bool | None:
        negated = isinstance(op, ast.IsNot | ast.NotIn)
        if self._is_never(right) and isinstance(op, ast.Is | ast.In | ast.IsNot | ast.NotIn):
            return negated
        is_none = isinstance(right, ast.Constant) and right.value is None
        value = self._closed(left)
        if value is ... or not is_none or not isinstance(op, ast.Is | ast.IsNot):
            return None
        return (value is None) is not negated

    def _closed(self, node: ast.expr) -> Any:
        """What the function closes over by a name; `Ellipsis` where it is no such name."""
        if isinstance(node, ast.Name) and node.id not in self.bound:
            return self.names.closed.get(node.id, ...)
        return ...

    def _is_never(self, node: ast.expr) -> bool:
        if isinstance(node, ast.Tuple):
            return all(self._is_never(one) for one in node.elts)
        if isinstance(node, ast.BinOp):
            return self._is_never(node.left) and self._is_never(node.right)
        root, attributes = _chain(node)
        if root is None or root.id in self.bound:
            return False
        return self.names.is_never(self.names.value(root.id, attributes))


def _chain(node: ast.AST) -> tuple[ast.Name | None, list[str]]:
    """The name that a chain of attributes begins with, and the attributes."""
    attributes: list[str] = []
    while isinstance(node, ast.Attribute):
        attributes.insert(0, node.attr)
        node = node.value
    return (node, attributes) if isinstance(node, ast.Name) else (None, attributes)


def _not_local(statement: ast.AST) -> set[str]:
    """Names that a function takes from outside although it binds them."""
    found: set[str] = set()
    for node in ast.walk(statement):
        if isinstance(node, ast.Global):
            found |= set(node.names)
        elif isinstance(node, ast.ImportFrom) and is_in_package(node.module or ""):
            found |= {one.asname or one.name for one in node.names}
    return found


def _shorten_docstring(node: ast.FunctionDef | ast.ClassDef) -> None:
    """Leave out the examples, which import the package."""
    first = node.body[0]
    if isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant):
        text = first.value.value
        if isinstance(text, str) and ">>>" in text:
            kept = text[: text.index(">>>")].rstrip().removesuffix("Example:").rstrip()
            first.value = ast.Constant(kept)
