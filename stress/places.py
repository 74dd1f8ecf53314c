"""The grammar of `surroundings.py`: where a function finds a value, what it is, how it is read.

Everything is text: a program is put together of one row of each table, so that what a difference
prints is a program that anybody can run. `{v}` is the value, `{n}` another one, `{e}` how the
value is reached.
"""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["EFFECTS", "HOLDERS", "PREAMBLE", "READINGS", "RESULTS", "VALUES", "WAYS",
           "Holder", "Value"]  # fmt: skip

Pair = tuple[str, str]

PREAMBLE = """
import array, collections, contextvars, dataclasses, decimal, enum, fractions, functools, io, itertools
import logging, math, operator, os, random, sys, threading, time, types, typing, warnings, weakref
import numpy as np
import pullback as torch
from pullback import nn
"""


class Holder(NamedTuple):
    """A place that a value is found in."""

    setup: str
    reach: str  # in the function
    changes: tuple[Pair, ...]  # (do, undo)
    live: str | None = None  # from outside, if otherwise; "" if the value cannot be mutated there
    params: str = ""
    given: str = ""  # what the call adds to x


HOLDERS = {
    "global": Holder("G = {v}", "G", (("G = {n}", "G = {v}"), ("del G", "G = {v}"))),
    "builtin": Holder(
        "import builtins\nbuiltins.place_b = {v}", "place_b",
        (("place_b = {n}", "del place_b"), ("builtins.place_b = {n}", "builtins.place_b = {v}")),
    ),
    "closure": Holder(
        "def cell():\n    v = {v}\n    def read():\n        return v\n"
        "    def write(n):\n        nonlocal v\n        v = n\n    return read, write\nread, write = cell()",
        "read()", (("write({n})", "write({v})"),),
    ),
    "argument": Holder("A = [{v}]", "v", (("A = [{n}]", "A = [{v}]"),), "A[0]", ", v", ", *A"),
    "keyword argument": Holder(
        "A = dict(v={v})", "v", (("A = dict(v={n})", "A = dict(v={v})"), ("A = {{}}", "A = dict(v={v})")),
        "A['v']", ", v=1.5", ", **A",
    ),
    "argument in a list": Holder("A = [{v}, 1.0]", "v[0]", (("A[0] = {n}", "A[0] = {v}"),), "A[0]", ", v", ", A"),
    "argument in a dict": Holder(
        "A = dict(k={v}, l=1.0)", "v['k']",
        (("A['k'] = {n}", "A['k'] = {v}"), ("A = dict(l=1.0, k={v})", "A = dict(k={v}, l=1.0)")),
        "A['k']", ", v", ", A",
    ),
    "argument in a tuple": Holder("A = ({v}, 1.0)", "v[0]", (("A = ({n}, 1.0)", "A = ({v}, 1.0)"),), "A[0]", ", v", ", A"),
    "argument in an object": Holder(
        "class O: pass\nA = O()\nA.a = {v}", "v.a", (("A.a = {n}", "A.a = {v}"), ("del A.a", "A.a = {v}"),
        ("A = O(); A.a = {n}", "A = O(); A.a = {v}")), "A.a", ", v", ", A",
    ),
    "argument in a namespace": Holder(
        "A = types.SimpleNamespace(a={v})", "v.a", (("A.a = {n}", "A.a = {v}"),), "A.a", ", v", ", A",
    ),
    "argument in a dataclass": Holder(
        "@dataclasses.dataclass\nclass O:\n    a: object\nA = O({v})", "v.a",
        (("A = O({n})", "A = O({v})"), ("A.a = {n}", "A.a = {v}")), "A.a", ", v", ", A",
    ),
    "rest of the arguments": Holder("A = [{v}]", "rest[0]", (("A[0] = {n}", "A[0] = {v}"),
        ("A.insert(0, {n})", "A.pop(0)")), "A[0]", ", *rest", ", *A"),
    "class attribute": Holder(
        "class C: a = {v}", "C.a", (("C.a = {n}", "C.a = {v}"), ("del C.a", "C.a = {v}")),
    ),
    "class attribute of an object": Holder(
        "class C: a = {v}\no = C()", "o.a",
        (("C.a = {n}", "C.a = {v}"), ("o.a = {n}", "del o.a"), ("o.__class__ = type('D', (), dict(a={n}))", "o.__class__ = C")),
    ),
    "base class": Holder(
        "class B: a = {v}\nclass C(B): pass\nclass D: a = 1.5", "C.a",
        (("B.a = {n}", "B.a = {v}"), ("C.a = {n}", "del C.a"), ("C.__bases__ = (type('E', (), dict(a={n})),)", "C.__bases__ = (B,)")),
    ),
    "second base of an object": Holder(
        "class M: pass\nclass B: a = {v}\nclass C(M, B): pass\no = C()", "o.a",
        (("M.a = {n}", "del M.a"), ("B.a = {n}", "B.a = {v}"), ("o.a = {n}", "del o.a")),
    ),
    "super": Holder(
        "class B: a = {v}\nclass C(B):\n    a = 1.5\n    def up(self): return super().a\no = C()", "o.up()",
        (("B.a = {n}", "B.a = {v}"), ("C.up = lambda self: {n}", "C.up = lambda self: super(C, self).a")),
    ),
    "metaclass": Holder(
        "class M(type): a = {v}\nclass C(metaclass=M): pass", "C.a",
        (("M.a = {n}", "M.a = {v}"), ("C.a = {n}", "del C.a")),
    ),
    "metaclass property": Holder(
        "class M(type):\n    _a = {v}\n    @property\n    def a(cls): return cls._a\nclass C(metaclass=M): pass", "C.a",
        (("M._a = {n}", "M._a = {v}"), ("C._a = {n}", "del C._a"), ("M.a = property(lambda cls: {n})", "M.a = property(lambda cls: cls._a)")),
    ),
    "metaclass item": Holder(
        "class M(type):\n    def __getitem__(cls, key): return cls.table[key]\nclass C(metaclass=M): table = dict(a={v})", "C['a']",
        (("C.table['a'] = {n}", "C.table['a'] = {v}"), ("C.table = dict(a={n})", "C.table = dict(a={v})"),
         ("M.__getitem__ = lambda cls, key: {n}", "M.__getitem__ = lambda cls, key: cls.table[key]")),
    ),
    "nested class": Holder(
        "class C:\n    class D: a = {v}", "C.D.a",
        (("C.D.a = {n}", "C.D.a = {v}"), ("C.D = type('D', (), dict(a={n}))", "C.D = type('D', (), dict(a={v}))")),
    ),
    "attribute": Holder(
        "class C: pass\no = C()\no.a = {v}", "o.a",
        (("o.a = {n}", "o.a = {v}"), ("del o.a", "o.a = {v}"), ("o.__dict__['a'] = {n}", "o.__dict__['a'] = {v}"),
         ("C.a = property(lambda self: {n})", "del C.a"), ("o.__dict__ = dict(a={n})", "o.__dict__ = dict(a={v})")),
    ),
    "attribute of an attribute": Holder(
        "class C: pass\no = C()\no.o = C()\no.o.a = {v}", "o.o.a",
        (("o.o.a = {n}", "o.o.a = {v}"), ("o.o = C(); o.o.a = {n}", "o.o.a = {v}")),
    ),
    "slot": Holder(
        "class C: __slots__ = ('a', 'b')\no = C()\no.a = {v}", "o.a",
        (("o.a = {n}", "o.a = {v}"), ("del o.a", "o.a = {v}"), ("o = C(); o.a = {n}", "o.a = {v}")),
    ),
    "dataclass with slots": Holder(
        "@dataclasses.dataclass(slots=True)\nclass C:\n    a: object\n    b: float = 1.0\no = C({v})", "o.a",
        (("o.a = {n}", "o.a = {v}"), ("o = C({n})", "o = C({v})")),
    ),
    "frozen dataclass": Holder(
        "@dataclasses.dataclass(frozen=True)\nclass C:\n    a: object\no = C({v})", "o.a",
        (("o = C({n})", "o = C({v})"), ("object.__setattr__(o, 'a', {n})", "object.__setattr__(o, 'a', {v})")),
    ),
    "property": Holder(
        "class C:\n    def __init__(self): self._a = {v}\n    @property\n    def a(self): return self._a\no = C()", "o.a",
        (("o._a = {n}", "o._a = {v}"), ("C.a = property(lambda self: {n})", "C.a = property(lambda self: self._a)"),
         ("C.a = {n}", "C.a = property(lambda self: self._a)")), "o._a",
    ),
    "cached property": Holder(
        "class C:\n    s = {v}\n    @functools.cached_property\n    def a(self): return self.s\no = C()", "o.a",
        (("o.a = {n}", "o.a = {v}"), ("o.__dict__.pop('a', None); C.s = {n}", "o.__dict__.pop('a', None); C.s = {v}")),
    ),
    "descriptor": Holder(
        "class P:\n    def __get__(self, o, k): return self.s\nclass C: a = P()\nP.s = {v}\no = C()", "o.a",
        (("P.s = {n}", "P.s = {v}"), ("o.a = {n}", "del o.a"), ("C.a = {n}", "C.a = P()"),
         ("P.__get__ = lambda self, o, k: {n}", "P.__get__ = lambda self, o, k: self.s")),
    ),
    "data descriptor": Holder(
        "class P:\n    def __get__(self, o, k): return o.__dict__['_a']\n    def __set__(self, o, v): o.__dict__['_a'] = v\n"
        "class C: a = P()\no = C()\no.a = {v}", "o.a",
        (("o.a = {n}", "o.a = {v}"), ("o.__dict__['a'] = {n}", "del o.__dict__['a']"), ("del P.__set__; o.__dict__['a'] = {n}", "del o.__dict__['a']")),
    ),
    "fallback of a class": Holder(
        "class C:\n    def __getattr__(self, name): return T[name]\nT = dict(a={v})\no = C()", "o.a",
        (("T['a'] = {n}", "T['a'] = {v}"), ("o.a = {n}", "del o.a"), ("C.a = {n}", "del C.a"),
         ("C.__getattr__ = lambda self, name: {n}", "C.__getattr__ = lambda self, name: T[name]")),
    ),
    "getattribute": Holder(
        "class C:\n    def __getattribute__(self, name): return T[name] if name in T else object.__getattribute__(self, name)\nT = dict(a={v})\no = C()", "o.a",
        (("T['a'] = {n}", "T['a'] = {v}"), ("C.__getattribute__ = object.__getattribute__; C.a = {n}",
          "del C.a; C.__getattribute__ = lambda self, name: T[name] if name in T else object.__getattribute__(self, name)")),
    ),
    "list": Holder("L = [{v}, 1.0]", "L[0]", (("L[0] = {n}", "L[0] = {v}"), ("L.insert(0, {n})", "L.pop(0)"),
        ("L.reverse()", "L.reverse()"), ("L = ({n}, 1.0)", "L = [{v}, 1.0]"))),
    "end of a list": Holder("L = [1.0, {v}]", "L[-1]", (("L[-1] = {n}", "L[-1] = {v}"), ("L.append({n})", "L.pop()"), ("L.clear()", "L[:] = [1.0, {v}]"))),
    "tuple": Holder("L = ({v}, 1.0)", "L[0]", (("L = ({n}, 1.0)", "L = ({v}, 1.0)"), ("L = [{n}, 1.0]", "L = ({v}, 1.0)"))),
    "dict": Holder("D = dict(k={v})", "D['k']", (("D['k'] = {n}", "D['k'] = {v}"), ("del D['k']", "D['k'] = {v}"),
        ("D = collections.defaultdict(lambda: 1.5)", "D = dict(k={v})"))),
    "item by get": Holder("D = dict(l=1.0)", "D.get('k', 1.5)", (("D['k'] = {n}", "del D['k']"), ("D['k'] = {v}", "D.pop('k')")), ""),
    "ordered dict": Holder("D = collections.OrderedDict(k={v})", "D['k']", (("D['k'] = {n}", "D['k'] = {v}"),)),
    "default dict": Holder(
        "D = collections.defaultdict(lambda: {v})", "D['k']",
        (("D['k'] = {n}", "D['k'] = {v}"), ("del D['k']; D.default_factory = lambda: {n}", "D['k'] = {v}")), "",
    ),
    "deque": Holder("L = collections.deque([{v}, 1.0])", "L[0]", (("L[0] = {n}", "L[0] = {v}"), ("L.appendleft({n})", "L.popleft()"), ("L.rotate(1)", "L.rotate(-1)"))),
    "mapping proxy": Holder("D = dict(k={v})\nP = types.MappingProxyType(D)", "P['k']", (("D['k'] = {n}", "D['k'] = {v}"), ("P = types.MappingProxyType(dict(k={n}))", "P = types.MappingProxyType(D)"))),
    "user's dict": Holder("class MD(dict): pass\nD = MD(k={v})", "D['k']", (("D['k'] = {n}", "D['k'] = {v}"),
        ("MD.__getitem__ = lambda self, key: {n}", "del MD.__getitem__"), ("del D['k']", "D['k'] = {v}"))),
    "user's dict with missing": Holder("class MD(dict):\n    def __missing__(self, key): return T\nT = {v}\nD = MD()", "D['k']",
        (("D['k'] = {n}", "del D['k']"), ("T = {n}", "T = {v}"), ("MD.__missing__ = lambda self, key: {n}", "MD.__missing__ = lambda self, key: T"))),
    "user's list": Holder("class ML(list): pass\nL = ML([{v}, 1.0])", "L[0]", (("L[0] = {n}", "L[0] = {v}"), ("L.insert(0, {n})", "L.pop(0)"),
        ("ML.__getitem__ = lambda self, key: {n}", "del ML.__getitem__"))),
    "user dict of collections": Holder("D = collections.UserDict(k={v})", "D['k']", (("D['k'] = {n}", "D['k'] = {v}"), ("D.data = dict(k={n})", "D.data = dict(k={v})"))),
    "chain of dicts": Holder("D = collections.ChainMap(dict(), dict(k={v}))", "D['k']", (("D.maps[0]['k'] = {n}", "del D.maps[0]['k']"), ("D.maps[1]['k'] = {n}", "D.maps[1]['k'] = {v}"))),
    "list of dicts": Holder("L = [dict(k={v}), dict(k=1.0)]", "L[0]['k']", (("L[0]['k'] = {n}", "L[0]['k'] = {v}"), ("L.reverse()", "L.reverse()"), ("L[0] = dict(k={n})", "L[0] = dict(k={v})"))),
    "namespace": Holder("o = types.SimpleNamespace(a={v})", "o.a", (("o.a = {n}", "o.a = {v}"), ("del o.a", "o.a = {v}"), ("o = types.SimpleNamespace(a={n})", "o = types.SimpleNamespace(a={v})"))),
    "named tuple": Holder("P = collections.namedtuple('P', 'a b')\no = P({v}, 1.0)", "o.a", (("o = P({n}, 1.0)", "o = P({v}, 1.0)"), ("o = o._replace(a={n})", "o = P({v}, 1.0)"),
        ("P.a = property(lambda self: {n})", "P.a = property(lambda self: self[0])"))),
    "typed named tuple": Holder("class P(typing.NamedTuple):\n    a: object\n    b: float = 2.0\no = P({v})", "o[0]", (("o = P({n})", "o = P({v})"),)),
    "module": Holder("M = types.ModuleType('m')\nM.a = {v}", "M.a", (("M.a = {n}", "M.a = {v}"), ("del M.a", "M.a = {v}"), ("M.__class__ = type('K', (types.ModuleType,), dict(a=property(lambda s: {n})))", "M.__class__ = types.ModuleType"))),
    "fallback of a module": Holder("M = types.ModuleType('m')\nT = dict(a={v})\nM.__getattr__ = lambda name: T[name]", "M.a",
        (("M.a = {n}", "del M.a"), ("T['a'] = {n}", "T['a'] = {v}"), ("M.__getattr__ = lambda name: {n}", "M.__getattr__ = lambda name: T[name]"))),
    "imported module": Holder("M = sys.modules['stress_place'] = types.ModuleType('stress_place')\nM.a = {v}\ndef get():\n    import stress_place\n    return stress_place.a", "get()",
        (("M.a = {n}", "M.a = {v}"), ("sys.modules['stress_place'] = types.SimpleNamespace(a={n})", "sys.modules['stress_place'] = M"))),
    "name imported from a module": Holder("M = sys.modules['stress_place'] = types.ModuleType('stress_place')\nM.a = {v}\ndef get():\n    from stress_place import a\n    return a", "get()",
        (("M.a = {n}", "M.a = {v}"), ("del M.a", "M.a = {v}"))),
    "default": Holder("def h(a=1.0, v={v}): return v", "h()", (("h.__defaults__ = (1.0, {n})", "h.__defaults__ = (1.0, {v})"), ("h.__defaults__ = ({n},)", "h.__defaults__ = (1.0, {v})"), ("h.__defaults__ = None", "h.__defaults__ = (1.0, {v})"))),
    "keyword default": Holder("def h(*, v={v}): return v", "h()", (("h.__kwdefaults__ = dict(v={n})", "h.__kwdefaults__ = dict(v={v})"), ("h.__kwdefaults__['v'] = {n}", "h.__kwdefaults__['v'] = {v}"), ("h.__kwdefaults__ = None", "h.__kwdefaults__ = dict(v={v})"))),
    "default of the function": Holder("", "v", (("f.__defaults__ = ({n},)", "f.__defaults__ = ({v},)"), ("f.__defaults__ = None", "f.__defaults__ = ({v},)")), "f.__defaults__[0]", ", v={v}"),
    "keyword default of the function": Holder("", "v", (("f.__kwdefaults__ = dict(v={n})", "f.__kwdefaults__ = dict(v={v})"), ("f.__kwdefaults__['v'] = {n}", "f.__kwdefaults__['v'] = {v}")), "f.__kwdefaults__['v']", ", *, v={v}"),
    "attribute of a function": Holder("def h(): return 1.0\nh.a = {v}", "h.a", (("h.a = {n}", "h.a = {v}"), ("del h.a", "h.a = {v}"))),
    "attribute of the function": Holder("", "f.a", (("f.a = {n}", "f.a = {v}"),)),
    "annotation": Holder("def h(a: 'x'): return 1.0\nh.__annotations__['a'] = {v}", "h.__annotations__['a']", (("h.__annotations__['a'] = {n}", "h.__annotations__['a'] = {v}"), ("h.__annotations__ = dict(a={n})", "h.__annotations__ = dict(a={v})"))),
    "annotation of a class": Holder("class C: a: float\nC.__annotations__['a'] = {v}", "C.__annotations__['a']", (("C.__annotations__['a'] = {n}", "C.__annotations__['a'] = {v}"),)),
    "code": Holder("def h(): return {v}\ndef g(): return {n}\nh2 = types.FunctionType(h.__code__, globals())", "h()", (("h.__code__ = g.__code__", "h.__code__ = h2.__code__"), ("h = g", "h = h2")), ""),
    "code of a method": Holder("class C:\n    def m(self): return {v}\ndef g(self): return {n}\no = C()\nm = C.m", "o.m()", (("C.m = g", "C.m = m"), ("o.m = lambda: {n}", "del o.m")), ""),
    "closure of a lambda": Holder("def make(v): return lambda: v\nh = make({v})", "h()", (("h = make({n})", "h = make({v})"), ("h.__closure__[0].cell_contents = {n}", "h.__closure__[0].cell_contents = {v}"))),
    "wrapped function": Holder("def deco(g):\n    @functools.wraps(g)\n    def inner(*a): return g(*a)\n    return inner\n@deco\ndef h(v={v}): return v", "h()", (("h.__wrapped__.__defaults__ = ({n},)", "h.__wrapped__.__defaults__ = ({v},)"), ("h = deco(lambda: {n})", "h = deco(lambda: {v})"))),
    "partial": Holder("def g(a, v=1.0): return a\np = functools.partial(g, {v})", "p()", (("p = functools.partial(g, {n})", "p = functools.partial(g, {v})"), ("p.__setstate__((g, ({n},), {{}}, {{}}))", "p.__setstate__((g, ({v},), {{}}, {{}}))"))),
    "partial keyword": Holder("def g(v=1.0): return v\np = functools.partial(g, v={v})", "p()", (("p.keywords['v'] = {n}", "p.keywords['v'] = {v}"), ("p.keywords.clear()", "p.keywords['v'] = {v}"), ("p = functools.partial(g, v={n})", "p = functools.partial(g, v={v})"))),
    "partial's attribute": Holder("p = functools.partial(int, 3)\np.a = {v}", "p.a", (("p.a = {n}", "p.a = {v}"),)),
    "bound method": Holder("class C:\n    def __init__(self, a): self.a = a\n    def m(self): return self.a\no = C({v})\nm = o.m", "m()", (("o.a = {n}", "o.a = {v}"), ("m = C({n}).m", "m = o.m"), ("m = types.MethodType(lambda s: {n}, o)", "m = o.m"))),
    "class method": Holder("class C:\n    a = {v}\n    @classmethod\n    def m(cls): return cls.a\nclass D(C): pass", "D.m()", (("C.a = {n}", "C.a = {v}"), ("D.a = {n}", "del D.a"), ("C.m = classmethod(lambda cls: {n})", "C.m = classmethod(lambda cls: cls.a)"))),
    "static method": Holder("T = {v}\nclass C:\n    @staticmethod\n    def m(): return T\no = C()", "o.m()", (("T = {n}", "T = {v}"), ("C.m = staticmethod(lambda: {n})", "C.m = staticmethod(lambda: T)"))),
    "partial method": Holder("class C:\n    def m(self, v): return v\n    p = functools.partialmethod(m, {v})\no = C()", "o.p()", (("C.p = functools.partialmethod(C.m, {n})", "C.p = functools.partialmethod(C.m, {v})"),)),
    "single dispatch": Holder("@functools.singledispatch\ndef h(a): return {v}\nh.register(str, lambda a: 1.0)", "h(2)", (("h.register(int, lambda a: {n})", "h.register(int, lambda a: {v})"),), ""),
    "callable object": Holder("class C:\n    a = {v}\n    def __call__(self): return self.a\no = C()", "o()", (("C.a = {n}", "C.a = {v}"), ("C.__call__ = lambda self: {n}", "C.__call__ = lambda self: self.a"))),
    "weak reference": Holder("class C: pass\nb = C()\nb.a = {v}\nw = weakref.ref(b)", "w().a", (("b.a = {n}", "b.a = {v}"), ("b = C(); b.a = {n}; w = weakref.ref(b)", "b.a = {v}"), ("b = None", "b = C(); b.a = {v}; w = weakref.ref(b)"))),
    "weak dict": Holder("class C: pass\nb = C()\nb.a = {v}\nD = weakref.WeakValueDictionary(k=b)", "(D['k'].a if 'k' in D else 1.5)", (("b.a = {n}", "b.a = {v}"), ("b = None", "b = C(); b.a = {v}; D['k'] = b"))),
    "weak keys": Holder("class C: pass\nb = C()\nD = weakref.WeakKeyDictionary()\nD[b] = {v}", "D[b]", (("D[b] = {n}", "D[b] = {v}"),)),
    "context variable": Holder("c = contextvars.ContextVar('c')\nc.set({v})", "c.get()", (("c.set({n})", "c.set({v})"), ("c = contextvars.ContextVar('d', default={n})", "c = contextvars.ContextVar('d', default={v})"))),
    "context variable with default": Holder("c = contextvars.ContextVar('c')", "c.get(1.5)", (("t = c.set({n})", "c.reset(t)"), ("t = c.set({v})", "c.reset(t)")), ""),
    "thread local": Holder("l = threading.local()\nl.a = {v}", "l.a", (("l.a = {n}", "l.a = {v}"), ("del l.a", "l.a = {v}"))),
    "enum": Holder("class E(enum.Enum):\n    A = {v}\n    B = 1.25", "E.A.value", (("E.A._value_ = {n}", "E.A._value_ = {v}"),)),
    "enum member": Holder("class E(enum.Enum):\n    A = 1.0\n    B = 2.0\nE.A.a, E.B.a = {v}, {n}\nm = E.A", "m.a", (("m = E.B", "m = E.A"), ("E.A.a = {n}", "E.A.a = {v}"))),
    "cache": Holder("T = {v}\n@functools.lru_cache\ndef h(k): return T", "h(1)", (("T = {n}; h.cache_clear()", "T = {v}; h.cache_clear()"), ("T = {n}", "T = {v}"))),
    "attribute of a tensor": Holder("w = torch.ones(3)\nw.tag = {v}", "w.tag", (("w.tag = {n}", "w.tag = {v}"), ("del w.tag", "w.tag = {v}"), ("w = torch.ones(3); w.tag = {n}", "w.tag = {v}"))),
    "attribute of the argument": Holder("X = torch.ones(3)\nX.tag = {v}", "x.tag", (("X.tag = {n}", "X.tag = {v}"), ("del X.tag", "X.tag = {v}"), ("X = torch.ones(3); X.tag = {n}", "X.tag = {v}")), "X.tag"),
    "module's attribute": Holder("class N(nn.Module):\n    def __init__(self):\n        super().__init__()\n        self.a = {v}\n    def forward(self): return self.a\nm = N()", "m()",
        (("m.a = {n}", "m.a = {v}"), ("N.forward = lambda self: {n}", "N.forward = lambda self: self.a"), ("m.forward = lambda: {n}", "del m.forward")), "m.a"),
    "attribute of a submodule": Holder("class N(nn.Module):\n    def forward(self): return self.a\nm = nn.Module()\nm.inner = N()\nm.inner.a = {v}", "m.inner()",
        (("m.inner.a = {n}", "m.inner.a = {v}"), ("m.inner = N(); m.inner.a = {n}", "m.inner.a = {v}")), "m.inner.a"),
    "hook of a module": Holder("class N(nn.Module):\n    def forward(self): return 1.0\nm = N()\nB = [{v}]\nhook = m.register_forward_hook(lambda mod, args, out: B[0])", "m()",
        (("B[0] = {n}", "B[0] = {v}"), ("hook.remove()", "hook = m.register_forward_hook(lambda mod, args, out: B[0])"),
         ("h2 = m.register_forward_hook(lambda mod, args, out: {n})", "h2.remove()")), "B[0]"),
    "generator": Holder("def walk():\n    while True: yield {v}\n    \ng = walk()", "next(g)", (("g = iter([{n}] * 99)", "g = walk()"),), ""),
    "iterator": Holder("g = iter([{v}, {n}] * 50)", "next(g)", (("g = iter([{n}] * 99)", "g = iter([{v}, {n}] * 50)"),), ""),
    "cycle": Holder("g = itertools.cycle([{v}, {n}])", "next(g)", (("next(g)", "next(g)"),), ""),
    "popped": Holder("L = [{v}, {n}] * 50", "L.pop()", (("L.append({n})", "L.append({v})"),), ""),
    "popped from the left": Holder("L = collections.deque([{v}, {n}] * 50)", "L.popleft()", (("L.appendleft({n})", "L.appendleft({v})"),), ""),
    "items of vars": Holder("class C: pass\no = C()\no.a = {v}", "vars(o)['a']", (("o.a = {n}", "o.a = {v}"), ("del o.a", "o.a = {v}"))),
    "globals by name": Holder("G = {v}", "globals()['G']", (("G = {n}", "G = {v}"), ("del G", "G = {v}"))),
    "getattr with default": Holder("class C: pass\no = C()", "getattr(o, 'a', 1.5)", (("o.a = {n}", "del o.a"), ("C.a = {n}", "del C.a")), ""),
    "operator": Holder("o = types.SimpleNamespace(a={v})", "operator.attrgetter('a')(o)", (("o.a = {n}", "o.a = {v}"),)),
    "choice of a flag": Holder("T = True", "({v} if T else {n})", (("T = False", "T = True"), ("T = []", "T = [0]")), ""),
    "keys of a dict": Holder("D = {{1: {v}, 'k': 1.0}}", "D[1]", (("D[1] = {n}", "D[1] = {v}"), ("D = {{True: {n}}}", "D = {{1: {v}}}"), ("D = {{1.0: {n}}}", "D = {{1: {v}}}"))),
    "object as a key": Holder("class K: pass\nk = K()\nD = {{k: {v}}}", "D[k]", (("D[k] = {n}", "D[k] = {v}"), ("k2 = k; k = K(); D[k] = {n}", "k = k2"))),
    "hashed object as a key": Holder("class K:\n    h = 1\n    def __hash__(self): return self.h\n    def __eq__(self, o): return self.h == o.h\nk, j = K(), K()\nD = {{k: {v}}}", "D[j]", (("D[k] = {n}", "D[k] = {v}"), ("j.h = 2; D[j] = {n}", "j.h = 1"))),
}  # fmt: skip


