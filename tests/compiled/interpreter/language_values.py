"""Names, operators, containers and text."""

# ruff: noqa (what a linter would write otherwise is what is tried here)

from tests.compiled.interpreter.language import either, of_number
from tests.compiled.interpreter.things import Thing

count = 3


# Names and operators ----------------------------------------------------------------------------


@either
def arithmetic(x):
    return +x, -x, x + 1, x - 2, 3 * x, x / 4, x**2, 2 - x, x * x


@of_number
def more_arithmetic(x):
    return x // 2, x % 2, x << 1, x >> 1, x & 6, x | 8, x ^ 5, ~x, not x, divmod(x, 2)


@either
def augmented_names(x):
    y = 1
    y += 2
    y -= 5
    y *= 4
    y /= 2
    y **= 2
    z = 7
    z //= 2
    z %= 2
    z <<= 3
    z >>= 1
    z |= 16
    z &= 20
    z ^= 1
    return x * y + z


@either
def augmented_attributes_and_items(x):
    thing = Thing(x)
    thing.value += 1
    thing.value *= 2
    thing["a"] = x
    thing["a"] += 3
    table = {"k": [x, x]}
    table["k"][0] += 1
    table["k"][-1] -= 1
    return thing.value, thing["a"], table["k"]


@either
def chained_assignment(x):
    a = b = c = x + 1
    (d, e), f = (a, b), c
    [g, *h] = d, e, f
    return a, d, g, h


@either
def unpacking(x):
    first, *middle, last = x, 1, 2, x + 1
    *start, end = [x, x * 2]
    (one, (two, *three)), four = ((1, (2, x, x)), 4)
    for a, (b, *c) in [(x, (1, 2, 3))]:
        pass
    return first, middle, last, start, end, one, two, three, four, a, b, c


@either
def swaps(x):
    a, b = x, x + 1
    a, b = b, a
    c, d, e = 1, 2, 3
    c, d, e = e, c, d
    return a, b, c, d, e


@either
def unpacking_that_fails(x):
    found = []
    for wrong in ((1,), (1, 2, 3)):
        try:
            a, b = wrong
        except ValueError:
            found.append(x + len(wrong))
    try:
        a, b, *c = (1,)
    except ValueError:
        found.append(x)
    return found


@either
def globals_read(x):
    return x * count


@either
def nonlocal_variables(x):
    total = x

    def add(value):
        nonlocal total
        total = total + value
        return total

    add(1)
    add(x)
    return total


@either
def deleted_names(x):
    y, z = x, 2
    del y
    try:
        return y
    except UnboundLocalError:
        del z
    try:
        del z
    except UnboundLocalError:
        return x + 1


@either
def deleted_cells(x):
    y = x

    def inner():
        return y

    before = inner()
    del y
    try:
        inner()
    except NameError:
        return before


@either
def deleted_attributes_and_items(x):
    thing = Thing(x)
    thing["a"] = 1
    del thing["a"], thing.items
    items = [1, 2, 3, 4]
    del items[0], items[1:]
    table = {1: 2, 3: x}
    del table[1]
    return items, table, hasattr(thing, "items")


