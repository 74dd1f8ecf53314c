"""Programs that returned stale or wrong results: each is what eager is, call by call."""

import collections
import dataclasses
import functools
import gc
import io
import itertools
import random
import sys
import threading
import types
import weakref

import numpy as np
import pytest

import pullback as torch
from pullback import nn
from pullback.compiled.capture.reasons import CannotCapture
from tests.compiled.closeness import close

# Results -----------------------------------------------------------------------------------


@dataclasses.dataclass
class Out:
    a: object
    b: object = None


class Plain:
    def __init__(self, a):
        self.a = a


class Ordered(collections.OrderedDict):
    pass


@pytest.mark.parametrize(
    ("make", "part"),
    [
        (Out, lambda out: out.a),
        (Plain, lambda out: out.a),
        (lambda a: types.SimpleNamespace(a=a), lambda out: out.a),
        (lambda a: Ordered(a=a), lambda out: out["a"]),
        (lambda a: collections.OrderedDict(a=a), lambda out: out["a"]),
        (lambda a: [Out(a, [a])], lambda out: out[0].b[0]),
        (lambda a: {a}, lambda out: next(iter(out))),
        (lambda a: lambda: a, lambda out: out()),
        (lambda a: functools.partial(torch.add, a, 0), lambda out: out()),
        (lambda a: torch.distributions.Normal(a, 1.0), lambda out: out.loc),
        (lambda a: a.detach().numpy(), torch.tensor),
    ],
)
def test_p1_tensors_in_a_result_have_data_and_the_object_is_a_new_one(compiled, make, part):
    f = compiled(lambda x: make(x + 1))
    first = f(torch.ones(2))
    results = [first, *(f(torch.full((2,), float(n))) for n in range(3))]
    for out, expected in zip(results, (2.0, 1.0, 2.0, 3.0), strict=True):
        close(part(out) * 1.0, torch.full((2,), expected))
    assert len({id(out) for out in results}) == 4


def test_p1_a_tensor_that_a_result_has_twice_is_one(compiled):
    def f(x):
        y = x * 2
        return Out(y, y), [y], y

    g = compiled(f)
    for _ in range(3):
        out, listed, y = g(torch.ones(2))
        assert out.a is out.b is listed[0] is y


# Caches -------------------------------------------------------------------------------


def test_p2_s1_a_cache_that_a_compiled_call_fills_holds_true_tensors(compiled):
    @functools.lru_cache
    def mask(n):
        return torch.tril(torch.ones(n, n))

    f = compiled(lambda x: x @ mask(x.shape[0]))
    for _ in range(3):
        close(f(torch.ones(3)), torch.tensor([3.0, 2.0, 1.0]))
    close(torch.ones(3) @ mask(3), torch.tensor([3.0, 2.0, 1.0]))
    close(mask(3) + 0, torch.tril(torch.ones(3, 3)))


@pytest.mark.parametrize("place", ["class", "slot", "function", "dict", "deque", "closure"])
def test_s1_what_a_compiled_call_stores_anywhere_has_data(compiled, place):
    class Holder:
        kept = None

    class Slot:
        __slots__ = ("kept",)

    slot, table, queue, cell = Slot(), {}, collections.deque(), None

    def function():
        return function.kept

    def f(x):
        nonlocal cell
        y = x + 1
        if place == "class":
            Holder.kept = y
        elif place == "slot":
            slot.kept = y
        elif place == "function":
            function.kept = y
        elif place == "dict":
            table["kept"] = y
        elif place == "deque":
            queue.append(y)
        else:
            cell = y
        return y * 2

    g = compiled(f)
    for n in range(4):
        close(g(torch.full((2,), float(n))), torch.full((2,), 2.0 * n + 2))
        found = {
            "class": lambda: Holder.kept, "slot": lambda: slot.kept, "closure": lambda: cell,
            "function": lambda: function.kept, "dict": lambda: table["kept"],
            "deque": lambda: queue[-1],
        }[place]()  # fmt: skip
        close(found + 0, torch.full((2,), n + 1.0))


