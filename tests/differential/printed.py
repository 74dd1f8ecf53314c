"""Programs in torch's words, run on torch and on pullback: both must print the same."""

import contextlib
import importlib
import io
import textwrap
import warnings

import pullback

_START = "F, fw, func = torch.nn.functional, torch.autograd.forward_ad, torch.func\n"


def printed(program, library):
    """What a program prints, the type of what ended it, and the warnings that it gave."""
    ours = library is pullback

    def imported(name):
        return importlib.import_module(name.replace("torch", "pullback", 1) if ours else name)

    out = io.StringIO()
    with warnings.catch_warnings(record=True) as caught, contextlib.redirect_stdout(out):
        warnings.simplefilter("always")
        try:
            exec(_START + textwrap.dedent(program), {"torch": library, "imp": imported})
        except Exception as error:
            print("->", type(error).__name__)
    told = [one for one in caught if "torch.jit" not in str(one.message)]  # of torch's own loading
    return out.getvalue(), sorted({one.category.__name__ for one in told})


def agree(program, *, warned=True):
    """Run on both; `warned`: whether the warnings must be the same, too."""
    import torch

    importlib.import_module("torch._vmap_internals")
    (theirs, their_warnings), (ours, our_warnings) = (
        printed(program, library) for library in (torch, pullback)
    )
    assert ours == theirs
    if warned:
        assert our_warnings == their_warnings
