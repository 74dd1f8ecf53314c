"""The `pullback` command. A launcher only starts others: it loads neither NumPy nor pullback.

This stands beside the package, since importing anything of a package runs its `__init__` first.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.util import find_spec
from types import ModuleType

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit status."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] != ["launch"]:
        from pullback.cli import main as command

        return command(given)
    _leave_empty("pullback")
    _leave_empty("pullback.distributed")
    from pullback.distributed.launch import main as launch

    return launch(given[1:])


def _leave_empty(package: str) -> None:
    """Make a package known by its folder alone: its modules can be imported, `__init__` is not."""
    if package in sys.modules:
        return
    spec = find_spec(package)
    assert spec is not None, package
    module = ModuleType(package)
    module.__spec__, module.__path__ = spec, list(spec.submodule_search_locations or ())
    sys.modules[package] = module


if __name__ == "__main__":
    sys.exit(main())