class Value(NamedTuple):
    """What is found: its text, its kinds, others to put in its place, ways to change it."""

    text: str
    kinds: str  # of readings that fit
    others: tuple[str, ...]
    changes: tuple[Pair, ...] = ()
    setup: str = ""


_SEQUENCE = (
    ("{e}[0] = 7.0", "{e}[0] = 2.0"),
    ("{e}.append(5.0)", "{e}.pop()"),
    ("{e}.reverse()", "{e}.reverse()"),
)
_MAPPING = (
    ("{e}['a'] = 7.0", "{e}['a'] = 2.0"), ("{e}['c'] = 5.0", "del {e}['c']"),
    ("{e}['a'] = {e}.pop('a')", "{e}['b'] = {e}.pop('b')"), ("del {e}['b']", "{e}['b'] = 3.0"),
)  # fmt: skip
_OBJECT = (
    ("{e}.a = 7.0", "{e}.a = 2.0"),
    ("{e}.b = 5.0", "del {e}.b"),
    ("del {e}.a", "{e}.a = 2.0"),
)
_CLASS = "class Q:\n    k = 1.0\n    def __init__(self, a=2.0): self.a = a\n    def m(self): return self.a + self.k\n"
VALUES = {
    "float": Value("2.0", "number", ("3.0", "2", "True", "-2.0", "np.float64(2.0)", "np.float32(2.0)", "float('inf')", "None", "'2'")),
    "zero": Value("0.0", "number zero", ("-0.0", "0", "False", "1e-320")),
    "int": Value("2", "number int", ("3", "2.0", "True", "1", "np.int64(2)", "70")),
    "bool": Value("True", "number int", ("False", "1", "np.bool_(True)")),
    "nan": Value("float('nan')", "number", ("1.0", "-float('nan')", "np.float64('nan')")),
    "complex": Value("2+0j", "number", ("2.0", "complex(2, -0.0)")),
    "text": Value("'ab'", "text", ("'ba'", "'abc'", "b'ab'", "''", "np.str_('ab')")),
    "bytes": Value("b'ab'", "text", ("b'ba'", "'ab'", "bytearray(b'ab')")),
    "None": Value("None", "any", ("2.0", "0", "False", "[]")),
    "NumPy number": Value("np.float32(2.0)", "number", ("np.float32(3.0)", "np.float64(2.0)", "2.0")),
    "fraction": Value("fractions.Fraction(1, 2)", "number", ("fractions.Fraction(1, 4)", "0.5")),
    "decimal": Value("decimal.Decimal('0.5')", "any", ("decimal.Decimal('0.25')", "0.5")),
    "user's float": Value("F(2.0)", "number", ("F(3.0)", "2.0"), (("F.__float__ = lambda s: 9.0", "del F.__float__"), ("F.__rmul__ = lambda s, o: 9.0", "del F.__rmul__")), "class F(float): pass"),
    "user's int": Value("I(2)", "number int", ("I(3)", "2"), (("I.__add__ = lambda s, o: 9", "del I.__add__"),), "class I(int): pass"),
    "flag": Value("R.A", "number int", ("R.B", "R.A | R.B", "1"), (), "class R(enum.IntFlag):\n    A = 1\n    B = 2"),
    "enum": Value("E2.A", "any identity", ("E2.B", "1.0"), (("E2.A.extra = 3.0", "del E2.A.extra"),), "class E2(enum.Enum):\n    A = 1.0\n    B = 2.0"),
    "range": Value("range(3)", "sequence numbers", ("range(4)", "range(0, 6, 2)", "[0, 1, 2]")),
    "slice": Value("slice(0, 2)", "slice", ("slice(0, 1)", "slice(0, 2, 1)", "slice(None, 2)")),
    "size": Value("torch.Size([2, 1])", "sequence numbers", ("torch.Size([2, 2])", "(2, 1)")),
    "dtype": Value("torch.float32", "dtype", ("torch.float64", "torch.float16")),
    "list": Value("[2.0, 3.0]", "sequence numbers", ("[3.0, 2.0]", "[2.0]", "(2.0, 3.0)", "[2, 3]", "[2.0, 3.0, 4.0]"), (*_SEQUENCE, ("{e}.insert(1, 5.0)", "{e}.pop(1)"), ("{e}.clear()", "{e}.extend([2.0, 3.0])"))),
    "empty list": Value("[]", "sequence", ("[2.0]", "()", "{{}}"), (("{e}.append(5.0)", "{e}.clear()"),)),
    "nested list": Value("[[2.0], [3.0]]", "sequence nested", ("[[2.0], [4.0]]", "[(2.0,), [3.0]]"), (("{e}[0][0] = 7.0", "{e}[0][0] = 2.0"), ("{e}[1].append(5.0)", "{e}[1].pop()"), ("{e}.reverse()", "{e}.reverse()"))),
    "tuple": Value("(2.0, 3.0)", "sequence numbers", ("(3.0, 2.0)", "(2.0,)", "[2.0, 3.0]", "(2, 3.0)")),
    "deque": Value("collections.deque([2.0, 3.0])", "sequence numbers", ("collections.deque([2.0, 4.0])", "[2.0, 3.0]"), (*_SEQUENCE, ("{e}.appendleft(5.0)", "{e}.popleft()"))),
    "array": Value("array.array('d', [2.0, 3.0])", "sequence numbers", ("array.array('f', [2.0, 3.0])", "array.array('d', [2.0])"), _SEQUENCE),
    "bytearray": Value("bytearray([2, 3])", "sequence numbers", ("bytearray([2, 4])", "b'ab'"), (("{e}[0] = 7", "{e}[0] = 2"), ("{e}.append(5)", "{e}.pop()"))),
    "memoryview": Value("memoryview(bytearray([2, 3]))", "sequence numbers", ("memoryview(bytearray([2, 4]))", "bytearray([2, 3])"), (("{e}[0] = 7", "{e}[0] = 2"),)),
    "NumPy array": Value("np.array([2.0, 3.0])", "sequence array", ("np.array([2.0, 4.0])", "np.array([2, 3])", "np.array([2.0])", "[2.0, 3.0]"), (("{e}[0] = 7.0", "{e}[0] = 2.0"), ("{e} *= -1", "{e} *= -1"), ("{e}.shape = (2, 1)", "{e}.shape = (2,)"))),
    "NumPy objects": Value("np.array([2.0, None], object)", "sequence", ("np.array([3.0, None], object)",), (("{e}[0] = 7.0", "{e}[0] = 2.0"),)),
    "user's list": Value("UL([2.0, 3.0])", "sequence numbers", ("UL([2.0, 4.0])", "[2.0, 3.0]"), (*_SEQUENCE, ("UL.__len__ = lambda s: 1", "del UL.__len__"), ("UL.__iter__ = lambda s: iter([9.0])", "del UL.__iter__"), ("UL.__contains__ = lambda s, o: False", "del UL.__contains__")), "class UL(list): pass"),
    "list of collections": Value("collections.UserList([2.0, 3.0])", "sequence", ("collections.UserList([2.0])",), _SEQUENCE),
    "named tuple": Value("NT(2.0, 3.0)", "sequence numbers fields", ("NT(3.0, 2.0)", "NT2(2.0, 3.0)", "(2.0, 3.0)"), (("NT.m = lambda s: 9.0", "NT.m = lambda s: s.a"),), "NT = collections.namedtuple('NT', 'a b')\nNT2 = collections.namedtuple('NT2', 'b a')\nNT.m = NT2.m = lambda s: s.a"),
    "sequence class": Value("SQ()", "sequence", ("SQ()",), (("{e}.items = (2.0,)", "del {e}.items"), ("SQ.items = (4.0, 5.0)", "SQ.items = (2.0, 3.0)"), ("SQ.__iter__ = lambda s: iter((9.0,))", "del SQ.__iter__")), "class SQ:\n    items = (2.0, 3.0)\n    def __len__(self): return len(self.items)\n    def __getitem__(self, n): return self.items[n]"),
    "set": Value("{{2.0, 3.0}}", "sequence set", ("{{2.0, 4.0}}", "{{2.0}}", "frozenset((2.0, 3.0))"), (("{e}.add(5.0)", "{e}.discard(5.0)"), ("{e}.discard(2.0)", "{e}.add(2.0)"))),
    "frozen set": Value("frozenset((2.0, 3.0))", "sequence set", ("frozenset((2.0,))", "{{2.0, 3.0}}")),
    "dict": Value("dict(a=2.0, b=3.0)", "mapping", ("dict(b=3.0, a=2.0)", "dict(a=2.0)", "collections.OrderedDict(a=2.0, b=3.0)", "dict(a=2, b=3)"), _MAPPING),
    "ordered dict": Value("collections.OrderedDict(a=2.0, b=3.0)", "mapping", ("dict(a=2.0, b=3.0)", "collections.OrderedDict(b=3.0, a=2.0)"), (*_MAPPING, ("{e}.move_to_end('a')", "{e}.move_to_end('b')"))),
    "default dict": Value("collections.defaultdict(float, a=2.0, b=3.0)", "mapping", ("collections.defaultdict(int, a=2.0, b=3.0)", "dict(a=2.0, b=3.0)"), (*_MAPPING, ("{e}.default_factory = lambda: 9.0", "{e}.default_factory = float"))),
    "counter": Value("collections.Counter(a=2, b=3)", "mapping", ("collections.Counter(a=3, b=3)",), (("{e}['c'] = 5", "del {e}['c']"), ("{e}['a'] = 7", "{e}['a'] = 2"))),
    "proxy": Value("types.MappingProxyType(dict(a=2.0, b=3.0))", "mapping", ("types.MappingProxyType(dict(b=3.0, a=2.0))", "dict(a=2.0, b=3.0)")),
    "proxy of a dict": Value("types.MappingProxyType(PD)", "mapping", ("types.MappingProxyType(dict(a=9.0, b=3.0))",), (("PD['a'] = 7.0", "PD['a'] = 2.0"), ("PD['c'] = 1.0", "del PD['c']"), ("PD['a'] = PD.pop('a')", "PD['b'] = PD.pop('b')")), "PD = dict(a=2.0, b=3.0)"),
    "user's dict": Value("UD(a=2.0, b=3.0)", "mapping", ("UD(a=2.0)", "dict(a=2.0, b=3.0)"), (*_MAPPING, ("UD.__len__ = lambda s: 1", "del UD.__len__"), ("UD.get = lambda s, k, d=0: 9.0", "del UD.get"), ("UD.__contains__ = lambda s, o: False", "del UD.__contains__"), ("UD.__missing__ = lambda s, o: 4.0", "del UD.__missing__"), ("UD.items = lambda s: [('z', 9.0)]", "del UD.items")), "class UD(dict): pass"),
    "chain map": Value("collections.ChainMap(dict(a=2.0), dict(b=3.0))", "mapping", ("collections.ChainMap(dict(a=2.0, b=3.0))",), (("{e}.maps[1]['b'] = 7.0", "{e}.maps[1]['b'] = 3.0"),)),
    "keys": Value("KD.keys()", "sequence set", ("dict(a=1).keys()",), (("KD['z'] = 1.0", "del KD['z']"),), "KD = {{2.0: 0.0, 3.0: 1.0}}"),
    "values": Value("VD.values()", "sequence", ("dict(a=1).values()",), (("VD['z'] = 1.0", "del VD['z']"), ("VD['a'] = 7.0", "VD['a'] = 2.0")), "VD = dict(a=2.0, b=3.0)"),
    "object": Value("Q()", "object", ("Q(3.0)", "types.SimpleNamespace(a=2.0)"), (*_OBJECT, ("Q.k = 9.0", "Q.k = 1.0"), ("Q.m = lambda s: 9.0", "Q.m = lambda s: s.a + s.k"), ("Q.b = 4.0", "del Q.b"), ("{e}.m = lambda: 9.0", "del {e}.m"), ("{e}.k = 9.0", "del {e}.k"), ("Q.__len__ = lambda s: 0", "del Q.__len__"), ("Q.__bool__ = lambda s: False", "del Q.__bool__")), _CLASS),
    "object with slots": Value("QS()", "object", ("QS()", "types.SimpleNamespace(a=3.0)"), (*_OBJECT, ("QS.k = 9.0", "QS.k = 1.0")), "class QS:\n    __slots__ = ('a', 'b')\n    k = 1.0\n    def __init__(self): self.a = 2.0\n    def m(self): return self.a + self.k"),
    "dataclass": Value("QD()", "object", ("QD(3.0)",), (("{e}.a = 7.0", "{e}.a = 2.0"), ("QD.k = 9.0", "QD.k = 1.0")), "@dataclasses.dataclass\nclass QD:\n    a: float = 2.0\n    k = 1.0\n    def m(self): return self.a + self.k"),
    "dataclass with slots": Value("QT()", "object", ("QT(3.0)",), (("{e}.a = 7.0", "{e}.a = 2.0"),), "@dataclasses.dataclass(slots=True)\nclass QT:\n    a: float = 2.0\n    def m(self): return self.a"),
    "namespace": Value("types.SimpleNamespace(a=2.0)", "object", ("types.SimpleNamespace(a=3.0)",), _OBJECT),
    "object with special methods": Value("QO()", "object special sequence number", ("QO(3.0)",), (("{e}.a = 7.0", "{e}.a = 2.0"), ("QO.__len__ = lambda s: 9", "QO.__len__ = lambda s: 3"), ("QO.__float__ = lambda s: 9.0", "QO.__float__ = lambda s: s.a"), ("QO.__contains__ = lambda s, o: True", "QO.__contains__ = lambda s, o: o == s.a"), ("QO.__eq__ = lambda s, o: True", "QO.__eq__ = lambda s, o: s.a == o")),
        "class QO:\n    def __init__(self, a=2.0): self.a = a\n    def __len__(self): return 3\n    def __float__(self): return self.a\n    def __int__(self): return int(self.a)\n    __index__ = __int__\n    def __iter__(self): return iter((self.a, 1.0))\n    def __contains__(self, o): return o == self.a\n    def __eq__(self, o): return self.a == o\n    def __lt__(self, o): return self.a < o\n    def __gt__(self, o): return self.a > o\n    def __hash__(self): return 5\n    def __getitem__(self, n): return self.a + n\n    def __add__(self, o): return self.a + o\n    __radd__ = __add__\n    def __mul__(self, o): return o * self.a\n    __rmul__ = __mul__\n    def __neg__(self): return -self.a\n    def __abs__(self): return abs(self.a)\n    def __bool__(self): return self.a > 2.5\n    def __format__(self, s): return format(self.a, s)\n    def __str__(self): return str(self.a)\n    def __repr__(self): return f'QO({self.a})'\n    def __call__(self, *a): return self.a\n    def __enter__(self): return self.a\n    def __exit__(self, *e): return False\n    def m(self): return self.a".replace("{", "{{").replace("}", "}}")),
    "function": Value("fa", "callable", ("fb", "abs", "lambda v: v + 9.0"), (("fa.__code__ = fb.__code__", "fa.__code__ = fc.__code__"), ("fa.k = 3.0", "del fa.k")), "def fa(v): return v + 1.0\ndef fb(v): return v + 2.0\nfc = types.FunctionType(fa.__code__, globals())"),
    "lambda": Value("(lambda v: v + 1.0)", "callable", ("(lambda v: v + 2.0)",)),
    "partial": Value("functools.partial(operator.add, 1.0)", "callable", ("functools.partial(operator.add, 2.0)", "functools.partial(operator.mul, 1.0)")),
    "C function": Value("math.floor", "callable", ("math.ceil", "math.sqrt", "abs", "float")),
    "bound method": Value("[4.0].count", "callable", ("[1.0].count", "(1.0,).count")),
    "class of the user's": Value("Q", "class callable", ("Q3", "float"), (("Q.k = 9.0", "Q.k = 1.0"), ("Q.__name__ = 'QQQ'", "Q.__name__ = 'Q'"), ("Q.__init__ = lambda s, a=5.0: setattr(s, 'a', 5.0)", "Q.__init__ = lambda s, a=2.0: setattr(s, 'a', a)")), _CLASS + "    __float__ = m\n    def __radd__(self, o): return self.a + o\n    def __add__(self, o): return self.a + o\n    def __mul__(self, o): return o * self.a\n    __rmul__ = __mul__\nclass Q3(Q):\n    k = 4.0"),
    "tensor": Value("torch.tensor([2.0, 3.0, 4.0])", "tensor", ("torch.tensor([5.0, 6.0, 7.0])", "torch.tensor([2, 3, 4])", "torch.ones(1)", "torch.ones(3, requires_grad=True)", "2.0"), (("{e}.fill_(7.0)", "{e}.copy_(torch.tensor([2.0, 3.0, 4.0]))"), ("{e}.requires_grad_()", "{e}.requires_grad_(False)"), ("{e}.data = torch.ones(1)", "{e}.data = torch.tensor([2.0, 3.0, 4.0])"), ("{e}.grad = torch.ones(3)", "{e}.grad = None"), ("{e}.tag = 3.0", "del {e}.tag"), ("{e}.mul_(1.0)", "{e}.mul_(1.0)"))),
    "parameter": Value("nn.Parameter(torch.tensor([2.0, 3.0, 4.0]))", "tensor", ("nn.Parameter(torch.ones(3))", "torch.ones(3)", "nn.Parameter(torch.ones(3), requires_grad=False)"), (("{e}.data.fill_(7.0)", "{e}.data.copy_(torch.tensor([2.0, 3.0, 4.0]))"), ("{e}.requires_grad_(False)", "{e}.requires_grad_()"), ("{e}.grad = torch.ones(3)", "{e}.grad = None"))),
    "list of tensors": Value("[torch.ones(3), torch.full((3,), 2.0)]", "sequence tensors", ("[torch.full((3,), 2.0), torch.ones(3)]", "[torch.ones(3)]"), (("{e}.reverse()", "{e}.reverse()"), ("{e}.append(torch.full((3,), 4.0))", "{e}.pop()"), ("{e}[0].fill_(9.0)", "{e}[0].fill_(1.0)"), ("{e}[0] = {e}[1]", "{e}[0] = torch.ones(3)"))),
    "dict of tensors": Value("dict(a=torch.ones(3), b=torch.full((3,), 2.0))", "mapping tensors", ("dict(b=torch.ones(3), a=torch.full((3,), 2.0))",), (("{e}['a'] = {e}.pop('a')", "{e}['b'] = {e}.pop('b')"), ("{e}['c'] = torch.full((3,), 4.0)", "del {e}['c']"), ("{e}['a'].fill_(9.0)", "{e}['a'].fill_(1.0)"))),
    "net": Value("net()", "net", ("net(3)", "nn.Identity()"), (("{e}[0].weight.data.fill_(0.5)", "{e}[0].weight.data.fill_(1.0)"), ("{e}.eval()", "{e}.train()"), ("{e}.append(nn.ReLU())", "{e}.pop(-1)"), ("{e}[0].bias = None", "{e}[0].bias = nn.Parameter(torch.ones(3))"), ("{e}.register_buffer('b', torch.ones(3))", "del {e}.b"), ("{e}._modules.move_to_end('0')", "{e}._modules.move_to_end('1')"), ("{e}[0].register_forward_hook(lambda m, i, o: o * 2)", "{e}[0]._forward_hooks.clear()"), ("{e}[0].register_forward_pre_hook(lambda m, i: (i[0] * 2,))", "{e}[0]._forward_pre_hooks.clear()"), ("{e}[1].forward = lambda x: x * 3", "del {e}[1].forward"), ("{e}[0].weight.requires_grad_(False)", "{e}[0].weight.requires_grad_()"), ("nn.Tanh.forward = lambda self, x: x * 5", "nn.Tanh.forward = tanh"), ("{e}[0].weight.data = {e}[0].weight.data * 2", "{e}[0].weight.data.fill_(1.0)")),
        "tanh = nn.Tanh.forward\ndef net(k=1):\n    made = nn.Sequential(nn.Linear(3, 3), nn.Tanh())\n    for p in made.parameters(): p.data.fill_(1.0 * k)\n    return made"),
    "iterator": Value("iter([2.0, 3.0, 4.0, 5.0] * 20)", "iterator", ("iter((7.0,) * 50)", "itertools.repeat(3.0)"), (("next({e})", "next({e})"),)),
    "generator": Value("walk2()", "iterator", ("(k for k in [3.0] * 50)",), (("next({e})", "next({e})"),), "def walk2():\n    k = 0.0\n    while True:\n        k += 1.0\n        yield k"),
    "count": Value("itertools.count(2)", "iterator", ("itertools.count(3)",), (("next({e})", "next({e})"),)),
    "weak reference": Value("weakref.ref(qw)", "reference", ("weakref.ref(Q)",), (("qw.a = 9.0", "qw.a = 2.0"),), _CLASS + "qw = Q()"),
    "random source": Value("random.Random(3)", "random", ("random.Random(4)",), (("{e}.seed(5)", "{e}.seed(6)"),)),
    "NumPy generator": Value("np.random.default_rng(3)", "random", ("np.random.default_rng(4)",), (("{e}.random()", "{e}.random()"),)),
    "torch generator": Value("torch.Generator().manual_seed(3)", "generator", ("torch.Generator().manual_seed(4)",), (("{e}.manual_seed(5)", "{e}.manual_seed(6)"),)),
    "lock": Value("threading.Lock()", "lock", ("threading.RLock()",)),
    "pattern": Value("re.compile('a+')", "pattern", ("re.compile('b+')",), (), "import re"),
}  # fmt: skip