# Random numbers, iterators -------------------------------------------------------


@pytest.mark.parametrize(
    "draw",
    [
        random.random,
        lambda: float(np.random.rand()),  # noqa: NPY002 (as users draw)
        np.random.default_rng(0).random,
        random.Random(3).random,
        lambda: random.choice([1.0, 2.0, 3.0, 4.0]) + random.gauss(0, 1),
    ],
)
def test_p3_random_numbers_of_python_and_numpy_are_drawn_at_each_call(compiled, draw):
    f = compiled(lambda x: x * 0 + draw())
    seen = [f(torch.ones(1)).item() for _ in range(6)]
    assert len(set(seen)) == 6


def test_p3_python_draws_the_numbers_that_it_draws_eagerly(compiled):
    def f(x):
        for _ in range(3):
            if random.random() < 0.5:
                x = x + random.random()
        return x

    g = compiled(f)
    random.seed(4)
    expected = [f(torch.zeros(1)) for _ in range(20)]
    random.seed(4)
    for one in expected:
        close(g(torch.zeros(1)), one)


@pytest.mark.parametrize(
    "make", [lambda: iter(range(9)), itertools.count, lambda: (n for n in range(9))]
)
def test_p4_iterators_from_outside_advance(compiled, make):
    walk = make()
    f = compiled(lambda x: x * 0 + next(walk))
    assert [f(torch.zeros(1)).item() for _ in range(4)] == [0, 1, 2, 3]


def test_p10_a_seed_that_a_function_sets_is_set_at_each_call(compiled):
    def f():
        torch.manual_seed(3)
        return torch.randint(0, 50, (5,))

    g = compiled(f)
    first = g()
    for _ in range(3):
        close(g(), first)


def test_a_generator_from_outside_is_as_far_as_eagers(compiled):
    generators = [torch.Generator().manual_seed(3) for _ in range(2)]
    f = compiled(lambda x: x + torch.rand(3, generator=generators[0]))
    for _ in range(4):
        close(f(torch.zeros(3)), torch.rand(3, generator=generators[1]))


# What is given -----------------------------------------------------------------------------------


def test_p5_a_list_or_dict_that_is_given_is_changed_at_each_call(compiled):
    def f(x, items, table):
        items.append(x + 1)
        table["k"] = x * 2
        return x * 2

    g = compiled(f)
    for n in range(4):
        items, table = [], {}
        g(torch.full((2,), float(n)), items, table)
        close(items[0] + 0, torch.full((2,), n + 1.0))
        close(table["k"] + 0, torch.full((2,), n * 2.0))
        assert len(items) == 1


@pytest.mark.parametrize("given", [True, False])
def test_p6_whether_a_gradient_is_there_decides(compiled, given):
    p = torch.ones(2, requires_grad=True)

    def f(q):
        one = q if given else p
        return one.grad * 2 if one.grad is not None else one * 0 - 1

    g = compiled(f)
    for _ in range(3):
        close(g(p), torch.full((2,), -1.0))
    p.grad = torch.full((2,), 3.0)
    close(g(p), torch.full((2,), 6.0))
    p.grad = None
    close(g(p), torch.full((2,), -1.0))


def test_p7_attributes_of_tensors_are_seen(compiled):
    f = compiled(lambda x: x * getattr(x, "tag", 2.0) + (1.0 if hasattr(x, "mark") else 0.0))
    x = torch.ones(2)
    close(f(x), x * 2)
    x.tag = 1.0
    close(f(x), x)
    x.tag = 4.0
    close(f(x), x * 4)
    x.mark = True
    close(f(x), x * 5)
    del x.tag
    close(f(x), x * 3)


