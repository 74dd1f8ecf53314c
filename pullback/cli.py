"""The command line: `pullback run`, `check`, `graph`, `launch` and `show`."""

from __future__ import annotations

import argparse
import inspect
import os
import runpy
import sys
from collections.abc import Sequence
from typing import Any

from pullback.checking.command import add_command as add_check_command
from pullback.checking.command import main as check


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
    _add_graph_command(commands)
    add_check_command(commands)
    commands.add_parser(
        "launch",
        add_help=False,
        help="start a script on several ranks: pullback launch -n 4 train.py",
    )
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] == ["launch"]:  # its options are its own, also those of the script
        from pullback.distributed.launch import main as launch

        return launch(given[1:])
    parsed = parser.parse_args(arguments)
    if parsed.command == "check":
        return check(parsed)
    if parsed.command == "graph":
        return draw_graph(parsed)
    if parsed.command == "run":
        run_script(parsed.script, parsed.arguments)
        return 0
    return show_operator(parsed.operator)


def run_script(script: str, arguments: Sequence[str]) -> dict[str, Any]:
    """Run `script` as the main program, with pullback standing in for torch; its globals."""
    from pullback.core.explain.absent import reasons_added
    from pullback.standing_in import standing_in

    sys.argv = [script, *arguments]
    folder = os.path.dirname(os.path.abspath(script))
    sys.path.insert(0, folder)  # as `python script.py` does: modules beside it are found
    try:
        with standing_in(), reasons_added():
            return runpy.run_path(script, run_name="__main__")
    finally:
        if folder in sys.path:
            sys.path.remove(folder)


def _add_graph_command(commands: Any) -> None:
    graph = commands.add_parser(
        "graph",
        help="run a script and draw the backward graph",
        description="Run a script (as `pullback run` does) and write the backward graph of its "
        "last backward() or grad() as a page that needs no network; or of a variable that the "
        "script leaves behind. The graph is read before that backward frees what was saved.",
    )
    graph.add_argument(
        "-o",
        "--output",
        default="graph.html",
        help="file to write: .html, .svg or .dot (default: graph.html)",
    )
    graph.add_argument(
        "--of", metavar="NAME", help="draw the graph of this global variable instead"
    )
    graph.add_argument(
        "--profile", action="store_true", help="run under the profiler: nodes show their times"
    )
    graph.add_argument("--open", action="store_true", help="show the page in the browser")
    graph.add_argument("script")
    graph.add_argument("arguments", nargs=argparse.REMAINDER)


def draw_graph(parsed: argparse.Namespace) -> int:
    """Run a script and write the graph it made."""
    from pullback.autograd import profiler
    from pullback.autograd.show import capture

    title = os.path.basename(parsed.script)
    with capture.passes() as captured, profiler.profile(parsed.profile, profile_memory=True):
        left = run_script(parsed.script, parsed.arguments)
    try:
        page = capture.page_of(captured, left, parsed.of, title)
    except LookupError as error:
        print(f"pullback graph: {error.args[0]}", file=sys.stderr)
        return 1
    page.save(parsed.output)
    print(f"{parsed.output}: {page!r}")
    if parsed.open:
        page.open()
    return 0


def show_operator(name: str) -> int:
    """Print the declaration of an operator, and the function written from it."""
    import pullback  # noqa: F401 (declares the operators)
    from pullback.operators.attach.methods import load_all
    from pullback.operators.declare import OPERATORS
    from pullback.operators.writing.build import source_of
    from pullback.operators.writing.nodes import node_class

    load_all()
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
    if op.rules:
        print("\n# the rules, as its node runs them on arrays")
        print(inspect.getsource(node_class(op)._run))
    return 0


if __name__ == "__main__":
    sys.exit(main())