# By kind: statements that set `r` to a number or tensor, out of `{e}`.
READINGS = {
    "any": (
        "r = 2.0 if {e} is None else 3.0", "r = 2.0 if {e} else 3.0", "r = 2.0 if not {e} else 3.0",
        "r = float(isinstance({e}, (int, float)))", "r = float(type({e}) is float)",
        "r = float(len(type({e}).__name__))", "r = float(callable({e}))", "r = 2.0 if {e} == 2 else 3.0",
        "match {e}:\n    case None: r = 1.0\n    case 2: r = 2.0\n    case float(): r = 3.0\n    case [a, *b]: r = 4.0\n    case {{'a': a}}: r = 5.0\n    case _: r = 6.0",
        "try:\n    r = float({e})\nexcept (TypeError, ValueError):\n    r = 9.0",
        "v = {e}\nr = 2.0 if v is {e} else 3.0", "r = 2.0 if isinstance({e}, type) else 3.0",
        "a = [{e}]\nb = a[:]\nr = float(len(b)) + (2.0 if b[0] is None else 1.0)",
        "r = {e}",
    ),
    "number": (
        "r = {e}", "r = {e} + 1", "r = {e} * 2 - 1", "r = -{e}", "r = abs({e})", "r = float({e})", "r = int({e})",
        "r = 2.0 if {e} > 2 else 3.0", "r = 2.0 if {e} == 2 else 3.0", "r = 2.0 if 1 < {e} < 3 else 4.0",
        "r = float(len(f\"{{{e}}}\"))", "r = float(len(f\"{{{e}!r:>9}}\"))", "r = float(len('%s' % ({e},)))", "r = float(len(str({e})))",
        "r = float(f\"{{{e}:.3f}}\")", "r = {{2: 5.0, 3: 6.0}}.get({e}, 7.0)", "r = sum([{e}, 1.0])", "r = max({e}, 2.5)", "r = min([{e}, 2.5])",
        "r = round({e})", "r = math.floor({e})", "r = (lambda a, *b, c=0: a + c)({e}, 1, c=2)", "r = pow({e}, 2)", "r = divmod({e}, 2)[0]",
        "r = {e}.__add__(1)", "r = float(hash({e}) == hash(2.0))", "r = float(isinstance({e}, int))", "r = {e} if {e} else 1.0", "r = not {e}", "r = {e} and 5.0", "r = bool({e}) + 1",
        "r = float({e} in (2.0, 5.0))", "r = float({e} in {{2.0, 5.0}})", "r = float([1.0, 2.0, 3.0].count({e}))", "r = np.sqrt({e})", "r = float(str(type({e})) == \"<class 'float'>\")",
        "r = torch.full((3,), {e})", "r = torch.tensor({e})", "r = torch.tensor([1.0, 2.0]) * {e}", "r = torch.where(x > 0, {e}, x)", "r = x ** {e}", "r = {e} - x", "r = x // {e}", "r = x.clamp(max={e})",
        "r = torch.add(x, x, alpha={e})", "r = x.new_full((3,), {e})", "r = {e}.real", "r = operator.mul({e}, 2)", "r = functools.reduce(operator.add, [{e}, 1])", "r = float(sorted([{e}, 2.5])[0])",
        "r = x\nx = x + 1\nr = r * {e} + x", "r = {e}\nr += 1", "r = (a := {e}) + a", "r = float(bin(int({e})).count('1'))", "r = x.sum() * {e}", "r = eval('1') + {e}",
    ),
    "zero": ("r = math.copysign(1.0, {e})", "r = x / {e}", "r = torch.copysign(x, torch.tensor({e}))", "r = float(len(str({e})))", "r = math.atan2({e}, -1.0)"),
    "int": (
        "r = torch.ones({e})", "r = x[: {e}]", "r = x[{e}]", "r = float(sum(range({e})))", "r = x.repeat({e})", "r = [1.0, 2.0, 3.0, 4.0][{e}]", "r = x.sum({e} - 2)",
        "r = torch.zeros({e}, 2).sum()", "r = float('ab' * {e} == 'abab')", "r = x.expand({e}, 3)", "r = 1 << {e}", "r = {e} % 2", "r = {e} | 4", "r = ~{e}", "r = float(len([0] * {e}))", "r = x.roll({e})", "r = torch.arange({e}).sum()",
    ),
    "text": (
        "r = float(len({e}))", "r = float({e} == 'ab')", "r = float({e}[:1] == 'a')", "r = float('a' in {e})", "r = float(len({e} + {e}))", "r = float({e}.startswith('a'))", "r = float(len({e}.upper()))",
        "r = getattr(types.SimpleNamespace(ab=2.0, ba=3.0), {e}, 4.0)", "r = {{'ab': 2.0, 'ba': 3.0}}.get({e}, 4.0)", "r = dict(ab=2.0, ba=3.0)[{e}]", "r = float(len([c for c in {e}]))", "r = float(ord({e}[0]))" , "r = float(len(f\"{{{e}}}x\"))",
        "match {e}:\n    case 'ab': r = 1.0\n    case 'ba': r = 2.0\n    case _: r = 3.0", "r = float(sorted({e})[0] == {e}[0])", "r = float(hash({e}) == hash('ab'))", "r = float({e} < 'b')", "r = float(len({e}.join(['x', 'y', 'z'])))", "r = float(len({e} * 2))", "r = float(int.from_bytes({e}, 'big') % 7)",
        "r = float(len('{{}}-{{}}'.format({e}, 1)))", "r = 2.0 if {e} else 3.0", "r = float(len({e}.split('b')))", "r = float(len(bytes(2)) if {e} == b'ab' else 5)",
    ),
    "identity": ("r = 2.0 if {e} is E2.A else 3.0", "r = {{E2.A: 2.0, E2.B: 3.0}}[{e}]", "r = {e}.value", "r = float(len({e}.name)) + E2.A.value", "r = float(hasattr({e}, 'extra'))", "r = float(sum(1 for k in E2)) + E2['A'].value", "r = E2(1.0).value", "r = float(len(str({e})))", "r = float({e} in E2)"),
    "sequence": (
        "r = {e}[0]", "r = {e}[-1]", "r = float(len({e}))", "r = float(len(list({e})))", "r = 2.0 if {e} else 3.0", "r = 0.0\nfor v in {e}:\n    r = r * 2 + (v if isinstance(v, (int, float)) else 1.0)",
        "r = float(len([*{e}, *{e}]))", "r = float(len(tuple({e})))", "a, *b = {e}\nr = float(len(b))", "r = float(sum(1 for v in {e}))", "r = float(len(list(enumerate({e}))))", "r = float(len(list(reversed({e}))))",
        "r = float(len({e}[1:]))", "match {e}:\n    case []: r = 1.0\n    case [a]: r = 2.0\n    case [a, b]: r = 3.0\n    case _: r = 4.0", "r = (lambda *a: float(len(a)))(*{e})", "r = float(2.0 in {e})", "r = float(9.0 not in {e})", "r = float({e} == [2.0, 3.0])",
        "r = float(len(list(zip({e}, [1, 2, 3]))))", "r = float(len(list(map(str, {e}))))", "r = float(len({e}) if hasattr({e}, '__len__') else 9)", "r = float(next(iter({e}), 7.0) is not None)", "r = float(isinstance({e}, list))", "r = float(isinstance({e}, collections.abc.Sequence))", "r = float(len(repr({e})))",
        "try:\n    r = {e}[2] * 1.0\nexcept (IndexError, TypeError, KeyError):\n    r = 9.0", "r = float(len(list(itertools.chain({e}, {e}))))", "r = float(len({e} + {e}))", "r = float(any(v is None for v in {e}))", "a = list({e})\na.append(1.0)\nr = float(len(a))", "r = float(len(f\"{{{e}}}\"))", "r = float(len({e} * 2))", "r = float(bool({e}))",
        "i = iter({e})\nnext(i, None)\nr = float(len(list(i)))", "r = float(operator.length_hint({e}))", "r = float(len(list(filter(None, {e}))))", "r = float(len({{**dict(enumerate({e}))}}))", "r = operator.getitem({e}, 0)", "r = operator.itemgetter(0)({e})", "r = float(len(copy_of({e})))",
    ),
    "numbers": (
        "r = sum({e})", "r = max({e})", "r = min({e})", "r = sorted({e})[0]", "r = sorted({e}, reverse=True)[0]", "r = sum(v * 2 for v in {e})", "r = sum([v for v in {e} if v > 2])", "r = sum({{v for v in {e}}})", "a, b = {e}\nr = a * 2 - b", "r = float({e}.index(2.0))", "r = float({e}.count(2.0))",
        "r = torch.tensor({e})[0]", "r = torch.tensor(list({e})).sum()", "r = np.array({e}).sum()", "r = math.prod({e})", "r = functools.reduce(lambda a, b: a * 2 + b, {e})", "r = (lambda a, b=0, *c: a * 2 + b)(*{e})", "r = dict(zip('ab', {e}))['a']", "r = float(tuple({e}) < (2.0, 3.5))", "r = float(list({e}) == [2.0, 3.0])", "r = math.fsum({e})",
        "a, *b = {e}\nr = a + sum(b)", "r = sum(sorted({e}, key=lambda v: -v)[:1])", "r = max({e}, key=lambda v: -v)", "r = sum(a * b for a, b in zip({e}, {e}))", "r = math.hypot(*{e})", "r = sum(itertools.accumulate({e}))", "r = np.sum({e})", "r = sum(map(float, {e}))", "r = torch.as_tensor({e}).sum()",
        "r = float({e} == (2.0, 3.0))", "r = float(all(v > 2 for v in {e}))", "r = x[[int(v) % 3 for v in {e}]]", "r = torch.ones([int(v) for v in {e}]).sum()", "match {e}:\n    case [2.0, b]: r = b\n    case [a, b]: r = a\n    case _: r = 8.0", "r = sum(n * v for n, v in enumerate({e}, 1))", "r = sum(reversed({e}))" , "r = [*{e}][0] * 2 + [*{e}][-1]",
    ),
    "nested": ("r = {e}[0][0]", "r = sum(v[0] for v in {e})", "r = float(sum(len(v) for v in {e}))", "r = sum(v for row in {e} for v in row)", "(a, *_), b = {e}\nr = a", "r = torch.tensor({e}[:1]).sum()", "r = float(len(str({e})))", "r = sum(sum({e}, []))", "r = sorted({e})[0][0]", "r = float([2.0] in {e})", "r = sum(max({e}))", "r = sum(itertools.chain.from_iterable({e}))"),
    "array": ("r = float({e}.sum())", "r = torch.tensor({e}).sum()", "r = torch.from_numpy({e}).sum()", "r = float({e}[0])", "r = float({e}.shape[0])", "r = float(({e} * 2)[0])", "r = float({e}.max())", "r = torch.as_tensor({e})[0]", "r = float(np.sqrt({e})[0])", "r = sum({e}.tolist())", "r = float({e}.dtype == np.float64)", "r = float(np.mean({e}))", "r = float(({e} > 2).any())", "r = float({e}.flags.writeable)", "r = float(np.asarray({e}).size)", "r = x[: int({e}[0])]", "r = torch.tensor({e}[0])", "r = float({e}.tobytes()[7])", "r = float(memoryview({e})[0])", "r = x * torch.tensor({e}[:1])", "r = float({e}.nbytes)", "r = float(np.dot({e}, {e}))", "r = float(np.linalg.norm({e}))", "r = float({e}.reshape(-1, 1).T[0, 0])", "r = float({e}.copy()[0])"),
    "fields": ("r = {e}.a", "r = {e}.b", "r = getattr({e}, 'a')", "r = float({e}._fields[0] == 'a')", "r = {e}._asdict()['a']", "r = {e}.m()", "r = {e}._replace(a=5.0).b", "match {e}:\n    case NT(a=a, b=b): r = a\n    case _: r = 9.0", "r = float(isinstance({e}, NT))", "r = float(hasattr({e}, 'a'))"),
    "set": ("r = float(2.0 in {e})", "r = float(len({e} & {{2.0, 5.0}}))", "r = float(len({e} | {{5.0}}))", "r = float({e} <= {{2.0, 3.0}})", "r = sum(sorted({e}))", "r = float({e} == {{2.0, 3.0}})", "r = float(len(set({e})))", "r = float({e}.isdisjoint([2.0]))", "r = float(len({e} - {{2.0}}))", "r = sum(v for v in {e} if isinstance(v, float))", "r = float(hash(frozenset({e})) == hash(frozenset((2.0, 3.0))))", "r = max({e}, default=1.0)"),
    "mapping": (
        "r = {e}['a']", "r = {e}.get('a', 9.0)", "r = {e}.get('c', 9.0)", "r = float('a' in {e})", "r = float('c' in {e})", "r = float(len({e}))", "r = 2.0 if {e} else 3.0", "r = float(len(list({e})))", "r = float(''.join({e}) == 'ab')", "r = sum({e}.values())", "r = 0.0\nfor k, v in {e}.items():\n    r = r * 2 + v",
        "r = float(list({e}.keys()) == ['a', 'b'])", "r = list({e}.values())[0]", "r = (lambda a=0, b=0, **k: a * 2 + b + len(k))(**{e})", "r = {{**{e}}}.get('a', 1.0)", "r = dict({e})['a']", "r = dict({e}, z=1.0)['a']", "r = float({e} == dict(a=2.0, b=3.0))", "match {e}:\n    case {{'a': a, 'c': c}}: r = c\n    case {{'a': a, **rest}}: r = a + len(rest)\n    case _: r = 9.0", "try:\n    r = {e}['c'] * 1.0\nexcept KeyError:\n    r = 9.0",
        "r = sum(v for k, v in {e}.items() if k != 'b')", "r = {{k: v for k, v in {e}.items()}}['a']", "a, *b = {e}\nr = {e}[a]", "r = next(iter({e}.values()))", "r = next(iter({e}.items()))[1]", "r = float(len({e}.copy()))", "r = {e}[next(iter({e}))]", "r = float(next(reversed({e})) == 'b')", "r = sum({e}[k] for k in sorted({e}))", "r = float(max({e}) == 'b')", "r = sum(n * v for n, v in enumerate({e}.values(), 1))",
        "r = float(isinstance({e}, dict))", "r = float(type({e}) is dict)", "r = float(len(repr({e})))", "r = float('a' in {e}.keys())", "r = float(2.0 in {e}.values())", "r = float(('a', 2.0) in {e}.items())", "r = float(len({e} | dict(z=1.0)))", "r = '%(a)s' % {e} == '2.0'", "r = float(len('{{a}}'.format(**{e})))", "r = max({e}, key={e}.get) == 'b'", "r = float(list({e}.items())[-1][1])", "r = float(bool({e}.keys() & {{'c'}}))",
        "a = dict({e})\na['z'] = 1.0\nr = float(len(a))", "r = {e}.__getitem__('a')", "r = float({e}.__contains__('c'))", "r = operator.itemgetter('a')({e})", "r = float(hasattr({e}, 'move_to_end'))", "r = {e}['a'] if 'a' in {e} else 4.0", "r = float(len(set({e})))", "r = sum(map({e}.get, {e}))", "r = float(len(list(zip({e}, {e}.values()))))", "r = float(len(tuple({e}.items())))",
    ),
    "tensors": ("r = sum(v.sum() for v in ({e}.values() if isinstance({e}, dict) else {e}))", "r = 0.0\nfor n, v in enumerate({e}.values() if isinstance({e}, dict) else {e}):\n    r = r + v * n", "r = torch.stack(list({e}.values() if isinstance({e}, dict) else {e})).sum(0)", "r = float(len({e}))", "r = torch.cat([*({e}.values() if isinstance({e}, dict) else {e})])"),
    "object": (
        "r = {e}.a", "r = getattr({e}, 'a')", "r = getattr({e}, 'b', 9.0)", "r = float(hasattr({e}, 'b'))", "r = float(hasattr({e}, 'a'))", "r = {e}.m()", "r = float(isinstance({e}, types.SimpleNamespace))", "r = {e}.__dict__['a']", "r = vars({e})['a']", "r = float(len(vars({e})))", "r = 2.0 if {e} else 3.0", "r = float(type({e}).__name__ == 'Q')", "try:\n    r = {e}.b\nexcept AttributeError:\n    r = 9.0",
        "r = type({e}).k", "r = {e}.k", "match {e}:\n    case types.SimpleNamespace(a=a): r = a\n    case object(a=a): r = a * 2\n    case _: r = 9.0", "m = {e}.m\nr = m()", "r = operator.attrgetter('a')({e})", "r = type({e}).m({e})", "r = sum(v for v in vars({e}).values())", "r = float('b' in vars({e}))", "r = float('a' in dir({e}))", "r = {e}.__class__.k", "r = float({e} == {e})", "r = float(len([f.name for f in dataclasses.fields({e})]))", "r = dataclasses.asdict({e})['a']", "r = dataclasses.replace({e}, a=5.0).a", "r = float(callable({e}.m))", "r = object.__getattribute__({e}, 'a')", "r = operator.methodcaller('m')({e})", "r = copy_of({e}).a",
    ),
    "special": (
        "r = {e}[1]", "r = {e}(1)", "with {e} as v:\n    r = v", "r = x * {e}", "r = {e} * x", "r = -{e}", "r = float(f\"{{{e}:.2f}}\")", "r = float(str({e}))", "r = float(len(repr({e})))", "r = float(2.0 in {e})", "r = {e} + 1.0", "r = 1.0 + {e}", "r = x[{e}]", "r = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0][{e}]", "r = float({e} == 2.0)", "r = float(2.0 == {e})", "r = float([2.0].count({e}))", "r = float({e} in [2.0])", "r = sorted([{e}, 2.5])[0] * 1.0", "r = {{2.0: 1.0}}.get({e}, 3.0)", "r = max({e}, 2.5) * 1.0", "r = sum([{e}, 1.0])", "r = float(len(f\"{{{e}}}\"))", "r = float(range(9)[{e}])", "r = math.floor(float({e}))", "r = float(len('%s' % {e}))", "r = math.sqrt({e})", "r = float(len(bytes({e})))", "r = torch.tensor(float({e}))", "r = torch.ones(int({e})).sum()", "r = round(float({e}))", "r = float('ab'[{e} - 2:] == 'ab')" ,
    ),
    "callable": ("r = {e}(1.0)", "r = {e}(1.5) * 2", "r = (lambda g: g(1.5))({e})", "r = sum(map({e}, [1.0, 2.0]))", "r = functools.partial({e}, 1.5)()", "r = float(len({e}.__name__))", "r = max([1.5, 2.5], key={e})", "r = float(hasattr({e}, 'k'))", "r = [g(1.5) for g in [{e}]][0]", "r = {e}(*[1.5])", "r = sorted([2.5, 1.5], key={e})[0]", "r = float(callable({e}))", "r = list(map({e}, [1.0]))[0]", "r = functools.reduce(lambda a, b: a + {e}(b), [1.0, 2.0])", "r = float({e} is math.floor)", "r = {{math.floor: 1.0}}.get({e}, 2.0)"),
    "class": ("r = {e}().a", "r = {e}(3.0).m()", "r = {e}.k", "r = float(isinstance(Q3(), {e}))", "r = float(issubclass(Q3, {e}))", "r = float({e} is Q)", "r = float(len({e}.__name__))", "r = float(len({e}.__mro__))", "match Q3():\n    case Q(a=a): r = a\n    case _: r = 9.0", "r = getattr({e}, 'k', 5.0)", "r = {e}.m(Q3())", "r = {e}.__dict__.get('k', 5.0)", "r = vars({e}).get('k', 5.0)", "r = float('k' in vars({e}))", "r = {e}.__new__({e}).k"),
    "dtype": ("r = x.to({e})", "r = torch.ones(3, dtype={e})", "r = float({e}.itemsize)", "r = float({e} == torch.float32)", "r = float({e} is torch.float32)", "r = torch.finfo({e}).max", "r = {{torch.float32: 1.0}}.get({e}, 2.0)", "r = float(str({e}) == 'torch.float32')", "r = float({e}.is_floating_point)", "r = torch.zeros(1).type({e})"),
    "slice": ("r = x[{e}]", "r = x[..., {e}].sum()", "r = [1.0, 2.0, 3.0][{e}][-1]", "r = float({e}.stop)", "r = float(len(range(9)[{e}]))", "r = float({e} == slice(0, 2))", "r = float(len(str({e})))", "r = float({e}.indices(3)[1])"),
    "tensor": (
        "r = {e}", "r = {e} * 2", "r = {e}.sum()", "r = float({e}.requires_grad)", "r = 2.0 if {e}.grad is None else 3.0", "r = float({e}._version)", "r = float({e}.shape[0])", "r = float({e}.dtype == torch.float32)", "r = float({e}.numel())", "r = float(len({e}))", "r = float({e}.is_leaf)", "r = float(hasattr({e}, 'tag'))", "r = getattr({e}, 'tag', 9.0)", "r = {e}.item() if {e}.numel() == 1 else 2.0", "r = float({e}[0])", "r = 2.0 if {e}.sum() > 9 else 3.0", "r = {e}.tolist()[0]", "r = float({e}.numpy(force=True)[0])", "r = {e}.detach()", "r = {e}.data", "r = float({e}.stride()[0])", "r = float(isinstance({e}, nn.Parameter))", "r = float({e}.is_contiguous())", "r = 2.0 if {e}.grad_fn is None else 3.0", "r = float({e} is {e})", "r = x @ {e}", "r = {e}.grad if {e}.grad is not None else 4.0", "r = {e}.max()", "r = float({e}.data_ptr() == {e}.data_ptr())", "r = float(len(str({e})))", "r = float({e} in [{e}])", "r = {{{e}: 3.0}}[{e}]", "a = {e}\na = a + 1\nr = a * {e}", "r = [v for v in {e}][0]", "a, *b = {e}\nr = a", "r = float({e}.requires_grad) * {e}", "r = torch.zeros_like({e})", "r = float({e}.dim())", "r = {e}.type(torch.float64)", "r = float({e}.is_inference())", "r = float(type({e}) is torch.Tensor)", "r = float({e}.storage_offset())",
        "r = np.asarray({e}.detach())[0]", "r = np.sum({e}.detach().numpy())", "r = float(2.0 in {e})", "r = float({e}.nbytes)", "r = {e}.to(x.dtype)", "r = x.type_as({e})", "r = (x * {e}.detach()).clone()", "r = float({e}.is_shared())", "r = {e}.size(0) * 1.0", "r = {e}.new_ones(3)", "r = torch.equal({e}, {e})", "r = torch.is_tensor({e})", "r = torch.is_grad_enabled() * {e}.detach()", "r = {e}.view(-1)[:1]", "r = x.addcmul({e}, {e})",
    ),
    "net": ("r = {e}(x)", "r = float(sum(p.numel() for p in {e}.parameters()))", "r = float(len(list({e}.children())))", "r = float({e}.training)", "r = float(len(list({e}.named_parameters())))", "r = [m for m in {e}][-1](x)", "r = {e}[0](x)", "r = float(len({e}))", "r = {e}[0].weight.sum()", "r = {e}[0].bias if {e}[0].bias is not None else 1.0", "r = float(len({e}.state_dict()))", "r = float(hasattr({e}, 'b'))", "r = sum(b.sum() for b in {e}.buffers())", "r = {e}.forward(x)", "r = x\nfor layer in {e}:\n    r = layer(r)", "r = {e}.get_parameter('0.weight').sum()", "r = float(isinstance({e}[-1], nn.ReLU))", "r = sum(p.sum() for p in {e}.parameters() if p.requires_grad)", "r = next({e}.parameters()).sum()", "r = float([n for n, _ in {e}.named_children()][0] == '0')", "r = float(len([m for m in {e}.modules() if isinstance(m, nn.Linear)]))", "r = torch.func.functional_call({e}, dict({e}.named_parameters()), (x,))", "r = {e}._modules['0'](x)", "r = {e}.train()(x)", "r = {e}.eval()(x)", "r = {e}.requires_grad_(True)(x)", "r = {e}[0].extra_repr() == 'a'", "r = float(len(str({e})))"),
    "iterator": ("r = next({e})", "r = next({e}, 9.0)", "for v in {e}:\n    r = v\n    break", "r = sum(itertools.islice({e}, 2))", "a, b = itertools.islice({e}, 2)\nr = a - b", "r = next(zip({e}, [1]))[0]", "r = next(v for v in {e} if v > 2)", "r = float(2.0 in itertools.islice({e}, 3))", "r = next(map(float, {e}))", "r = next(enumerate({e}))[1]", "r = float(hasattr({e}, '__next__'))", "r = float(operator.length_hint({e}))", "r = {e}.__next__()", "r = next(iter({e}))"),
    "reference": ("r = {e}().a if hasattr({e}(), 'a') else 9.0", "r = float({e}() is None)", "r = float({e}() is qw)", "r = {e}().k", "v = {e}()\nr = v.m() if isinstance(v, Q) else 1.0"),
    "random": ("r = {e}.random()", "r = float({e}.normal() if hasattr({e}, 'normal') else {e}.gauss(0, 1))", "r = {e}.choice([1.0, 2.0, 3.0, 4.0, 5.0])", "a = [1.0, 2.0, 3.0, 4.0]\n{e}.shuffle(a)\nr = a[0]", "r = {e}.uniform(0, 1)", "r = 2.0 if {e}.random() < 0.5 else 3.0", "g = {e}.random\nr = g()"),
    "generator": ("r = torch.rand(3, generator={e})", "r = torch.randn(3, generator={e}).sum()", "r = float({e}.initial_seed())", "r = torch.bernoulli(x * 0 + 0.5, generator={e})", "r = torch.randperm(5, generator={e})[0]"),
    "lock": ("with {e}:\n    r = 2.0", "r = float({e}.locked())"),
    "pattern": ("r = float({e}.match('aab') is not None)", "r = float(len({e}.sub('x', 'aabb')))", "r = float(len({e}.pattern))", "r = float(len({e}.findall('abab')))"),
}  # fmt: skip

