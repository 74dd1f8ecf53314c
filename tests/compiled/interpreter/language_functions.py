"""Functions, generators and objects."""

# ruff: noqa (what a linter would write otherwise is what is tried here)

from tests.compiled.interpreter.language import either
from tests.compiled.interpreter.things import Other, Thing

count = 3


# Functions --------------------------------------------------------------------------------------


def _signature(a, b=2, /, c=3, *more, d, e=5, **others):
    return [a, b, c, more, d, e, others]


@either
def calls(x):
    given, words = [1, 2], {"d": 4}
    return (
        _signature(x, d=1), _signature(1, 2, 3, 4, 5, d=x, f=6), _signature(*given, **words),
        _signature(*given, 3, *given, d=1, **{"z": x}), _signature(x, *given, **words, e=1), _signature(x, c=9, d=8),
    )  # fmt: skip


@either
def calls_that_fail(x):
    found = []
    for args, words in (((), {}), ((1,), {}), ((1,), {"a": 2, "d": 1})):
        try:
            found.append(_signature(*args, **words))
        except TypeError:
            found.append(x)
    try:
        _signature(1, **{"d": 1}, **{"d": 2})
    except TypeError:
        found.append("twice")
    return found


@either
def defaults(x):
    y = 3
    function = lambda a, b=y, *, c=y + 1: a * b + c
    y = 100

    def other(a, b=(1, 2), *, c: int = y) -> int:
        return a, b, c

    return function(x), function(x, 1, c=0), other(x), other(1, c=2)


@either
def annotations_of_inner_functions(x):
    def function(a: int, b: "str" = "") -> float:
        return a

    return x, function.__annotations__, function.__name__, function.__qualname__


@either
def closures(x):
    def adder(n):
        def add(value):
            return value + n

        return add

    def counter():
        n = 0

        def up():
            nonlocal n
            n += 1
            return n

        return up

    up = counter()
    return adder(2)(x), up() + up() * 10, (lambda y: lambda z: y + z)(x)(1)


@either
def cells_of_arguments(x, y=2):
    def inner():
        nonlocal y
        y = y + 1
        return x * y

    return inner(), y


@either
def recursion(x):
    def power(n):
        return x if n == 0 else power(n - 1) * 2

    return power(3)


@either
def decorators(x):
    def twice(function):
        def wrapper(*args, **kwargs):
            return function(*args, **kwargs) * 2

        return wrapper

    def times(n):
        return lambda function: lambda *args: function(*args) * n

    @twice
    @times(5)
    def one(y):
        return y + 1

    return one(x)


@either
def unbound_locals(x):
    def inner():
        if not count:
            never = 1
        return never

    try:
        inner()
    except UnboundLocalError:
        return x


@either
def missing_names(x):
    try:
        return name_that_nobody_has  # noqa: F821
    except NameError:
        return x


# Generators -------------------------------------------------------------------------------------


def _walk(n):
    for one in range(n):
        got = yield one
        if got is not None:
            yield got * 100
    return n


@either
def generators(x):
    return [x * one for one in _walk(3)], sum(_walk(4)), list(zip(_walk(2), _walk(3), strict=False))


@either
def sent_values(x):
    walk = _walk(3)
    return next(walk), walk.send(x), next(walk), list(walk)


@either
def values_sent_too_early(x):
    try:
        _walk(3).send(x)
    except TypeError:
        return x


@either
def yield_from(x):
    def outer():
        got = yield from _walk(2)
        yield got
        yield from [x, x + 1]
        return 5

    def outermost():
        yield (yield from outer())

    return list(outermost())


@either
def a_generator_that_is_left(x):
    def endless():
        n = 0
        while True:
            yield n
            n += 1

    walk = endless()
    next(walk)
    for one in walk:
        if one > 3:
            break
    walk.close()
    return x * one, list(walk)


@either
def errors_in_generators(x):
    def failing():
        try:
            yield x
            raise KeyError("inside")
        except KeyError:
            yield x + 1
        finally:
            yield x + 2

    def stopping():
        yield 1
        next(iter(()))

    found = list(failing())
    try:
        list(stopping())
    except RuntimeError:
        found.append("stopped")
    return found


@either
def errors_through_yield_from(x):
    def inner():
        yield 1
        raise ValueError("out")

    def outer():
        try:
            yield from inner()
        except ValueError:
            yield x

    return list(outer())


@either
def values_of_finished_generators(x):
    walk = _walk(1)
    next(walk)
    try:
        next(walk)
    except StopIteration as end:
        return x, end.value


# Objects ----------------------------------------------------------------------------------------


@either
def objects(x):
    thing = Thing(x)
    thing.double = 8
    method = thing.plus
    return (
        thing.double,
        method(x),
        Thing.of(x).value,
        thing.half(4),
        thing(1, *[2], k=3),
        Thing.kind,
        type(thing).kind,
    )


@either
def supers(x):
    other = Other(x)
    return (
        other.plus(1),
        other.double,
        other.more,
        Other.of(x).value,
        other.held(),
        other.listed(),
        other.kind,
    )


@either
def containers_of_a_class(x):
    thing = Thing(x)
    thing[1] = 2
    return x, 1 in thing, 3 in thing, len(thing), bool(thing), not Thing(1)


@either
def imports(x):
    import math
    import os.path as path
    from math import floor, pi as circle

    return x * math.ceil(0.5), floor(circle), path.curdir
