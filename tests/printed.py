"""What a program prints, on torch or on pullback, and whether two such texts say the same."""

import contextlib
import io
import math
import re
import runpy
import sys

from pullback.checking.standing_in import standing_in

NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:e[+-]?\d+)?|nan|-?inf\b")


def printed(script, on_pullback):
    """Run a script as the main program and give what it printed."""
    out = io.StringIO()
    before, sys.argv = sys.argv, [str(script)]
    try:
        with contextlib.redirect_stdout(out), _side(on_pullback):
            runpy.run_path(str(script), run_name="__main__")
    finally:
        sys.argv = before
    return out.getvalue()


def _side(on_pullback):
    return standing_in() if on_pullback else contextlib.nullcontext()


def difference(one, other, tolerance=1e-3):
    """The first pair of lines that differ in their words, or in a number by more than rounding.

    A number printed with n digits after the point is known to half a unit of the last one.
    """
    ours, theirs = one.splitlines(), other.splitlines()
    for a, b in zip(ours, theirs, strict=False):
        if NUMBER.sub("#", a) != NUMBER.sub("#", b) or not _close(a, b, tolerance):
            return f"{a!r} and {b!r}"
    if len(ours) != len(theirs):
        return f"{len(ours)} lines and {len(theirs)} lines"
    return None


def _close(a, b, tolerance):
    return all(
        math.isclose(
            float(x), float(y), rel_tol=tolerance, abs_tol=max(_last_digit(x), _last_digit(y))
        )
        or x == y
        for x, y in zip(NUMBER.findall(a), NUMBER.findall(b), strict=True)
    )


def _last_digit(number):
    """One unit of the last digit; whole numbers count things and have none."""
    digits, _, power = number.partition("e")
    if "." not in digits:
        return 0.0
    return 1.01 * 10.0 ** (int(power or 0) - len(digits.partition(".")[2]))
