"""What Python imports when a child of a program starts that runs on pullback in torch's place.

`standing_in.py` puts this folder on the PYTHONPATH of children. Most of them never import torch:
until one does, nothing is loaded, pullback included. A `sitecustomize` that would have been found
without this one is imported as well.
"""

from __future__ import annotations

import os
import sys

TYPE_CHECKING = False  # what `typing` calls so, which takes as long to load as all the rest
if TYPE_CHECKING:
    from collections.abc import Iterable
    from importlib.machinery import ModuleSpec
    from typing import Any

_HERE = os.path.dirname(os.path.abspath(__file__))


class _Waiting:
    """Finds nothing, until somebody asks for torch: then pullback takes its place."""

    @staticmethod
    def find_spec(name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """The module of pullback that torch, or a package that comes with it, is."""
        return _pullback().found(name) if name in ("torch", "functorch") else None

    @staticmethod
    def find_distributions(context: Any = None) -> Iterable[Any]:
        """The distribution "torch", for those who ask for it by name before they import it."""
        return _pullback().distributions() if getattr(context, "name", None) == "torch" else ()


def _pullback() -> Any:
    """Let pullback stand in; the very copy that this file belongs to, not one that is found."""
    if "pullback" not in sys.modules:
        from importlib.machinery import PathFinder
        from importlib.util import module_from_spec

        folder = os.path.dirname(os.path.dirname(os.path.dirname(_HERE)))
        spec = PathFinder.find_spec("pullback", [folder])
        assert spec is not None, folder
        assert spec.loader is not None, folder
        package = sys.modules["pullback"] = module_from_spec(spec)
        try:
            spec.loader.exec_module(package)
        except BaseException:
            sys.modules.pop("pullback", None)
            raise
    from pullback.checking import standing_in

    standing_in.stand_in()
    return standing_in


def _import_the_other() -> None:
    """Import the `sitecustomize` that this one hides, in its place."""
    sys.path[:] = [entry for entry in sys.path if os.path.abspath(entry) != _HERE]
    this = sys.modules.pop(__name__)
    try:
        import sitecustomize  # type: ignore[import-not-found]  # noqa: F401 (for what it does)
    except ModuleNotFoundError as error:
        if error.name != __name__:
            raise
    finally:
        # The import that brought us here looks for a module by this name.
        sys.modules.setdefault(__name__, this)


if "torch" not in sys.modules:
    sys.meta_path.insert(0, _Waiting)
_import_the_other()