def test_p8_the_order_of_a_dict_of_tensors_and_of_submodules_is_seen(compiled):
    table = {"x": torch.ones(1), "y": torch.full((1,), 10.0)}
    f = compiled(lambda z: sum(v * (k + 1) for k, v in enumerate(table.values())) + z)
    for _ in range(3):
        assert f(torch.zeros(1)).item() == 21
    table["x"] = table.pop("x")
    assert f(torch.zeros(1)).item() == 12
    net = nn.Sequential(nn.Linear(2, 2), nn.ReLU())
    g = compiled(lambda x: net(x))
    x = torch.randn(3, 2)
    for _ in range(3):
        close(g(x), net(x))
    net._modules["0"] = net._modules.pop("0")
    close(g(x), net(x))


# State -------------------------------------------------------------------------


def test_p9_a_class_attribute_that_a_function_writes_counts(compiled):
    class T:
        n = 0

    def f(x):
        T.n += 1
        return x * T.n

    g = compiled(f)
    assert [g(torch.ones(1)).item() for _ in range(4)] == [1, 2, 3, 4]
    assert T.n == 4


def test_p11_defaults_and_code_of_a_called_function_are_seen(compiled):
    def h(x, a=2.0, *, b=1.0):
        return x * a + b

    def other(x, a=2.0, *, b=1.0):
        return x - a - b

    f = compiled(lambda x: h(x))
    x = torch.ones(2)
    close(f(x), x * 3)
    close(f(x), x * 3)
    h.__defaults__ = (9.0,)
    close(f(x), x * 10)
    h.__kwdefaults__ = {"b": 5.0}
    close(f(x), x * 14)
    h.__code__ = other.__code__
    close(f(x), x * -13)


def test_p12_settings_versions_and_texts_are_those_of_the_call(compiled):
    x = torch.ones(2)
    f = compiled(lambda x: x * (1 + torch.are_deterministic_algorithms_enabled()))
    close(f(x), x)
    close(f(x), x)
    torch.use_deterministic_algorithms(True)
    try:
        close(f(x), x * 2)
    finally:
        torch.use_deterministic_algorithms(False)
    close(f(x), x)
    threads = torch.get_num_threads()
    g = compiled(lambda x: x * torch.get_num_threads())
    close(g(x), x * threads)
    torch.set_num_threads(threads + 1)
    try:
        close(g(x), x * (threads + 1))
    finally:
        torch.set_num_threads(threads)
    v = compiled(lambda x: x * 0 + x._version)
    y = torch.ones(2)
    for n in range(3):
        close(v(y), torch.full((2,), float(n)))
        y.mul_(1)
    s = compiled(lambda x: x * len(str(x)))
    for z in (torch.ones(2), torch.full((2,), 100.5)):
        close(s(z), z * len(str(z)))


# NumPy -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "read",
    [
        lambda x: float(np.asarray(x)[1]),
        lambda x: float(np.array(x)[1]),
        lambda x: float(x.numpy()[1]),
        lambda x: float(np.sum(x.numpy())),
        lambda x: memoryview(np.asarray(x))[1],
        lambda x: float(len(repr(x))),
        lambda x: float(len(f"{x}")),
        lambda x: np.sqrt(x.numpy())[1],
        lambda x: x.tolist()[1],
    ],
)
def test_s2_what_numpy_and_texts_see_of_a_tensor_are_its_values(compiled, read):
    def f(x):
        return x * read(x)

    g = compiled(f)
    for x in (torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1.0, 200.5, 3.0])):
        for _ in range(3):
            close(g(x), f(x))


# Threads -----------------------------------------------------------------------------------


