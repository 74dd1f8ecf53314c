"""Programs in torch's words, run on torch and on pullback: both must print the same."""

import contextlib
import importlib
import io
import re
import textwrap
import warnings

import pullback

_START = "F, fw, func = torch.nn.functional, torch.autograd.forward_ad, torch.func\n"
# torch warns so of parts of its own that it loads or keeps.
_OWN = ("torch.jit", "TypedStorage is deprecated")


def outcome(library, program):
    """What a program prints, the type of what ended it, and the warnings that it gave."""
    out = io.StringIO()
    scope = {"torch": library, "imp": lambda name: _imported(library, name)}
    with warnings.catch_warnings(record=True) as caught, contextlib.redirect_stdout(out):
        warnings.simplefilter("always")
        try:
            exec(_START + textwrap.dedent(program), scope)
        except Exception as error:
            print("->", type(error).__name__)
    text = re.sub(r"0x[0-9a-f]+", "0x", out.getvalue()).replace("pullback", "torch")
    told = [one for one in caught if not any(part in str(one.message) for part in _OWN)]
    return text, sorted({one.category.__name__ for one in told})


def _imported(library, name):
    """A module of torch's, or its like: `torch.x` is `pullback.x`, `functorch` a part of it."""
    own = name.replace("torch", "pullback", 1) if name.startswith("torch") else f"pullback.{name}"
    return importlib.import_module(own if library is pullback else name)


def agree(program, *, warned=True, but=()):
    """Run on both; `warned`: whether the warnings must be the same, too, `but` for some kinds."""
    import torch

    importlib.import_module("torch._vmap_internals")
    (theirs, their_warnings), (ours, our_warnings) = (
        outcome(library, program) for library in (torch, pullback)
    )
    assert ours == theirs, f"{ours}\n{theirs}"
    if warned:
        assert set(our_warnings) - set(but) == set(their_warnings) - set(but)
