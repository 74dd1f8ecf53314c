"""Programs on disk: one that is loaded is the one that would be made, and no other's."""

import json
import os
import random
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("llvmlite")
import pullback as torch
from pullback.compiled.capture.steps import Value
from pullback.compiled.llvm import described, program
from pullback.compiled.llvm.program import LlvmProgram
from pullback.compiled.llvm.recipe import packed, unpacked
from tests.compiled.test_random_programs import Program

nn = torch.nn.functional
COUNT = int(os.environ.get("PULLBACK_RANDOM_PROGRAMS", "40"))


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("PULLBACK_CACHE", str(tmp_path))
    return tmp_path


@pytest.fixture
def made(monkeypatch):
    """What was described, in order: (its name or None, the arguments), and the programs."""
    found = []

    def describe(*args):
        kept = described.kept_program(*args)
        found.append((None if kept is None else kept.name, args))
        return kept

    monkeypatch.setattr(program, "kept_program", describe)
    return found


def run(function, tensors, seed=3):
    """Bits of results and gradients, and whether each program was loaded."""
    torch.manual_seed(seed)
    leaves = [one.detach().clone().requires_grad_(one.requires_grad) for one in tensors]
    f = torch.compile(lambda *given: function(*given), backend="llvm", dynamic=False)
    results = f(*leaves)
    listed = results if isinstance(results, tuple) else (results,)
    if listed[0].requires_grad:
        listed[0].sum().backward()
    arrays = [one.detach().numpy() for one in listed]
    arrays += [one.grad.numpy() for one in leaves if one.grad is not None]
    bits = [(one.dtype, one.shape, one.strides, one.tobytes()) for one in arrays]
    return bits, [
        one._plan is None for one in f.entries[0].programs() if isinstance(one, LlvmProgram)
    ]


def classes(x, w):
    return nn.cross_entropy(x @ w, torch.arange(x.shape[0]) % w.shape[1])


def with_kernels(x, w):
    y = (x @ w).sort(-1)[0] * 2
    return (torch.linalg.svdvals(y) + y.sum()).sum()


def with_chance(x, w):
    return (nn.dropout(x, 0.4) @ w + torch.randn(w.shape[1])).tanh().sum()


def with_views(x, w):
    buffer = torch.zeros(x.shape[0] + 2, w.shape[1])
    buffer[1:-1] += x @ w
    return buffer.t()[:, ::2] * 2, buffer[0], x.t() + 1


def table(x, w):
    return w[(x[:, 0] > 0).long()].exp().sum()


def halves(x, w):
    return (x.half() @ w.half()).float().softmax(-1)


def numbers(x, w):
    weights = torch.tensor([0.5, -0.25, 1.0, 2.0, -3.0, 0.0])
    return (nn.elu(x * 0.75, 1.5) @ w).clamp(-1.5, 0.25) * weights - 0.0


FUNCTIONS = [numbers, classes, with_kernels, with_chance, with_views, table, halves]


def given(rows=8):
    rng = np.random.default_rng(4)
    x = torch.tensor(rng.standard_normal((rows, 5), dtype=np.float32))
    return x.requires_grad_(), torch.tensor(rng.standard_normal((5, 6), dtype=np.float32))


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda one: one.__name__)
def test_a_loaded_program_gives_the_bits_of_one_that_was_made(function):
    fresh, was_loaded = run(function, given())
    assert was_loaded
    assert not any(was_loaded)
    loaded, was_loaded = run(function, given())
    assert all(was_loaded)
    assert loaded == fresh


def test_so_do_random_programs(made):
    loaded = count = 0
    for seed in range(COUNT):
        drawn = Program(seed)
        try:
            drawn(*drawn.inputs())
        except RuntimeError:
            continue  # a view that memory does not allow
        count += 1
        fresh, _ = run(drawn, drawn.inputs())
        again, was_loaded = run(drawn, drawn.inputs())
        assert again == fresh, seed
        loaded += all(was_loaded)
    assert loaded > 0.9 * count > 0.5 * COUNT


def test_a_loaded_program_can_be_looked_at_and_profiled():
    x, w = given()
    first, f = (torch.compile(with_kernels, backend="llvm") for _ in range(2))
    first(x, w)
    (fresh,) = first.entries[0].programs()
    wanted = f(x, w)
    (one,) = f.entries[0].programs()
    assert one._plan is None
    assert one.how == fresh.how
    assert "kernel" in one.how.values()
    with torch.profiler.profile() as profile:
        assert torch.equal(f(x, w), wanted)
    assert len(profile.events()) > 3
    assert one.plan.steps
    assert "define void @part0" in one.text