# Changes that the function makes and undoes: nothing is left, but what it reads between is changed.
for _kind, _more in {
    "numbers": (
        "{e}.append(5.0)\nr = sum({e})\n{e}.pop()", "{e}[0], o = 7.0, {e}[0]\nr = sum({e}) * len({e})\n{e}[0] = o",
        "{e}.append(5.0)\nr = {e}[-1] + {e}[0]\ndel {e}[-1]", "a = {e}\na.reverse()\nr = {e}[0]\n{e}.reverse()", "a = {e}\na += [5.0]\nr = float(len({e}))\na.pop()",
        "v = {e}.pop()\nr = float(len({e}))\n{e}.append(v)", "{e}.insert(0, 9.0)\nr = max({e}) + {e}[1]\n{e}.pop(0)", "i = iter({e})\nnext(i)\nr = sum(i) + float(len({e}))",
        "r = 0.0\nfor n, v in enumerate({e}):\n    if n > 5: break\n    if len({e}) < 4: {e}.append(v + 1.0)\n    r += v\ndel {e}[2:]", "{e}.append(5.0)\nr = float(5.0 in {e}) + {e}.index(5.0)\n{e}.remove(5.0)", "{e}.sort(reverse=True)\nr = {e}[0]\n{e}.sort()",
    ),
    "nested": ("{e}[0].append(5.0)\nr = sum(sum(v) for v in {e})\n{e}[0].pop()", "a, b = {e}\na.append(b)\nr = float(len({e}[0])) + {e}[0][-1][0]\na.pop()", "{e}.append({e}[0])\nr = float({e}[-1] is {e}[0]) + {e}[-1][0]\n{e}.pop()", "{e}[0].append(5.0)\nr = float([2.0, 5.0] in {e})\n{e}[0].pop()"),
    "mapping": (
        "{e}['t'] = 5.0\nr = sum({e}.values())\ndel {e}['t']", "{e}['t'] = 5.0\nr = float(len({e})) + {e}['t']\n{e}.pop('t')", "o = {e}['a']\n{e}['a'] = 9.0\nr = {e}['a'] + float(list({e})[0] == 'a')\n{e}['a'] = o", "o = {e}.pop('a')\nr = float('a' in {e}) + {e}.get('a', 4.0)\n{e}['a'] = o", "r = {e}.setdefault('a', 9.0)",
        "{e}.update(t=5.0)\nr = sum(v for k, v in {e}.items() if k > 'a')\ndel {e}['t']", "a = {e}.keys()\n{e}['t'] = 5.0\nr = float(len(a)) + float('t' in a)\ndel {e}['t']", "o = dict({e})\n{e}.clear()\nr = float(bool({e}))\n{e}.update(o)", "k, v = {e}.popitem()\nr = v + float(k in {e})\n{e}[k] = v",
    ),
    "object": (
        "o = {e}.a\n{e}.a = 9.0\nr = {e}.m()\n{e}.a = o", "{e}.t = 5.0\nr = {e}.t + float(hasattr({e}, 't'))\ndel {e}.t", "o = {e}.a\ndel {e}.a\nr = float(hasattr({e}, 'a'))\n{e}.a = o", "{e}.a = {e}.a\nr = {e}.a", "o = {e}.__dict__['a']\n{e}.__dict__['a'] = 9.0\nr = {e}.a\n{e}.a = o", "setattr({e}, 'a', {e}.a + 1.0)\nr = {e}.a\n{e}.a -= 1.0", "K = type({e})\nK.z = 5.0\nr = {e}.z\ndel K.z", "{e}.a = 2.0\nr = {e}.a * 2",
    ),
    "set": ("{e}.add(7.0)\nr = sum({e})\n{e}.discard(7.0)", "{e}.remove(2.0)\nr = float(2.0 in {e})\n{e}.add(2.0)"),
    "tensor": ("{e}.tag = 5.0\nr = {e}.tag\ndel {e}.tag", "o = {e}.grad\n{e}.grad = torch.ones(3)\nr = {e}.grad\n{e}.grad = o", "{e}.add_(1.0)\nr = {e} * 2\n{e}.sub_(1.0)", "{e}.requires_grad_(False)\nr = {e} * 2", "a = {e}.detach()\na.mul_(1.0)\nr = a", "{e}.zero_()\nr = {e}", "{e}.data = {e}.data * 1\nr = {e}", "r = {e}.detach().requires_grad_()"),
    "array": ("{e}[0] += 1\nr = float({e}[0])\n{e}[0] -= 1", "a = {e}\na *= 2\nr = float({e}.sum())\na /= 2", "a = {e}.copy()\na[0] = 9\nr = float(a[0] + {e}[0])"),
    "net": ("{e}.eval()\nr = {e}(x)\n{e}.train()", "w = {e}[0].weight\nwith torch.no_grad():\n    w.mul_(1.0)\nr = {e}(x)", "{e}.zero_grad()\nr = {e}(x)", "h = {e}[0].register_forward_hook(lambda m, i, o: o * 2)\nr = {e}(x)\nh.remove()", "for p in {e}.parameters():\n    p.requires_grad_(False)\nr = {e}(x)", "{e}.flag = True\nr = {e}(x)\ndel {e}.flag"),
}.items():  # fmt: skip
    READINGS[_kind] += _more