def test_s3_a_thread_that_trains_beside_captures_loses_no_update():
    """5,453 of 184,939 updates were lost, and the thread saw errors of captures."""
    weights = [nn.Parameter(torch.zeros(4)) for _ in range(2)]
    made, errors, stop = 0, [], threading.Event()

    def train():
        nonlocal made
        try:
            while not stop.is_set():
                with torch.no_grad():
                    for w in weights:
                        w.add_(1)
                made += 1
        except Exception as error:
            errors.append(error)

    def compile_often():
        for _ in range(15):
            f = torch.compile(
                lambda x: sum((x * w).exp().sin().sum() for w in weights), backend="python"
            )
            f(torch.zeros(4))

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    thread = threading.Thread(target=train)
    thread.start()
    try:
        compile_often()
    finally:
        stop.set()
        thread.join()
        sys.setswitchinterval(interval)
    assert not errors
    assert made > 0
    for w in weights:
        assert w.tolist() == [float(made)] * 4


def test_s3_threads_that_run_a_net_beside_captures_see_its_numbers():
    net = nn.Sequential(*[layer for _ in range(4) for layer in (nn.Linear(4, 4), nn.ReLU())])
    x = torch.randn(3, 4)
    with torch.no_grad():
        expected = net(x).tolist()
    wrong, stop = [], threading.Event()

    def run():
        try:
            with torch.no_grad():
                while not stop.is_set():
                    if net(x).tolist() != expected:
                        wrong.append("other numbers")
        except Exception as error:
            wrong.append(error)

    threads = [threading.Thread(target=run) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        for _ in range(6):
            torch.compile(lambda x: net(x).sum(), backend="python")(x)
    finally:
        stop.set()
        for thread in threads:
            thread.join()
    assert not wrong


# Kinds of places that no table of stress/places.py has --------------------------------------------


def test_s4_effects_happen_at_each_call(compiled, capsys):
    file = io.StringIO()

    def f(x):
        print("called")
        file.write("w")
        return x * 2

    g = compiled(f)
    for _ in range(4):
        g(torch.ones(1))
    assert capsys.readouterr().out == "called\n" * 4
    assert file.getvalue() == "wwww"


@pytest.mark.parametrize(
    "read",
    [
        lambda n: n.bit_length(),
        lambda n: len(f"{n:b}"),
        lambda n: len(repr(n)),
        lambda n: round(n / 3),
        lambda n: len("x" * n),
        lambda n: sum(range(n)),
        lambda n: divmod(n, 4)[0],
        lambda n: hash(n) % 3,
        lambda n: n.__floordiv__(3),
        lambda n: int(str(n)[-1]),
        lambda n: [5, 6, 7][n % 3],
        lambda n: {2: 3}.get(n, 4),
        lambda n: max(n, 7),
        lambda n: n in (3, 10, 17),
    ],
)
def test_s4_what_python_computes_of_a_size_is_right_at_every_size(compiled, read):
    f = compiled(lambda x: x * read(x.shape[0]))
    for n in (2, 3, 5, 9, 10, 17, 31, 3):
        close(f(torch.ones(n)), torch.ones(n) * read(n))


def test_s4_minus_zero_is_no_zero(compiled):
    f = compiled(lambda x, a: x / a)
    for a in (0.0, 0.0, -0.0, 0.0, -0.0):
        close(f(torch.ones(1), a), torch.ones(1) / a)


def test_s4_one_tensor_given_twice_has_both_gradients(compiled):
    def f(x, y):
        (x * y.detach() + y * 3).sum().backward()
        return x.grad * 1

    g = compiled(f)
    for same in (False, False, True, True, False):
        x = torch.ones(2, requires_grad=True)
        y = x if same else torch.ones(2, requires_grad=True)
        x2 = torch.ones(2, requires_grad=True)
        y2 = x2 if same else torch.ones(2, requires_grad=True)
        close(g(x, y), f(x2, y2))
        close(x.grad, x2.grad)


def test_s4_hooks_of_all_modules_are_seen(compiled):
    net = nn.Linear(2, 2)
    f = compiled(lambda x: net(x))
    x = torch.ones(1, 2)
    plain = net(x).detach()
    for _ in range(3):
        close(f(x), plain)
    handle = nn.modules.module.register_module_forward_hook(lambda module, args, out: out * 2)
    try:
        close(f(x), plain * 2)
    finally:
        handle.remove()
    close(f(x), plain)


def test_an_array_whose_memory_a_tensor_would_share_is_not_copied(compiled):
    array = np.ones(2, np.float32)
    with pytest.raises(CannotCapture, match="memory"):
        compiled(lambda x: torch.from_numpy(array) * x, fullgraph=True)(torch.ones(2))
    shared = compiled(lambda: torch.from_numpy(array))
    for _ in range(3):
        shared().add_(1)
    assert array.tolist() == [4.0, 4.0]


def test_the_shape_of_a_tensor_that_is_asked_and_not_read_is_seen(compiled):
    held = torch.ones(3)
    f = compiled(lambda x: x * held.nbytes)
    for _ in range(4):
        close(f(torch.ones(2)), torch.full((2,), 12.0))
    held.data = torch.ones(1)
    close(f(torch.ones(2)), torch.full((2,), 4.0))


def test_a_mode_that_a_function_sets_again_is_set_where_it_was_left(compiled):
    net = nn.Linear(2, 2).eval()
    f = compiled(lambda x: net.eval()(x))
    for _ in range(3):
        f(torch.ones(1, 2))
        assert not net.training
    net.train()
    f(torch.ones(1, 2))
    assert not net.training


def test_what_a_function_gives_a_leaf_of_its_own_requires_grad(compiled):
    f = compiled(lambda x: x * nn.Parameter(torch.ones(2)))
    for _ in range(3):
        assert f(torch.ones(2)).requires_grad


def test_an_option_that_is_true_is_not_one(compiled):
    f = compiled(lambda x, a: torch.add(x, x, alpha=a))
    x = torch.ones(2)
    close(f(x, 1), x * 2)
    with pytest.raises(RuntimeError, match="alpha"):
        f(x, True)


def test_a_capture_that_fails_keeps_nothing_alive(compiled):
    holder = Plain(2.0)
    seen = weakref.ref(holder)
    f = compiled(lambda x: x * seen().a * float(print("") is None))
    for _ in range(3):
        f(torch.ones(1))
    gc.disable()
    try:
        del holder
        assert seen() is None
    finally:
        gc.enable()


def test_a_leaf_of_the_functions_own_gets_the_gradient_of_a_result_beside_it(compiled):
    def f(x):
        p = torch.ones(2, requires_grad=True)
        return p, x * p

    g = compiled(f)
    for _ in range(3):
        p, y = g(torch.full((2,), 3.0, requires_grad=True))
        y.sum().backward()
        close(p.grad, torch.full((2,), 3.0))


def _tagged(x):
    y = x * 2
    y.tag = 3
    return y


def _tagged_by_tensors(x):
    y = x * 2
    y.tags = [x + 1, y]
    return y, y.sum()


def _tagged_across_a_break(x):
    y = x * 2
    y.tag = 1
    scale = y.sum().item()
    y.tag += 1
    return y * scale, y


def _tag_deleted(x):
    y = x * 2
    y.tag = 1
    del y.tag
    return y


def _tagged_view(x):
    y = x.view(3)
    y.tag = x.sum()
    return [y, y]


def _attributes(value):
    if isinstance(value, torch.Tensor):
        named = {name: one for name, one in vars(value).items() if one is not value}
        return value.tolist(), {name: _attributes(one) for name, one in named.items()}
    if isinstance(value, tuple | list):
        return [_attributes(one) if not hasattr(one, "tags") else one.tolist() for one in value]
    return value


@pytest.mark.parametrize(
    "function", [_tagged, _tagged_by_tensors, _tagged_across_a_break, _tag_deleted, _tagged_view]
)
def test_attributes_of_tensors_that_the_function_made_are_there(function):
    f = torch.compile(function)
    for turn in range(9):
        x = torch.full((3,), float(turn))
        assert _attributes(f(x)) == _attributes(function(x))
