"""Objects from outside that come through native code are seen to change as those read directly."""

import collections
import copy
import heapq
import itertools
import operator
import types
import weakref

import pytest

import pullback as torch


class _Scale:
    def __init__(self, value):
        self.value = value

    def __lt__(self, other):
        return self.value < other.value


def _itself(one):
    return one


WAYS = {
    "weak set": lambda one: (kept := weakref.WeakSet([one]), lambda: next(iter(kept)))[1],
    "weak values": lambda one: (kept := weakref.WeakValueDictionary(a=one), lambda: kept["a"])[1],
    "weak reference": lambda one: weakref.ref(one),
    "cycle": lambda one: lambda: next(itertools.cycle([one])),
    "group": lambda one: lambda: next(iter(next(itertools.groupby([one]))[1])),
    "tee": lambda one: lambda: next(itertools.tee([one])[0]),
    "chain": lambda one: lambda: next(itertools.chain([], [one])),
    "heap": lambda one: lambda: heapq.nsmallest(1, [one])[0],
    "pop": lambda one: lambda: [one].pop(),
    "set": lambda one: lambda: {one}.pop(),
    "dict": lambda one: lambda: {"a": one}.popitem()[1],
    "queue": lambda one: lambda: collections.deque([one]).popleft(),
    "order": lambda one: lambda: collections.OrderedDict(a=one).popitem()[1],
    "reversed": lambda one: lambda: next(reversed([one])),
    "itemgetter": lambda one: lambda: operator.itemgetter(0)([one]),
    "chain map": lambda one: lambda: collections.ChainMap({}, {"a": one})["a"],
    "proxy": lambda one: lambda: types.MappingProxyType({"a": one})["a"],
    "copy": lambda one: lambda: copy.copy(one),
    "maximum": lambda one: lambda: max([one]),
    "sorted": lambda one: lambda: sorted([one])[0],
    "kept iterators": lambda one: (kept := [one], lambda: next(iter(kept)))[1],
    "kept view": lambda one: (kept := {"a": one}, lambda: next(iter(kept.values())))[1],
    "counted": lambda one: lambda: next(iter(collections.Counter([one]))),
}


@pytest.mark.filterwarnings("ignore:.*run eagerly")
@pytest.mark.parametrize("way", WAYS)
def test_an_attribute_is_seen_to_change(way):
    def seen(wrap):
        one = _Scale(2.0)
        found = WAYS[way](one)
        step = wrap(lambda x: x * found().value)
        for value in (2.0, 2.0, 3.0, 3.0, 5.0):
            one.value = value
            yield step(torch.ones(2)).tolist()

    expected = list(seen(lambda step: step))
    assert list(seen(lambda step: torch.compile(step, backend="python"))) == expected


# What an item may be: how it is made, how a number is read from it and written to it.
ITEMS = {
    "number": (lambda value: value, lambda item: item, None),
    "object": (_Scale, lambda item: item.value, lambda item, value: vars(item).update(value=value)),
    "list": (
        lambda value: [value],
        lambda item: item[0],
        lambda item, value: item.insert(0, value),
    ),
    "dict": (
        lambda value: {"a": value},
        lambda item: item["a"],
        lambda item, value: item.update(a=value),
    ),
    "nested": (
        lambda value: ([_Scale(value)],),
        lambda item: item[0][0].value,
        lambda item, value: vars(item[0][0]).update(value=value),
    ),
    "tensor": (torch.tensor, lambda item: item, lambda item, value: item.fill_(value)),
}
WALKS = {
    "iter": (iter, lambda item: item),
    "reversed": (reversed, lambda item: item),
    "enumerate": (enumerate, lambda item: item[1]),
    "list": (list, lambda item: item),
    "zip": (lambda items: zip(items, strict=True), lambda item: item[0]),
    "dict": (lambda items: dict(enumerate(items)).values(), lambda item: item),
    "generator": (lambda items: (one for one in items), lambda item: item),
    "map": (lambda items: map(_itself, items), lambda item: item),
}


@pytest.mark.filterwarnings("ignore:.*run eagerly")
@pytest.mark.parametrize("item", ITEMS)
@pytest.mark.parametrize("walk", WALKS)
def test_items_of_a_loop_with_a_break_in_it_are_seen_to_change(walk, item):
    make, read, write = ITEMS[item]
    walked, picked = WALKS[walk]

    def seen(wrap):
        items = [make(2.0), make(3.0), make(4.0)]

        @wrap
        def step(x):
            for one in walked(items):
                print(end="")
                x = x * read(picked(one))
            return x

        for number, value in ((0, 2.0), (0, 2.0), (1, 5.0), (2, 7.0), (0, 11.0)):
            if write is None:
                items[number] = make(value)
            else:
                write(items[number], value)
            yield step(torch.ones(2)).tolist()
        items[1] = make(13.0)
        yield step(torch.ones(2)).tolist()
        items.append(make(17.0))
        yield step(torch.ones(2)).tolist()

    expected = list(seen(lambda step: step))
    assert list(seen(lambda step: torch.compile(step, backend="python"))) == expected
