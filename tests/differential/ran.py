"""Short programs that both libraries run: what they print and warn of."""

import contextlib
import importlib
import io
import re
import textwrap
import warnings

import pullback


def outcome(library, program):
    """What a program prints, how it ends, and the classes of its warnings."""
    printed = io.StringIO()
    scope = {"torch": library, "imp": lambda name: _imported(library, name)}
    ended = ""
    with warnings.catch_warnings(record=True) as caught, contextlib.redirect_stdout(printed):
        warnings.simplefilter("always")
        try:
            exec(textwrap.dedent(program), scope)
        except Exception as error:
            ended = kind_of(error)
    text = re.sub(r"0x[0-9a-f]+", "0x", printed.getvalue()).replace("pullback", "torch")
    told = {one.category.__name__ for one in caught} - {"DeprecationWarning"}
    return text, ended, sorted(told)


def kind_of(error):
    """The class that both libraries can raise."""
    known = [cls.__name__ for cls in type(error).__mro__ if cls.__module__ == "builtins"]
    return known[0]


def _imported(library, name):
    own = (
        "pullback" + name.removeprefix("torch") if name.startswith("torch") else f"pullback.{name}"
    )
    return importlib.import_module(own if library is pullback else name)
