"""pullback in torch's place: `import torch` finds it, under torch's names.

`stand_in()` is for a program that says so in its first line; `standing_in()` is the same for a
block, for `pullback run`. Modules `torch.x` are the modules `pullback.x`, the same objects; classes
say that they come from torch, since libraries look at names. Python processes that are started
meanwhile find pullback too, by the `sitecustomize` of the folder `children`.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from importlib.abc import InspectLoader, Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from importlib.util import find_spec
from types import FunctionType, ModuleType
from typing import Any

import pullback
from pullback.core import home
from pullback.core.explain.absent import refuse_others
from pullback.torch_version import __version__

__all__ = ["stand_in", "standing_in"]

# Whose classes are known by where users find them, at the top of torch.
_INNER = ("pullback.core.", "pullback.operators.")
# Operators that a library's Python names as soon as it loads, and that its compiled part, which was
# built for torch, would have defined. Its functions then say that this part could not be loaded.
_COMPILED = {
    "torchvision": (
        "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
        "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    )
}
# Packages of their own that come with torch.
_BESIDE = ("torch", "functorch")
# Where children of this process find the module that Python imports at their start.
_CHILDREN = os.path.join(os.path.dirname(os.path.abspath(__file__)), "children")


def stand_in() -> ModuleType:
    """From here on, `import torch` gives pullback; calling it again changes nothing.

    RuntimeError where torch itself is loaded already: what was imported from it would not mix.

    >>> import pullback
    >>> torch = pullback.stand_in()  # doctest: +SKIP
    >>> torch.__name__  # doctest: +SKIP
    'torch'
    """
    if _standing():
        return pullback
    if "torch" in sys.modules:
        raise RuntimeError(
            "pullback.stand_in(): torch is loaded already, and modules that imported it would go "
            "on using it. Call stand_in() first in the program, or run it with `pullback run`."
        )
    _Place().take()
    return pullback


def _standing() -> bool:
    return any(isinstance(one, _TorchFinder) for one in sys.meta_path)


@contextmanager
def standing_in() -> Iterator[None]:
    """Inside, `import torch` and `import torch.nn.functional` find pullback."""
    if _standing():
        yield
        return
    theirs = _torch_modules()
    for name in theirs:
        del sys.modules[name]
    place = _Place()
    place.take()
    try:
        yield
    finally:
        place.leave()
        sys.modules.update(theirs)


def _torch_modules() -> dict[str, ModuleType]:
    return {n: m for n, m in sys.modules.items() if n.partition(".")[0] in _BESIDE}


def _own_name(name: str) -> str:
    """The module of ours that a module of torch is."""
    return (
        f"pullback.{name}"
        if name.startswith("functorch")
        else "pullback" + name.removeprefix("torch")
    )


class _Place:
    """What changes while pullback stands in, to be taken back."""

    def __init__(self) -> None:
        self.finder = _TorchFinder(self)
        self.renamed: list[tuple[Any, str]] = []
        self.refusing: list[dict[str, Any]] = []  # modules that tell of missing names as torch's
        self.defined: list[Any] = []  # operators are there as long as the library that defines them
        self.tells_children = False

    def take(self) -> None:
        self.renamed.append((pullback, pullback.__name__))
        pullback.__name__ = "torch"
        for name, module in list(sys.modules.items()):
            if name == "pullback" or name.startswith("pullback."):
                sys.modules["torch" + name.removeprefix("pullback")] = module
                self.rename(name, module)
        sys.meta_path.insert(0, self.finder)
        self.tells_children = _tell_children()

    def leave(self) -> None:
        if self.tells_children:
            _tell_children_no_more()
        sys.meta_path.remove(self.finder)
        for name in _torch_modules():
            del sys.modules[name]
        pullback.__name__ = self.renamed.pop(0)[1]
        for thing, module in self.renamed:
            home.restore(thing, module)
        for namespace in self.refusing:
            namespace.pop("__getattr__", None)

    def define(self, library: str) -> None:
        """Define what the compiled part of a library would have."""
        known = pullback.library.Library(library, "FRAGMENT")
        self.defined.append(known)
        for schema in _COMPILED[library]:
            if not hasattr(getattr(pullback.ops, library), schema.partition("(")[0]):
                known.define(schema)

    def rename(self, name: str, module: ModuleType) -> None:
        """Give the classes and functions of a module the home that they have in torch."""
        inner = name.startswith(_INNER)
        kinds: Any = type if inner else (type, FunctionType)
        for known, thing in list(vars(module).items()):
            if isinstance(thing, kinds) and thing.__module__ == name:
                public = inner and vars(pullback).get(known) is thing
                self.renamed.append((thing, name))
                home.rename(thing, "torch" if public else "torch" + name.removeprefix("pullback"))
        if not inner and "._" not in name and type(module) is ModuleType:
            self.refuse(vars(module))

    def refuse(self, namespace: dict[str, Any]) -> None:
        """Let a module's error about a missing name say torch's name of the module.

        Python's own says the module's `__name__`, which stays ours: what is pickled or imported
        anew by it is found.
        """
        if "__getattr__" not in namespace:
            refuse_others(namespace)
            self.refusing.append(namespace)


def _tell_children() -> bool:
    """Let processes that are started from here find pullback; whether they did not before."""
    before = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    if _CHILDREN in before:
        return False
    os.environ["PYTHONPATH"] = os.pathsep.join([_CHILDREN, *filter(None, before)])
    return True


def _tell_children_no_more() -> None:
    left = os.environ.get("PYTHONPATH", "").split(os.pathsep)
    left = [entry for entry in left if entry not in ("", _CHILDREN)]
    if left:
        os.environ["PYTHONPATH"] = os.pathsep.join(left)
    else:
        os.environ.pop("PYTHONPATH", None)


def found(name: str) -> ModuleSpec | None:
    """How `torch` is imported in a process that waited for it; pullback stands in already."""
    # A module that appears while it is looked for is loaded from its own spec: a second pullback.
    sys.modules.pop(name, None)
    return next(one for one in sys.meta_path if isinstance(one, _TorchFinder)).find_spec(name)


def distributions() -> Iterator[Any]:
    """The distribution "torch", as `importlib.metadata` asks for it."""
    yield _distribution()


class _TorchFinder(MetaPathFinder, Loader):
    """Finds `torch.x` as the module `pullback.x`, renames what loads later, and knows a version."""

    def __init__(self, place: _Place) -> None:
        self._place = place

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        if name.startswith("pullback."):
            return self._renaming(PathFinder.find_spec(name, path, target))
        if name in _COMPILED:
            self._place.define(name)
            return None
        if name.partition(".")[0] not in _BESIDE:
            return None
        known = find_spec(_own_name(name))
        if known is None:
            return None
        is_package = known.submodule_search_locations is not None
        spec = ModuleSpec(name, self, origin=known.origin, is_package=is_package)
        spec.loader_state = known
        return spec

    def _renaming(self, spec: ModuleSpec | None) -> ModuleSpec | None:
        if spec is not None and type(spec.loader) is SourceFileLoader:
            spec.loader = _RenamingLoader(spec.loader, self._place)
        return spec

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return import_module(_own_name(spec.name))

    def exec_module(self, module: ModuleType) -> None:
        # It ran when it was imported; importing it by this name has overwritten its own spec.
        assert module.__spec__ is not None
        module.__spec__ = module.__spec__.loader_state

    def get_code(self, name: str) -> Any:
        """The code of `python -m torch.x`."""
        known = find_spec(_own_name(name))
        assert known is not None, name
        assert isinstance(known.loader, InspectLoader), name
        return known.loader.get_code(known.name)

    def find_distributions(self, context: Any = None) -> Iterator[Any]:
        """The distribution "torch", for those who ask `importlib.metadata` for its version."""
        if getattr(context, "name", None) in ("torch", None):
            yield _distribution()


class _RenamingLoader(SourceFileLoader):
    """Loads a module of pullback, then gives its classes their names in torch."""

    def __init__(self, usual: SourceFileLoader, place: _Place) -> None:
        super().__init__(usual.name, usual.path)
        self._place = place

    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        if self._place.finder in sys.meta_path:
            # By that name too, since annotations are looked up in the module that a class names.
            sys.modules.setdefault("torch" + self.name.removeprefix("pullback"), module)
            self._place.rename(self.name, module)


def _distribution() -> Any:
    from importlib.metadata import Distribution

    class Torch(Distribution):
        """What torch's package would say of itself."""

        def read_text(self, filename: str) -> str | None:
            if filename not in ("METADATA", "PKG-INFO"):
                return None
            return f"Metadata-Version: 2.1\nName: torch\nVersion: {__version__}\n"

        def locate_file(self, path: Any) -> Any:
            from pathlib import Path

            return Path(pullback.__file__ or "").parent.parent / path

    return Torch()
