"""The names of torch that a program uses, read from its source; nothing is imported or run."""

from __future__ import annotations

import ast
import builtins
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy

from pullback.checking import names

__all__ = ["Program", "Use", "read"]

# Handlers and conditions that say a program can do without what is inside.
_CATCHING = {"ImportError", "ModuleNotFoundError", "AttributeError", "Exception", "BaseException"}
_ASKING = {"is_available", "hasattr", "TYPE_CHECKING", "find_spec"}


@dataclass(frozen=True)
class Use:
    """One place where a program names something of torch."""

    path: str  # below torch: "nn.Linear"; of a method: "Tensor.view"
    file: str
    line: int
    optional: bool = False  # tried or asked for first, so the program can do without
    keywords: tuple[str, ...] = ()


@dataclass
class Program:
    """What was read: uses in order, other packages that are imported, and what cannot be read."""

    uses: list[Use] = field(default_factory=list)
    packages: set[str] = field(default_factory=set)
    files: list[Path] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)


def read(paths: list[Path]) -> Program:
    r"""Read files, folders and notebooks, and the modules beside them that they import.

    >>> import tempfile, pathlib
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "train.py"
    >>> _ = file.write_text("import torch.nn as nn\nmodel = nn.Linear(2, 1)\n")
    >>> [use.path for use in read([file]).uses]
    ['nn', 'nn.Linear']
    """
    program, with_torch = Program(), False
    waiting = [file for path in paths for file in _files(path)]
    while waiting:
        file = waiting.pop(0)
        if file in program.files:
            continue
        program.files.append(file)
        try:
            tree = ast.parse(_source(file), str(file))
        except (OSError, SyntaxError, ValueError) as error:
            program.unread.append(f"{file}: {error}")
            continue
        reader = _Reader(str(file), program)
        reader.visit(tree)
        with_torch = with_torch or reader.found_torch
        waiting += _local(file.parent, reader.imported, program.packages)
    if not with_torch:  # then methods are not those of tensors
        program.uses.clear()
    return program


def _files(path: Path) -> list[Path]:
    return sorted(path.rglob("*.py")) if path.is_dir() else [path]


def _source(file: Path) -> str:
    text = file.read_text(encoding="utf-8")
    if file.suffix != ".ipynb":
        return text
    cells = [cell for cell in json.loads(text)["cells"] if cell["cell_type"] == "code"]
    lines = "".join("".join(cell["source"]).rstrip() + "\n" for cell in cells).splitlines()
    # Commands of the notebook are no Python; blank lines keep the numbers.
    return "\n".join("" if line.lstrip()[:1] in ("%", "!", "?") else line for line in lines)


def _local(folder: Path, imported: set[str], packages: set[str]) -> Iterator[Path]:
    """Modules that lie beside a file; all others are packages, unless Python brings them."""
    for name in sorted(imported):
        plain = name.lstrip(".")
        dots = len(name) - len(plain)
        home = folder.joinpath(*[".."] * (dots - 1)).resolve() if dots > 1 else folder
        start = home.joinpath(*plain.split("."))
        top = plain.partition(".")[0]
        if plain and start.with_suffix(".py").is_file():
            yield start.with_suffix(".py")
        elif plain and (start / "__init__.py").is_file():
            yield start / "__init__.py"
        elif not dots and top not in sys.stdlib_module_names and not _beside(folder, top):
            packages.add(top)


def _beside(folder: Path, name: str) -> bool:
    return (folder / name).is_dir() or (folder / f"{name}.py").is_file() or folder.name == name


@cache
def _methods() -> frozenset[str]:
    """Methods of tensors that no other usual object has: these are taken for a tensor's."""
    common: set[str] = set()
    others = [value for value in vars(builtins).values() if isinstance(value, type)]
    for other in [*others, numpy.ndarray, numpy.generic, Path]:
        common.update(dir(other))
    for path, members in names.classes().items():
        if path != "Tensor":
            common.update(members)
    for module in ("fft", "linalg", "special"):  # `lib.linalg.solve(...)` is no method
        common.update(names.public()[module])
    return frozenset(names.classes()["Tensor"]) - common


