"""Loops, conditions, patterns, exceptions and `with`."""

# ruff: noqa (what a linter would write otherwise is what is tried here)

from tests.compiled.interpreter.language import either
from tests.compiled.interpreter.things import Thing

count = 3


# Control ----------------------------------------------------------------------------------------


@either
def for_loops(x):
    total = x
    for one in range(5):
        if one == 1:
            continue
        if one == 4:
            break
        total = total + one
    else:
        total = total + 100
    for one in (1, 2):
        total = total * one
    else:
        total = total + 1000
    return total, one


@either
def while_loops(x):
    n = 0
    while n < 3:
        n += 1
        if n == 2:
            continue
        x = x + n
    else:
        x = x * 2
    while True:
        n -= 1
        if not n:
            break
    else:
        x = x * 3
    return x, n


@either
def nested_loops(x):
    found = []
    for a in range(3):
        for b in range(3):
            if b > a:
                break
            found.append(a * b)
        else:
            found.append(-1)
            continue
        found.append(-2)
    return x, found


@either
def return_in_a_loop(x):
    def first(items):
        for one in items:
            for other in one:
                if other > 2:
                    return other
        return None

    return x, first([[1, 2], [3, 4]]), first([])


@either
def none_jumps(x):
    a, b = None, 1
    found = []
    if a is None:
        found.append(1)
    if a is not None:
        found.append(2)
    if b is None or a is None:
        found.append(3)
    while b is not None:
        b = None
    return x, found


# fmt: off
@either
def a_long_function(x):
    """Jumps, and numbers of names, that do not fit into a byte."""
    total = 0
    for one in range(3):
        if one == 1:
            total += 1; total += 1; total += 1; total += 1; total += 1; total += 1; total += 1
            total *= 2; total *= 2; total *= 2; total *= 2; total *= 2; total *= 2; total *= 2
            total -= 3; total -= 3; total -= 3; total -= 3; total -= 3; total -= 3; total -= 3
            a = [total, one, total, one, total, one, total, one, total, one, total, one, total, one]
            b = [total, one, total, one, total, one, total, one, total, one, total, one, total, one]
            c = {"a": a, "b": b, "c": a, "d": b, "e": a, "f": b, "g": a, "h": b, "i": a, "j": b, "k": a}
            d = {"a": a, "b": b, "c": a, "d": b, "e": a, "f": b, "g": a, "h": b, "i": a, "j": b, "k": a}
            e = [a[0] + b[1] * 2, a[1] + b[2] * 3, a[2] + b[3] * 4, a[3] + b[4] * 5, a[4] + b[5] * 6]
            f = [a[0] + b[1] * 2, a[1] + b[2] * 3, a[2] + b[3] * 4, a[3] + b[4] * 5, a[4] + b[5] * 6]
            g = [c["a"], c["b"], c["c"], c["d"], c["e"], d["a"], d["b"], d["c"], d["d"], d["e"]]
            h = (a, b, c, d, e, f, g); i = len(h); j = i + 1; k = j + 1; m = k + 1; n = m + 1
            o = n + 1; p = o + 1; q = p + 1; r = q + 1; s = r + 1; t = s + 1; u = t + 1; v = u + 1
        else:
            total += 1
    return x * total, e, f, g[0], [i, j, k, m, n, o, p, q, r, s, t, u, v]
# fmt: on


@either
def asserts(x):
    assert count
    assert count, "never"
    try:
        assert not count, "told"
    except AssertionError as error:
        return x, error.args


# Patterns ---------------------------------------------------------------------------------------


def _kind(value):
    match value:
        case 0 | 1:
            return "bit"
        case "a":
            return "letter"
        case None | True:
            return "singleton"
        case [first, second]:
            return first, second
        case [first, *rest] if len(rest) > 2:
            return "many", first, rest
        case [1, *_, last]:
            return "ends", last
        case []:
            return "empty"
        case {"k": kind, "l": [a, b]}:
            return kind, a, b
        case {"k": 1, **others}:
            return others
        case {}:
            return "mapping"
        case other:
            return "other", other