@either
def walrus(x):
    if (n := len([1, 2, 3])) > 2:
        y = x * n
    found = [last := one for one in range(4) if (half := one // 2)]
    return y, found, last, half


@either
def comparisons(x):
    y = 3
    return x, 1 < y < 4, 1 < y > 4, y == 3 != 4, 5 > y >= 3 > 1, not 1 < y <= 2


@either
def truth(x):
    return [x, 0 or 3, 2 and 4, not [], [] or {} or "z", None and 1, (1 and 0) or 5, not (1 or 0)]


@either
def identity_and_membership(x):
    items = [1, None, "a"]
    return (
        x,
        None is None,
        items is not items,
        1 in items,
        "b" not in items,
        "a" in {"a": 1},
        3 in (1, 2),
    )


@either
def ternaries(x):
    y = 1 if count else 2
    return x if y else -x, (x + 1 if y > 3 else x + 2 if y > 0 else x + 3)


@either
def constants(x):
    return x * 1000000, 1.5, 2j, "text", b"bytes", None, ..., (1, (2, "c")), True


# Containers -------------------------------------------------------------------------------------


@either
def literals(x):
    a = [1, 2, *range(3), x]
    b = (*a[:2], x)
    c = {1, 2, *[3, 4]}
    d = {"a": x, **{"b": 2}, "c": 3}
    return a, b, sorted(c), d, [], (), {}, [1, 2, 3, 4, 5], {"k": 1, "l": 2}


@either
def constant_sets(x):
    return [x * one for one in (1, 2, 3)], 2 in {1, 2, 3}, sorted({1, 2, 3, 4})


@either
def list_comprehensions(x):
    a = [x * one for one in range(3)]
    b = [one for one in range(10) if one % 2 if one > 3]
    c = [(one, other) for one in range(3) for other in range(one)]
    d = [[one + other for one in range(2)] for other in range(2)]
    return a, b, c, d


@either
def set_and_dict_comprehensions(x):
    a = {one % 3 for one in range(7)}
    b = {one: x * one for one in range(3)}
    c = {k: {v for v in range(k)} for k in range(3)}
    return sorted(a), b, c


@either
def comprehensions_leave_names_alone(x):
    one = x
    y = [one * 2 for one in range(3)]
    z = [one for one in [one, one]]
    return one, y, z


@either
def comprehensions_over_cells(x):
    one = x

    def inner():
        return one

    made = [one for one in range(3)]
    functions = [lambda: one for one in range(3)]
    return inner(), made, [function() for function in functions], one


@either
def comprehensions_in_inner_functions(x):
    one = x

    def inner():
        first = one
        made = [one + 1 for one in range(2)]
        return first, made, one

    return inner()


@either
def closures_of_a_comprehension_over_a_free_name(x):
    one = x

    def inner():
        first = one
        functions = [lambda: one for one in range(3)]
        return first, [function() for function in functions]

    return inner()


@either
def comprehensions_with_closures(x):
    return [function(x) for function in [lambda y, n=n: y * n for n in range(3)]], [
        [function() for function in [lambda: n + m for m in range(2)]] for n in range(2)
    ]


@either
def comprehensions_that_raise(x):
    one = x
    try:
        [1 / one for one in (1, 0)]
    except ZeroDivisionError:
        return one


@either
def unbound_in_a_comprehension(x):
    y = [later for later in range(2)]
    try:
        later
    except NameError:
        return x, y


@either
def generator_expressions(x):
    return sum(x * one for one in range(3)), list(one for one in range(5) if one % 2)


@either
def any_all_tuple(x):
    items = [1, 2, 3]
    return (
        x, all(one > 0 for one in items), any(one > 2 for one in items), tuple(one for one in items),
        all(one > 1 for one in items), any(one > 9 for one in items), list(one for one in items),
    )  # fmt: skip


@either
def slices(x):
    items = [x, 1, 2, 3, 4, 5]
    n = 2
    return (
        items[1:],
        items[:n],
        items[n:4],
        items[::2],
        items[::-1][0],
        items[-n:],
        items[slice(1, n)],
    )


@either
def stored_slices(x):
    items = [0, 1, 2, 3, 4, 5]
    n = 2
    items[:n] = [x]
    items[2:4] = [7, 8, 9]
    items[::3] = [x + 1, x + 2]
    items[n:][0] = 100
    return items


@of_number
def nested_items(x):
    rows = [[1, x], [3, 4]]
    rows[0][1] += rows[1][0]
    return rows, rows[0][1], {"a": {"b": [x]}}["a"]["b"][0]


# Text -------------------------------------------------------------------------------------------


@of_number
def f_strings(x):
    name, width = "n", 6
    return (
        f"{x} {x!r} {name!s:>4} {x:>{width}} {x + 1:05.1f} {{}} {name=} {'é'!a}",
        f"{x}",
        f"{name!r:^{width}}",
    )


@of_number
def other_text(x):
    return "%d %s" % (x, "a"), "{:>3}".format(x), "ab" + str(x), ", ".join(["p", "q"]), "abc"[1]