def test_an_error_of_a_loaded_program_is_that_of_eager():
    x, w = given()
    target = torch.tensor([0, 1, 2, 3, 4, 5, 0, 99])

    def loss(x, w, target):
        return nn.cross_entropy(x @ w, target)

    said = []
    for _ in range(2):
        f = torch.compile(loss, backend="llvm")
        f(x, w, target * 0)
        with pytest.raises(IndexError) as error:
            f(x, w, target)
        said.append(str(error.value))
    assert said[0] == said[1]


# The key ------------------------------------------------------------------------------------------


def changed(tree):
    """The same arguments with one thing changed, for each thing in turn."""
    kind = type(tree)
    if kind is Value or tree is np or isinstance(tree, type):
        return
    if isinstance(tree, tuple | list):
        for place, one in enumerate(tree):
            for other in changed(one):
                parts = [*tree[:place], other, *tree[place + 1 :]]
                yield kind(*parts) if hasattr(tree, "_fields") else kind(parts)
        if not hasattr(tree, "_fields"):
            yield kind([*tree, 1])
    elif kind is dict:
        for name, one in tree.items():
            for other in changed(one):
                yield {**tree, name: other}
    elif kind is bool:
        yield not tree
        yield int(tree)
    elif kind is int:
        yield tree + 1
        yield float(tree)
    elif kind is float:
        yield np.nextafter(tree, 9e9).item()
        yield -tree
    elif kind is str:
        yield tree + "x"
    elif tree is None:
        yield 0
    elif isinstance(tree, np.ndarray) and tree.size and tree.dtype.kind in "fiub":
        yield ~tree if tree.dtype.kind == "b" else tree + tree.dtype.type(1)
        yield tree.astype(np.float64 if tree.dtype != np.float64 else np.float32)


def name_of(args):
    kept = described.kept_program(*args)
    return None if kept is None else kept.name


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda one: one.__name__)
def test_whatever_changes_in_a_captured_program_changes_its_key(made, function):
    run(function, given())
    count = 0
    for name, args in made:
        calls, inputs, outputs, constants, about, ahead = args
        assert name is not None
        assert name_of(args) == name

        def differs(*other):
            nonlocal count
            count += 1
            assert name_of(other) != name  # noqa: B023

        for call in calls:
            before = call.args, call.kwargs
            for part in ("args", "kwargs") if not call.random else ():
                for other in changed(getattr(call, part)):
                    setattr(call, part, other)
                    differs(*args)
                call.args, call.kwargs = before
            for part in ("name", "random", "single"):
                was = getattr(call, part)
                for other in changed(was):
                    if type(other) is type(was):
                        setattr(call, part, other)
                        differs(*args)
                setattr(call, part, was)
        values = {one.number: one for call in calls for one in (*call.inputs, *call.results)}
        for one in values.values():
            for part in ("shape", "strides", "shift"):
                was = getattr(one, part)
                for other in changed(was):
                    setattr(one, part, other)
                    differs(*args)
                setattr(one, part, was)
            was, one.dtype = one.dtype, np.dtype("V7")
            differs(*args)
            one.dtype = was
        for number, array in constants.items():
            for other in changed(array):
                differs(calls, inputs, outputs, {**constants, number: other}, about, ahead)
        differs(calls[:-1], inputs, outputs, constants, about, ahead)
        differs(calls, inputs, [*outputs, outputs[0]], constants, about, ahead)
        differs(calls, inputs, outputs, constants, (about[0] + 1, about[1]), ahead)
        differs(calls, inputs, outputs, constants, (about[0], {0: 7}), ahead)
        others = None if ahead else frozenset({calls[0].results[0].number})
        differs(calls, inputs, outputs, constants, about, others)
    assert count > 20