# How the reading is reached: a text around the statements `{body}` that set `r`; `r` afterwards.
WAYS = {
    "plainly": "{body}",
    "in a nested function": "def inner(x=x):\n{indented}    return r\nr = inner()",
    "in a closure": "def inner():\n    nonlocal x\n{indented}    return r\nr = inner()",
    "in a try with any error": "try:\n{indented}except Exception:\n    r = 0.5",
    "in a try": "try:\n{indented}except ZeroDivisionError:\n    r = 0.5",
    "in a finally": "try:\n    pass\nfinally:\n{indented}",
    "in a with": "with torch.no_grad():\n{indented}",
    "in a with of the user's": "with Manager():\n{indented}",
    "in a with by a generator": "with managed() as _:\n{indented}",
    "in a loop": "for _ in range(2):\n{indented}",
    "in a while": "k = 0\nwhile k < 1:\n    k += 1\n{indented}",
    "in a generator": "def walk():\n{indented}    yield r\nr = next(walk())",
    "in a comprehension": "def inner():\n{indented}    return r\nr = [inner() for _ in range(1)][0]",
    "in a method": "class K:\n    def m(self, x):\n{twice}        return r\nr = K().m(x)",
    "in a decorated function": "@plain_decorator\ndef inner(x=x):\n{indented}    return r\nr = inner()",
    "twice": "{body}\nfirst = r\n{body}\nr = first + r if type(first) is type(r) and not isinstance(r, bool) else r",
    "after a decision": "if x.shape[0] > 2:\n{indented}else:\n    r = 1.0",
    "in an else": "try:\n    k = 1\nexcept ValueError:\n    r = 1.0\nelse:\n{indented}",
    "after raising": "try:\n    raise KeyError('k')\nexcept KeyError as error:\n{indented}",
    "in a map": "def inner(_):\n{indented}    return r\nr = list(map(inner, [0]))[0]",
    "in a function without gradients": "@torch.no_grad()\ndef inner(x=x):\n{indented}    return r\nr = inner()",
    # What runs when the backward pass arrives.
    "in a hook": "def hook(g):\n{indented}    return g * r if isinstance(r, float | int) else g\nif x.requires_grad:\n    x = x * 1.0\n    x.register_hook(hook)\nr = 2.0",
    "in a hook that keeps": "def hook(g):\n{indented}    LOG.append(r)\nif x.requires_grad:\n    x = x * 1.0\n    x.register_hook(hook)\nr = 2.0",
    "in a backward": "class Doubled(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x):\n        return x * 2\n    @staticmethod\n    def backward(ctx, g, x=x):\n{twice}        return g * r if isinstance(r, float | int) else g\nx = Doubled.apply(x)\nr = 2.0",
    "in a checkpoint": "def inner(x):\n{indented}    return x * r if isinstance(r, float | int | torch.Tensor) else x\nx = torch.utils.checkpoint.checkpoint(inner, x, use_reentrant=False)\nr = 2.0",
    "under autocast off": "with torch.autocast('cpu', enabled=False):\n{indented}",
}  # fmt: skip

