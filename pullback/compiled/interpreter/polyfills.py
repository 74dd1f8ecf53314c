"""Builtins that call back into Python, in Python, so that they are interpreted as well."""

from __future__ import annotations

from typing import Any


def sum_(items: Any, start: Any = 0) -> Any:
    """As `sum`."""
    for one in items:
        start = start + one
    return start


def any_(items: Any) -> Any:
    """As `any`."""
    for one in items:
        if one:
            return True
    return False


def all_(items: Any) -> Any:
    """As `all`."""
    for one in items:
        if not one:
            return False
    return True


def enumerate_(items: Any, start: Any = 0) -> Any:
    """As `enumerate`."""
    for one in items:
        yield start, one
        start += 1


def zip_(*many: Any, strict: Any = False) -> Any:
    """As `zip`."""
    walks = [iter(one) for one in many]
    while walks:
        row: list[Any] = []
        for walk in walks:
            try:
                row.append(next(walk))
            except StopIteration:
                if strict and row:
                    raise ValueError("zip(): an argument is shorter than another one") from None
                if strict:
                    for other in walks[1:]:
                        for _ in other:
                            raise ValueError(
                                "zip(): an argument is longer than another one"
                            ) from None
                return
        yield tuple(row)


def pairwise_(items: Any) -> Any:
    """As `itertools.pairwise`."""
    walk = iter(items)
    for before in walk:
        for one in walk:
            yield before, one
            before = one


def map_(function: Any, *many: Any) -> Any:
    """As `map`."""
    for row in zip_(*many):
        yield function(*row)


def filter_(function: Any, items: Any) -> Any:
    """As `filter`."""
    for one in items:
        if function(one) if function is not None else one:
            yield one


def reduce_(function: Any, items: Any, *start: Any) -> Any:
    """As `functools.reduce`."""
    walk = iter(items)
    result = start[0] if start else next(walk)
    for one in walk:
        result = function(result, one)
    return result


def chain_(*many: Any) -> Any:
    """As `itertools.chain`."""
    for items in many:
        yield from items


def product_(*many: Any, repeat: Any = 1) -> Any:
    """As `itertools.product`."""
    rows: list[Any] = [()]
    for items in [list(one) for one in many] * repeat:
        rows = [(*row, one) for row in rows for one in items]
    yield from rows


def islice_(items: Any, *bounds: Any) -> Any:
    """As `itertools.islice`."""
    cut = slice(*bounds)
    first, last, step = cut.start or 0, cut.stop, cut.step or 1
    place = 0
    for one in items:
        if last is not None and place >= last:
            return
        if place >= first and (place - first) % step == 0:
            yield one
        place += 1
        if last is not None and place >= last:
            return


def accumulate_(items: Any, function: Any = None, *, initial: Any = None) -> Any:
    """As `itertools.accumulate`."""
    walk = iter(items)
    if initial is None:
        try:
            initial = next(walk)
        except StopIteration:
            return
    yield initial
    for one in walk:
        initial = initial + one if function is None else function(initial, one)
        yield initial


def starmap_(function: Any, rows: Any) -> Any:
    """As `itertools.starmap`."""
    for row in rows:
        yield function(*row)


def zip_longest_(*many: Any, fillvalue: Any = None) -> Any:
    """As `itertools.zip_longest`."""
    walks = [iter(one) for one in many]
    alive = [True] * len(walks)
    while walks:
        row: list[Any] = []
        for place, walk in enumerate_(walks):
            try:
                row.append(next(walk) if alive[place] else fillvalue)
            except StopIteration:
                alive[place] = False
                row.append(fillvalue)
        if not any_(alive):
            return
        yield tuple(row)


def takewhile_(function: Any, items: Any) -> Any:
    """As `itertools.takewhile`."""
    for one in items:
        if not function(one):
            return
        yield one


def repeat_(item: Any, *times: Any) -> Any:
    """As `itertools.repeat`."""
    if times:
        for _ in range(times[0]):
            yield item
        return
    while True:
        yield item


def count_(start: Any = 0, step: Any = 1) -> Any:
    """As `itertools.count`."""
    while True:
        yield start
        start = start + step


def combinations_(items: Any, r: Any) -> Any:
    """As `itertools.combinations`."""
    pool = list(items)
    for places in product_(range(len(pool)), repeat=r):
        if all_([a < b for a, b in pairwise_(places)]):
            yield tuple([pool[place] for place in places])


def permutations_(items: Any, r: Any = None) -> Any:
    """As `itertools.permutations`."""
    pool = list(items)
    for places in product_(range(len(pool)), repeat=len(pool) if r is None else r):
        if len(set(places)) == len(places):
            yield tuple([pool[place] for place in places])


def sorted_(items: Any, *, key: Any = None, reverse: Any = False) -> Any:
    """As `sorted`, with a key."""
    items = list(items)
    pairs = [(key(one), -place if reverse else place) for place, one in enumerate_(items)]
    order = plain_sorted(pairs, reverse=reverse)
    return [items[-place if reverse else place] for _, place in order]


def extreme(items: Any, key: Any, default: Any, most: Any) -> Any:
    """The first of the largest, or smallest, items."""
    best = result = None
    found = False
    for one in items:
        value = one if key is None else key(one)
        if not found or (value > best if most else value < best):
            best, result, found = value, one, True
    if found:
        return result
    if default:
        return default[0]
    raise ValueError("an empty sequence has no extreme")


def max_(*items: Any, key: Any = None, **default: Any) -> Any:
    """As `max`."""
    return extreme(items if len(items) > 1 else items[0], key, list(default.values()), True)


def min_(*items: Any, key: Any = None, **default: Any) -> Any:
    """As `min`."""
    return extreme(items if len(items) > 1 else items[0], key, list(default.values()), False)


plain_sorted = sorted