class _Reader(ast.NodeVisitor):
    def __init__(self, file: str, program: Program) -> None:
        self.file = file
        self.program = program
        self.names: dict[str, str] = {}  # what names of the file stand for, as paths below torch
        self.imported: set[str] = set()
        self.optional = False
        self.found_torch = False

    def use(self, path: str, node: ast.AST, keywords: tuple[str, ...] = ()) -> None:
        line = getattr(node, "lineno", 0)
        self.program.uses.append(Use(path, self.file, line, self.optional, keywords))

    # Imports

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            top, _, below = alias.name.partition(".")
            if top != "torch":
                self.imported.add(alias.name)
                self.names.pop(alias.asname or top, None)
                continue
            self.found_torch = True
            self.names[alias.asname or "torch"] = below if alias.asname else ""
            if below:
                self.use(below, node)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        module = node.module or ""
        top, _, below = module.partition(".")
        if top != "torch" or node.level:
            dots = "." * node.level
            self.imported.add(dots + module)
            for alias in node.names:
                self.names.pop(alias.asname or alias.name, None)
                self.imported.add(f"{dots}{module}.{alias.name}" if module else dots + alias.name)
            return
        self.found_torch = True
        for alias in node.names:
            if alias.name == "*":
                listed = names.public().get(below or "torch", ())
                self.names.update({name: f"{below}.{name}".lstrip(".") for name in listed})
                continue
            path = f"{below}.{alias.name}".lstrip(".")
            self.names[alias.asname or alias.name] = path
            self.use(path, node)

    # Names

    def path_of(self, node: ast.AST) -> tuple[str | None, list[str]]:
        """The path below torch that an expression names, and the attributes beyond it."""
        parts: list[str] = []
        while isinstance(node, ast.Attribute):
            parts.insert(0, node.attr)
            node = node.value
        if not isinstance(node, ast.Name) or node.id not in self.names:
            return None, parts
        path = self.names[node.id]
        while parts and _has_parts(path):
            path = f"{path}.{parts.pop(0)}".lstrip(".")
        return path, parts

    def visit_Name(self, node: ast.Name) -> None:
        if isinstance(node.ctx, ast.Load) and self.names.get(node.id):
            self.use(self.names[node.id], node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        path, _ = self.path_of(node)
        if path is not None:
            if path:
                self.use(path, node)
            return
        self.visit(node.value)

    def _method(self, call: ast.Call) -> None:
        """`x.view(...)` is taken for a tensor's; `self.view(...)` is the program's own."""
        function = call.func
        if not isinstance(function, ast.Attribute) or function.attr not in _methods():
            return
        own = isinstance(function.value, ast.Name) and function.value.id in ("self", "cls")
        path, beyond = self.path_of(function)
        if not own and (path is None or beyond):
            self.use(f"Tensor.{function.attr}", call)

    def visit_Call(self, node: ast.Call) -> None:
        path, beyond = self.path_of(node.func)
        given = tuple(keyword.arg for keyword in node.keywords if keyword.arg is not None)
        if path and not beyond and given:
            self.use(path, node, given)
        else:
            self._asked(node)
            self._method(node)
            self.visit(node.func)
        for child in [*node.args, *node.keywords]:
            self.visit(child)

    def _asked(self, node: ast.Call) -> None:
        """`getattr(torch, "name")`, and with a default or as hasattr: a question."""
        asks = isinstance(node.func, ast.Name) and node.func.id in ("getattr", "hasattr")
        if not asks or len(node.args) < 2 or not isinstance(node.args[1], ast.Constant):
            return
        path, beyond = self.path_of(node.args[0])
        if path is not None and not beyond and _has_parts(path):
            with self._trying(len(node.args) > 2 or ast.unparse(node.func) == "hasattr"):
                self.use(f"{path}.{node.args[1].value!s}".lstrip("."), node)

    def visit_Assign(self, node: ast.Assign) -> None:
        self.visit(node.value)
        path, beyond = self.path_of(node.value)
        for target in node.targets:
            if isinstance(target, ast.Name):  # `F = torch.nn.functional`; or the name means another
                if path is not None and not beyond and isinstance(node.value, ast.Attribute):
                    self.names[target.id] = path
                else:
                    self.names.pop(target.id, None)
            else:
                self.visit(target)

    # What a program can do without

    @contextmanager
    def _trying(self, is_tried: bool) -> Iterator[None]:
        before = self.optional
        self.optional = before or is_tried
        try:
            yield
        finally:
            self.optional = before

    def visit_Try(self, node: ast.Try) -> None:
        caught = {name for handler in node.handlers for name in _named(handler.type)}
        bare = any(handler.type is None for handler in node.handlers)
        with self._trying(bare or bool(caught & _CATCHING)):
            for line in node.body:
                self.visit(line)
        for child in [*node.handlers, *node.orelse, *node.finalbody]:
            self.visit(child)

    def visit_If(self, node: ast.If) -> None:
        self.visit(node.test)
        with self._trying(bool(_named(node.test) & _ASKING)):
            for child in node.body:
                self.visit(child)
        for child in node.orelse:
            self.visit(child)


def _has_parts(path: str) -> bool:
    """Whether what follows the dot belongs to torch's names: of a module, or of a class."""
    if path == "" or path in names.public() or path in names.classes():
        return True
    return path.rpartition(".")[2].startswith("_")  # torch's own, about which nothing is listed


def _named(node: ast.AST | None) -> set[str]:
    parts = ast.walk(node) if node is not None else ()
    found = {part.id for part in parts if isinstance(part, ast.Name)}
    parts = ast.walk(node) if node is not None else ()
    return found | {part.attr for part in parts if isinstance(part, ast.Attribute)}