# What the function returns, of `x` and `r`.
RESULTS = (
    "return x * r", "return x * r", "return x * r", "return x * r", "return x + r, r", "return [x * r, x]", "return dict(a=x * r, b=r)", "return Out(x * r, r)", "return Plain(x * r, r)", "return types.SimpleNamespace(a=x * r)", "return collections.OrderedDict(a=x * r, b=2)", "return Ordered(a=x * r, b=r)",
    "a = x * r\nreturn a, a", "a = [x * r]\nreturn a, a", "return {{1.0, 2.0}}, x * r", "return (lambda: x * r)", "return functools.partial(operator.mul, x, r)", "return (x * r).detach().numpy()", "return np.ones(2) * 2, x * r", "return r", "return (x * r).sum().item()", "return x, x * r", "return Pair(x * r, r)", "return Slots(x * r)", "return Frozen(x * r)", "return Listed([x * r, r])", "return bytearray(b'ab'), x * r", "return collections.deque([x * r])", "return collections.defaultdict(list, a=[x * r])", "return iter([x * r])", "return (v for v in [x * r])", "return None", "return x * r, G9", "return G9", "return (x * r).requires_grad, x * r", "return range(3), x * r", "return torch.Size([2]), x * r", "return (x * r)[0:2]", "return x[0:2], x * r", "return slice(0, 2), x * r", "return type(r), x * r", "return f'{{r}}', x * r", "return Out, x * r", "return (x * r).view(-1), [[[x * r]]]", "o = Plain(x * r, r)\no.me = o\nreturn o", "return Exception(r), x * r", "return {{'a': [x * r, (x, r)], 'b': Out(x, [r])}}", "return map(float, [1.0]), x * r", "return frozenset([1]), x * r", "return {{0: x * r, 'a': 1, None: 2}}", "return (x * r).shape, x * r", "return memoryview(b'ab'), x * r", "return (x * r).stride(), (x * r).dtype", "return x.view(1, -1), x * r", "return OutSub(x * r, r, x)", "return collections.Counter('aab'), x * r", "return array.array('d', [1.0]), x * r", "return nn.Parameter(x.detach() * r)", "return np.float32(2.0), x * r",
    "return x * r, x * r + 1, x", "return [G9, x * r]", "return W9, x * r", "return W9", "return (W9, W9 * r)", "return W9[:2], x * r", "return [x * r] * 2", "return Plain(G9, x * r)", "return E9.A, x * r", "return Plain.__init__, x * r", "return Plain(x * r, r).method", "raise ValueError(str(r))", "assert r is None, 'no'\nreturn x",
)  # fmt: skip

