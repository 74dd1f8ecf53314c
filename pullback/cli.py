"""The command line: `pullback run`, `check`, `examples`, `graph`, `watch`, `launch` and `show`."""

from __future__ import annotations

import argparse
import ast
import os
import runpy
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from pullback.checking.command import add_command as add_check_command
from pullback.checking.command import main as check
from pullback.core.explain.printed import wanted_whole
from pullback.installed import version


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point of the `pullback` command; returns the exit status."""
    try:
        status = _obey(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        # Who read our output went away (`pullback show mul | head`); what is left goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141
    return status


def _obey(arguments: Sequence[str] | None) -> int:
    parser = argparse.ArgumentParser(
        prog="pullback", description="PyTorch's autograd in readable Python, built on NumPy."
    )
    parser.add_argument("--version", action="version", version=f"pullback {version()}")
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", help="run an unmodified `import torch` script on pullback")
    run.add_argument(
        "-m", "--module", action="store_true", help="the script is the name of a module"
    )
    run.add_argument("script")
    run.add_argument("arguments", nargs=argparse.REMAINDER)
    show = commands.add_parser(
        "show", help="print an operator: its meaning, kernels, rules, lowering and written code"
    )
    show.add_argument("operator", help="a public name, e.g. mul, conv2d or Tensor.view")
    _add_graph_command(commands)
    add_check_command(commands)
    _add_watch_command(commands)
    _add_examples_command(commands)
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
    if parsed.command == "watch":
        return watch_script(parsed)
    if parsed.command == "examples":
        return copy_examples(parsed)
    if parsed.command == "run":
        return _run(parsed)
    return show_operator(parsed.operator)


def _run(parsed: argparse.Namespace) -> int:
    """Run a script or module; an error in it is printed as if `python` had run it."""
    from pullback.checking.standing_in import standing_in

    with standing_in():  # also where a package is imported to look for a module of it
        return _run_here(parsed)


def _run_here(parsed: argparse.Namespace) -> int:
    file = _module_file(parsed.script) if parsed.module else parsed.script
    if file is None or (not parsed.module and _is_missing(parsed)):
        return 2
    try:
        (run_module if parsed.module else run_script)(parsed.script, parsed.arguments)
    except Exception as error:
        if wanted_whole():
            raise
        trace = error.__traceback__
        while trace is not None and trace.tb_frame.f_code.co_filename != file:
            trace = trace.tb_next
        sys.excepthook(type(error), error, trace or error.__traceback__)
        return 1
    return 0


def _is_missing(parsed: argparse.Namespace) -> bool:
    if os.path.exists(parsed.script):
        return False
    print(f"pullback {parsed.command}: there is no file {parsed.script!r}.", file=sys.stderr)
    return True


def _module_file(module: str) -> str | None:
    """The file that `python -m module` would run; None, and a word about it, if there is none."""
    with _first_in_path(os.getcwd()):
        try:
            found = find_spec(module)
            if found is not None and found.submodule_search_locations is not None:
                found = find_spec(f"{module}.__main__")
        except ModuleNotFoundError:  # a package above it
            found = None
    if found is None or found.origin is None:
        print(f"pullback run: there is no module {module!r} to run.", file=sys.stderr)
        return None
    return found.origin


def run_script(script: str, arguments: Sequence[str]) -> dict[str, Any]:
    """Run `script` as the main program, with pullback standing in for torch; its globals."""
    folder = os.path.dirname(os.path.abspath(script))  # as `python script.py` does
    return _run_main(folder, [script, *arguments], lambda: runpy.run_path(script, None, "__main__"))


def run_module(module: str, arguments: Sequence[str]) -> dict[str, Any]:
    """The same for a module that can be imported, as `python -m` does it."""

    def run() -> dict[str, Any]:
        return runpy.run_module(module, run_name="__main__", alter_sys=True)

    return _run_main(os.getcwd(), [module, *arguments], run)


def _run_main(folder: str, argv: list[str], run: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    from pullback.checking.standing_in import standing_in
    from pullback.core.explain.absent import reasons_added

    sys.argv = argv
    with standing_in(), reasons_added(), _first_in_path(folder):
        return run()


@contextmanager
def _first_in_path(folder: str) -> Iterator[None]:
    """Inside, modules of this folder are found before all others."""
    sys.path.insert(0, folder)
    try:
        yield
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


def _is_misnamed(parsed: argparse.Namespace, endings: tuple[str, ...]) -> bool:
    if parsed.output.lower().endswith(endings):
        return False
    known = ", ".join(endings)
    print(
        f"pullback {parsed.command}: a file called {parsed.output!r} cannot be written; the name "
        f"says what it is: {known}.",
        file=sys.stderr,
    )
    return True


def _add_watch_command(commands: Any) -> None:
    watch = commands.add_parser(
        "watch",
        help="run a training script and write its run on a page",
        description="Run a script (as `pullback run` does) and record losses, gradients and "
        "updates at each step of an optimizer; at the end it writes a page that needs no network.",
    )
    watch.add_argument("-o", "--output", default="run.html", help="page to write (run.html)")
    watch.add_argument(
        "--serve",
        nargs="?",
        type=int,
        const=0,
        metavar="PORT",
        help="show the page while the script runs, to this machine alone",
    )
    watch.add_argument("script")
    watch.add_argument("arguments", nargs=argparse.REMAINDER)


def _add_examples_command(commands: Any) -> None:
    examples = commands.add_parser(
        "examples",
        help="copy the example programs into a folder",
        description="Copy the programs of the gallery into a new folder, to be run and changed.",
    )
    examples.add_argument(
        "folder", nargs="?", default="pullback-examples", help="folder to make (pullback-examples)"
    )


def copy_examples(parsed: argparse.Namespace) -> int:
    """Copy the examples out of the installed package, or out of the checkout."""
    beside = Path(__file__).parents[1]
    installed = beside / "pullback_examples"
    programs = sorted((installed if installed.is_dir() else beside / "examples").glob("*.py"))
    target = Path(parsed.folder)
    if target.exists():
        print(f"pullback examples: {parsed.folder!r} exists; name another folder.", file=sys.stderr)
        return 1
    if not programs:
        print("pullback examples: this installation has none.", file=sys.stderr)
        return 1
    target.mkdir(parents=True)
    for program in programs:
        copied = target / program.name
        copied.write_bytes(program.read_bytes())
        print(f"{copied}  {_first_line(program)}")
    print("With --picture FILE most of them draw: python -m pip install matplotlib tqdm")
    return 0


def _first_line(program: Path) -> str:
    """What a program says of itself."""
    document = ast.get_docstring(ast.parse(program.read_text(encoding="utf-8"))) or ""
    return document.partition("\n")[0]


def watch_script(parsed: argparse.Namespace) -> int:
    """Run a script and write what its optimizers did."""
    if _is_missing(parsed) or _is_misnamed(parsed, (".html", ".htm")):
        return 2
    from pullback.optim.watching import watched

    with watched(parsed.output, parsed.serve) as runs:
        run_script(parsed.script, parsed.arguments)
    if not runs:
        print("pullback watch: no optimizer made a step.", file=sys.stderr)
        return 1
    for run in runs:
        print(f"{run.path}: {run!r}")
    return 0


def draw_graph(parsed: argparse.Namespace) -> int:
    """Run a script and write the graph it made."""
    if _is_missing(parsed) or _is_misnamed(parsed, (".html", ".htm", ".svg", ".dot", ".gv")):
        return 2
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
    """Print what there is of an operator, or of a function of operators."""
    from pullback.compiled.show import Unknown, shown

    try:
        print(shown(name))
    except Unknown as unknown:
        hint = f"; did you mean {', '.join(unknown.args)}?" if unknown.args else ""
        print(f"pullback has no operator {name!r}{hint}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
