"""The command line: `pullback run script.py`, `pullback show mul`."""

from __future__ import annotations

import argparse
import inspect
import runpy
import sys
from collections.abc import Sequence
from importlib import import_module
from types import ModuleType


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of the `pullback` command; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="pullback", description="PyTorch's autograd in Python you can read, on NumPy."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="run a script that says `import torch` on pullback")
    run.add_argument("script")
    run.add_argument("arguments", nargs=argparse.REMAINDER)
    show = commands.add_parser("show", help="print an operator's declaration and built source")
    show.add_argument("operator", help="its name, e.g. mul or nn.functional.gelu")
    parsed = parser.parse_args(arguments)
    if parsed.command == "run":
        run_script(parsed.script, parsed.arguments)
        return 0
    return show_operator(parsed.operator)


def run_script(script: str, arguments: Sequence[str]) -> None:
    """Run `script` as the main program, with pullback standing in for torch."""
    stand_in()
    sys.argv = [script, *arguments]
    runpy.run_path(script, run_name="__main__")


def stand_in() -> None:
    """Let `import torch` and `import torch.nn.functional` find pullback."""
    import pullback

    for name in pullback._MODULES:
        import_module(f"pullback.{name}")
    for name, module in list(sys.modules.items()):
        if name == "pullback" or name.startswith("pullback."):
            sys.modules["torch" + name[len("pullback") :]] = module
    for name, value in vars(pullback).items():
        if isinstance(value, ModuleType):
            sys.modules.setdefault(f"torch.{name}", value)


def show_operator(name: str) -> int:
    """Print the declaration of an operator, and the function written from it."""
    import pullback  # noqa: F401 (declares the operators)
    from pullback.operators.build import source_of
    from pullback.operators.declare import OPERATORS

    op = OPERATORS.get(name) or OPERATORS.get(f"_{name}")
    if op is None:
        near = sorted(known for known in OPERATORS if name in known)
        hint = f"; did you mean {', '.join(near[:8])}?" if near else ""
        print(f"pullback has no declared operator {name!r}{hint}", file=sys.stderr)
        return 1
    print(f"# declared in {inspect.getsourcefile(op.forward)}")
    print(inspect.getsource(op.forward))
    print(f"# written on the first call (kind: {op.kind}, node: {op.node_name})")
    print(source_of(op).replace("def written(", f"def {op.name}(", 1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