# What the function does besides; before it returns.
EFFECTS = (
    "", "", "", "", "", "", "", "print('called', len(LOG))", "LOG.append(1.0)", "LOG.append(x * 2)", "LOG.append(r)", "COUNTS['calls'] += 1", "COUNTS.setdefault('k', 2.0)", "Plain.count += 1", "global TOTAL\nTOTAL += 1", "f.calls = getattr(f, 'calls', 0) + 1", "STATE.n += 1", "STATE.last = x * 2", "warnings.warn('here')", "FILE.write('a')", "QUEUE.append(1)", "SEEN.add(len(SEEN))", "W9.add_(1)", "W9[0] = 5.0", "next(ITERATOR)", "random.random()", "torch.rand(2)", "x = x + torch.rand(3)", "x = x + random.random()", "x = x + float(np.random.rand())", "LOG.clear()", "LOG += [1.0]", "COUNTS.pop('calls', None)", "del STATE.n\nSTATE.n = 3", "ARRAY[0] += 1", "BYTES.append(1)", "W9.tag = 2.0", "P9.grad = None", "P9.grad = x.detach() * 2", "logging.getLogger('stress').warning('w')", "torch.manual_seed(3)\nx = x + torch.rand(3)", "LOG.append(LOG)", "STATE.inner['k'] = x + 1", "setattr(STATE, 'q', 1.0)", "sys.stdout.write('w')", "TABLE[len(TABLE)] = x", "object.__setattr__(STATE, 'n', STATE.n + 1)", "W9.requires_grad_(not W9.requires_grad)", "P9.data.add_(1)", "with torch.no_grad():\n    P9.add_(1)", "(x * P9).sum().backward()", "LOG.append(len(LOG))\nx = x * len(LOG)", "COUNTS['calls'] = COUNTS['calls'] + 1\nx = x * COUNTS['calls']", "STATE.n = STATE.n + 1\nx = x + STATE.n", "CONTEXT.set(CONTEXT.get() + 1)", "LOCAL.n += 1", "x = x + cached(len(LOG))", "x = x + cached_tensor(3)", "x = x + bound_counter()", "x = x * closure_counter()", "os.environ['STRESS_PLACE'] = 'b'", "LOG.insert(0, 0.5)\nLOG.sort()", "x.tag = 3.0", "x = x.clone()\nx.add_(1)", "x = x + float(os.environ.get('STRESS_PLACE', '1'))", "x = x * int(torch.are_deterministic_algorithms_enabled() + 1)", "torch.set_default_dtype(torch.get_default_dtype())", "x = x + torch.get_num_threads()", "x = x * sys.getrecursionlimit()", "x = x + (time.perf_counter() > 0)", "x = x + len(sys.argv) * 0", "x = x * (threading.current_thread() is threading.main_thread())", "x = x + cached_method.m(1)", "x.add_(1)", "x.mul_(r)" , "x = x + STATE.prop", "STATE.prop = 4.0", "Plain.table['k'] = x * 3", "STATE += 1", "LOG[:] = [x.sum()]", "TABLE |= {{'z': x}}", "x = x * (yielded := next(GEN))", "COUNTER.update('ab')", "PAIR[0].append(2)", "sys.stdout.flush()", "LOG.extend(v for v in [1.0, x])", "STATE[0] = x", "x = x + STATE[0]",
)  # fmt: skip