@either
def patterns(x):
    values = [
        0,
        1,
        "a",
        None,
        (1, 2),
        [1, 2, 3, 4],
        [1, 5, 6],
        (),
        {"k": 3, "l": (4, 5)},
        {"k": 1, "m": 2},
        {"z": 1},
    ]
    return [x, *[_kind(one) for one in values], _kind(7.5)]


@either
def patterns_with_values(x):
    match (x, 2):
        case (found, 1):
            return found
        case (found, 2) as pair:
            return found, pair[1]


class Point:
    """Matched by place."""

    __match_args__ = ("across", "up")

    def __init__(self, across, up):
        self.across, self.up = across, up


def _of_class(value):
    match value:
        case Point(0, up=0):
            return "origin"
        case Point(across, 1):
            return "across", across
        case Point(up=up):
            return "up", up
        case bool():
            return "bool"
        case int(number) | float(number):
            return "number", number
        case str() as text:
            return text
        case Thing(absent=_):
            return "never"
    return None


@either
def patterns_of_classes(x):
    values = [Point(0, 0), Point(3, 1), Point(2, 5), True, 4, 1.5, "text", Thing(1), None]
    try:
        match Point(1, 2):
            case Point(1, 2, 3):
                pass
    except TypeError:
        return x, [_of_class(one) for one in values]


# Exceptions -------------------------------------------------------------------------------------


@either
def exceptions(x):
    found = []
    for wrong in (lambda: [][0], lambda: {}["k"], lambda: 1 / 0, lambda: int("a"), lambda: 1):
        try:
            found.append(wrong())
        except (IndexError, KeyError) as error:
            found.append(type(error).__name__)
        except ZeroDivisionError:
            found.append(x)
        except Exception:
            found.append("other")
        else:
            found.append("none")
        finally:
            found.append("after")
    return found


@either
def nested_exceptions(x):
    found = []
    try:
        try:
            raise ValueError("first")
        except ValueError as error:
            found.append(error.args)
            raise KeyError("second") from error
        finally:
            found.append("finally")
    except KeyError as error:
        found.append(type(error.__cause__).__name__)
    return x, found


@either
def raised_again(x):
    def inner():
        raise

    found = []
    for again in (inner, None):
        try:
            try:
                raise ValueError("a")
            except ValueError:
                if again is None:
                    raise
                again()
        except ValueError as error:
            found.append(error.args[0])
    try:
        raise
    except RuntimeError:
        found.append("nothing to raise")
    return x, found


@either
def finally_on_the_way_out(x):
    found = []

    def function():
        for one in range(3):
            try:
                if one == 0:
                    continue
                return x
            finally:
                found.append(one)

    return function(), found


@either
def errors_of_classes(x):
    class_of = {"k": ValueError}
    try:
        raise class_of["k"]
    except ValueError as error:
        return x, error.args


@either
def handlers_unbind_their_name(x):
    try:
        raise ValueError
    except ValueError as error:
        assert error
    try:
        error
    except UnboundLocalError:
        return x


class Managed:
    """Writes down what happens to it."""

    def __init__(self, found, *, swallows=False):
        self.found = found
        self.swallows = swallows

    def __enter__(self):
        self.found.append("enter")
        return self

    def __exit__(self, kind, error, trace):
        self.found.append("exit" if kind is None else kind.__name__)
        return self.swallows


@either
def with_blocks(x):
    found = []
    with Managed(found) as manager:
        manager.found.append("body")
    with Managed(found), Managed(found, swallows=True):
        raise ValueError
    with Managed(found, swallows=True) as a, Managed(found) as b:
        raise KeyError
    return x, found, a is not b


@either
def with_blocks_that_are_left(x):
    found = []

    def function():
        with Managed(found):
            for one in range(3):
                with Managed(found):
                    if one == 0:
                        continue
                    return one

    found.append(function())
    try:
        with Managed(found):
            raise IndexError
    except IndexError:
        found.append("through")
    try:
        with x + 1 if False else 3:
            pass
    except (TypeError, AttributeError):
        found.append("no manager")
    return x, found