def test_the_surroundings_are_in_the_key(made, monkeypatch):
    run(with_views, given())
    (name, args), *_ = made
    for target, what, value in (
        (described, "_sources", lambda: "others"),
        (described, "_blas", lambda: "another"),
        (described, "__version__", "0"),
        (np, "__version__", "0"),
        (described.machine(), "vector_bytes", 16),
        (described.machine(), "processor", described.machine().processor._replace(features="")),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(target, what, value)
            assert name_of(args) != name, what
    assert name_of(args) == name


def test_an_operator_of_the_users_is_not_kept(made):
    @torch.library.custom_op("kept_programs::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    twice.register_fake(torch.empty_like)
    assert torch.equal(torch.compile(twice, backend="llvm")(torch.ones(3)), torch.ones(3) * 2)
    for name, (calls, *_) in made:
        assert name is None or not any(
            "twice" in call.name for call in calls if call.op is not None
        )


def test_a_source_that_was_written_anew_is_another(tmp_path, monkeypatch):
    for room in described._SOURCES:
        (tmp_path / "p" / room).mkdir(parents=True)
        (tmp_path / "p" / room / "a.py").write_text("")
    monkeypatch.setattr(described, "__file__", str(tmp_path / "p" / "compiled" / "llvm" / "d.py"))
    read = described._sources.__wrapped__
    before = read()
    assert before == read()
    assert before.count("a.py") == 3
    (tmp_path / "p" / "core" / "a.py").write_text("x = 1")
    assert read() != before


# The file -----------------------------------------------------------------------------------------


def a_file(folder):
    run(with_kernels, given())
    return max(
        (one for one in folder.iterdir() if b"[[" in one.read_bytes()),
        key=lambda one: one.stat().st_size,
    )


def leaves_of(tree, path=()):
    if isinstance(tree, list):
        yield path
        for place, one in enumerate(tree):
            yield from leaves_of(one, (*path, place))
    else:
        yield path


def replaced(tree, path, value):
    if not path:
        return value
    return [
        replaced(one, path[1:], value) if place == path[0] else one
        for place, one in enumerate(tree)
    ]


def test_files_of_any_content_are_refused_or_read_and_never_end_the_process(folder):
    whole = a_file(folder).read_bytes()[32:]
    recipe, code = unpacked(whole, 100)
    assert packed(recipe, code) == whole
    draw, read, refused = random.Random(6), 0, 0
    end = len(whole) - len(code)
    for number in range(3000):
        other = bytearray(whole)
        for _ in range(draw.choice((1, 1, 3))):
            other[draw.randrange(end)] = draw.choice(
                (0, 45, 48, 57, 91, 93, 255, draw.randrange(256))
            )
        if number % 7 == 0:
            del other[draw.randrange(end) :]
        try:
            unpacked(bytes(other), 100)
            read += 1
        except ValueError:
            refused += 1
    assert refused > read


def test_a_recipe_with_one_thing_of_another_kind_is_refused(folder):
    whole = a_file(folder).read_bytes()[32:]
    recipe, code = unpacked(whole, 100)
    tree = json.loads(json.dumps(recipe))
    paths = [path for path in leaves_of(tree) if path]
    for path in random.Random(7).sample(paths, min(len(paths), 400)):
        for value in ({}, 1.5, [[[]]], -(2**70), 2**70):
            with pytest.raises(ValueError):  # noqa: PT011 (of whatever is wrong)
                unpacked(packed(replaced(tree, path, value), code), 100)


@pytest.mark.parametrize("how", ["cut off", "nothing", "another's", "garbage"])
def test_what_a_file_should_not_be_counts_as_none(folder, how):
    fresh, _ = run(with_kernels, given())
    run(with_views, given())
    files = list(folder.iterdir())
    contents = [one.read_bytes() for one in files]
    for file, content, other in zip(files, contents, [*contents[1:], contents[0]], strict=True):
        file.write_bytes({
            "cut off": content[: len(content) // 2], "nothing": b"", "another's": other,
            "garbage": os.urandom(len(content)),
        }[how])  # fmt: skip
    again, was_loaded = run(with_kernels, given())
    assert again == fresh
    assert not any(was_loaded)
    assert all(run(with_kernels, given())[1])  # and it is kept again


def test_without_a_folder_programs_are_made_each_time(monkeypatch):
    monkeypatch.setenv("PULLBACK_CACHE", "0")
    assert run(with_kernels, given())[0] == run(with_kernels, given())[0]
    assert not any(run(with_kernels, given())[1])


PROCESS = """
import sys
import pullback as torch
torch.manual_seed(0)
net = torch.nn.Sequential(torch.nn.Linear(6, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3))
x = torch.randn(5, 6)
f = torch.compile(lambda x: torch.nn.functional.cross_entropy(net(x), torch.arange(5) % 3))
f(x).backward()
print(net[0].weight.grad.numpy().tobytes().hex())
print([name in sys.modules for name in ("llvmlite", "pullback.compiled.plan.plan",
                                        "pullback.compiled.llvm.module")])
"""


def test_processes_that_write_at_once_and_those_after_them_agree():
    command = [sys.executable, "-c", PROCESS]
    first = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(3)]
    said = [one.communicate()[0].split("\n") for one in first]
    later = subprocess.run(command, capture_output=True, text=True, check=True).stdout.split("\n")
    assert {one[0] for one in said} == {later[0]}
    if sys.platform == "linux" and os.uname().machine == "x86_64":
        assert later[1] == "[False, False, False]"