# Statements that no program does: Python does them between two parts.
STOPS = (
    "print('stop')", "x = x * x.sum().item()", "x = x + float(x.detach().mean())", "x = x + x[x > 1.5].sum()", "x = x * len((x > 1.5).nonzero())",
    "k = int(x.detach().sum()) % 3\nx = x + x[k]", "x = x * 2 if x.sum().item() > 3 else x * 3", "x = x + time.perf_counter() * 0", "x = x * random.random()",
    "for k in range(2):\n    x = x + 1\n    print(k)", "kept = [x + 1]\nprint(len(kept))\nkept.append(x * 2)\nx = kept[1] + kept[0]", "with torch.no_grad():\n    k = (x * 2).max().item()\nx = x * k",
    "try:\n    int('a')\nexcept ValueError:\n    x = x + 1\nprint('caught')", "try:\n    open('/nowhere')\nexcept OSError as error:\n    x = x + len(type(error).__name__)\nfinally:\n    x = x * 2",
    "def inner(y):\n    print('inner')\n    return y * 2\nx = inner(x) + inner(x + 1)", "pairs = {{'a': x, 'b': [x * 2]}}\nprint(sorted(pairs))\npairs['b'].append(x)\nx = pairs['a'] + sum(pairs['b'])",
    "x = x[torch.tensor([2, 1, 0])[0]] + x", "STATE.n += 1\nprint(STATE.n)\nSTATE.n += 1", "LOG.append(x * 2)\nprint(len(LOG))\nLOG.append(1.0)", "k = 0\ndef count():\n    nonlocal k\n    k += 1\n    return k\ncount()\nprint(k)\nx = x * count()",
    "for k, v in enumerate([1.0, 2.0]):\n    x = x + v\n    if x.sum().item() > 1e6: break\n    print(k)", "x = sum([x * k for k in (1, 2) if print(k) is None])", "print(*[1, 2], sep='-', **dict(end='.'))", "if (k := x.sum().item()) > 3:\n    x = x / k",
    "match x.ndim, x.sum().item() > 3:\n    case 1, True: x = x + 1\n    case _: x = x + 2", "x = x + torch.rand(3)\nprint('drawn')\nx = x + torch.rand(3)", "torch.manual_seed(5)\nx = x + torch.rand(3)", "random.seed(3)\nx = x + random.random() + float(np.random.rand())",
)  # fmt: skip

WORLD = """
@dataclasses.dataclass
class Out:
    a: object
    b: object
@dataclasses.dataclass
class OutSub(Out):
    c: object = None
@dataclasses.dataclass(frozen=True)
class Frozen:
    a: object
class Plain:
    count = 0
    table = {}
    def __init__(self, a, b): self.a, self.b = a, b
    def method(self): return self.a
class Slots:
    __slots__ = ('a',)
    def __init__(self, a): self.a = a
class Ordered(collections.OrderedDict): pass
class Listed(list): pass
class E9(enum.Enum):
    A = 1
Pair = collections.namedtuple('Pair', 'a b')
class State:
    n, last, _p, items = 0, None, 1.0, {0: 2.0}
    def __init__(self): self.inner = {}
    @property
    def prop(self): return self._p
    @prop.setter
    def prop(self, v): self._p = v
    def __iadd__(self, o):
        self.n += o
        return self
    def __getitem__(self, n): return self.items[n]
    def __setitem__(self, n, v): self.items = {n: v}
class Cached:
    k = 0
    @functools.lru_cache
    def m(self, n):
        Cached.k += 1
        return Cached.k
class Manager:
    entered = 0
    def __enter__(self): return self
    def __exit__(self, kind, error, trace): return False
import contextlib
@contextlib.contextmanager
def managed():
    yield 1.0
def plain_decorator(g):
    @functools.wraps(g)
    def inner(*a, **k): return g(*a, **k)
    return inner
def copy_of(v):
    import copy
    return copy.copy(v)
@functools.lru_cache
def cached(n): return n
@functools.lru_cache
def cached_tensor(n): return torch.arange(float(n))
def counters():
    n = 0
    def up():
        nonlocal n
        n += 1
        return n
    return up
bound_counter, closure_counter = itertools.count().__next__, counters()
LOG, COUNTS, TOTAL, STATE, FILE, QUEUE, SEEN = [], dict(calls=0), 0, State(), io.StringIO(), collections.deque(maxlen=3), set()
G9, W9, P9, ITERATOR, ARRAY, BYTES, TABLE = [1.0], torch.ones(3), nn.Parameter(torch.ones(3)), iter(range(99)), np.zeros(2), bytearray(), {}
CONTEXT, LOCAL, COUNTER, PAIR, GEN, cached_method = contextvars.ContextVar('n'), threading.local(), collections.Counter(), ([], 1), (k for k in range(1, 99)), Cached()
CONTEXT.set(0)
LOCAL.n = 0
STATE_READ = 0
"""
