"""Saved programs come back as they were; a file runs nothing that it brings."""

import dataclasses
import io
import json
import pickle
import zipfile

import pytest
from pullback.export import Dim, export, load, register_dataclass, save

import pullback as torch
from pullback import nn
from tests.torch_names.export.programs import CASES, Written


def again(program):
    file = io.BytesIO()
    save(program, file)
    return load(file)


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("is_decomposed", [False, True])
def test_a_loaded_program_is_the_saved_one(name, is_decomposed):
    function, example = CASES[name]
    module, x = Written(function), example()
    program = export(module, (x,))
    if is_decomposed:
        program = program.run_decompositions()
    found = again(program)
    assert str(found) == str(program)
    found.run_decompositions()
    results = []
    for one in (program, found):
        torch.manual_seed(0)
        results.append(one.module()(x))
    assert torch.equal(*results)


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Linear(4, 2)
        self.outer = nn.Linear(4, 2)
        self.outer.weight = self.inner.weight
        self.inner.bias.requires_grad_(False)
        self.register_buffer("kept", torch.ones(2), persistent=False)

    def forward(self, x, *, more):
        size = x.shape[0]
        if size > 3:
            return {"a": (self.inner(x) + self.kept, size), "b": [self.outer(x), more["k"]]}
        return None


@pytest.fixture
def program():
    shapes = {"x": {0: Dim("n", max=50)}, "more": None}
    return export(Layer(), (torch.ones(8, 4),), {"more": {"k": 1.5}}, dynamic_shapes=shapes)


def test_sizes_constants_ties_and_nesting_come_back(program):
    run = again(program).module()
    found = run(torch.ones(5, 4), more={"k": 1.5})
    assert found["a"][1] == 5
    assert found["b"][1] == 1.5
    assert run.inner.weight is run.outer.weight
    assert not run.inner.bias.requires_grad
    for size, k in ((3, 1.5), (51, 1.5), (5, 2.5)):
        with pytest.raises(AssertionError, match="Guard failed"):
            run(torch.ones(size, 4), more={"k": k})
    assert list(run.state_dict()) == list(program.module().state_dict())


def test_paths_and_extra_files(program, tmp_path):
    save(program, tmp_path / "program.pt2", extra_files={"notes": "trained"})
    extra = {"notes": ""}
    load(tmp_path / "program.pt2", extra_files=extra)
    assert extra == {"notes": "trained"}


@dataclasses.dataclass
class Pair:
    x: torch.Tensor
    y: torch.Tensor


def test_registered_dataclasses():
    class Adds(nn.Module):
        def forward(self, pair):
            return Pair(pair.x + pair.y, pair.x)

    register_dataclass(Pair)
    try:
        found = again(export(Adds(), (Pair(torch.ones(2), torch.ones(2)),)))
        made = found.module()(Pair(torch.ones(2), torch.ones(2)))
        assert torch.equal(made.x, torch.full((2,), 2.0))
        file = io.BytesIO()
        save(found, file)
    finally:
        del torch.core.trees.pytree.SUPPORTED_NODES[Pair]
    with pytest.raises(ValueError, match="not registered"):
        load(file)


def test_own_operators_are_named_by_who_loads():
    @torch.library.custom_op("export_tests::twice", mutates_args=())
    def twice(x: torch.Tensor) -> torch.Tensor:
        return x * 2

    twice.register_fake(torch.empty_like)

    class Twice(nn.Module):
        def forward(self, x):
            return twice(x)

    file = io.BytesIO()
    save(export(Twice(), (torch.ones(2),)), file)
    with pytest.raises(ValueError, match=r"export_tests\.twice"):
        load(file)
    found = load(file, operators=[torch.ops.export_tests.twice.default])
    assert torch.equal(found.module()(torch.ones(2)), torch.full((2,), 2.0))


# Files that nobody saved --------------------------------------------------------------------------


def changed(program, change, tensors=None):
    """The file of a program, with a change of its description."""
    file = io.BytesIO()
    save(program, file)
    with zipfile.ZipFile(file) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    described = json.loads(parts["pullback_export/program.json"])
    change(described)
    parts["pullback_export/program.json"] = json.dumps(described).encode()
    if tensors is not None:
        parts["pullback_export/tensors.pt"] = tensors
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, content in parts.items():
            archive.writestr(name, content)
    made.seek(0)
    return made


def _call(described):
    return next(one for one in described["nodes"] if "call" in one)


def _put(path, value):
    def change(described):
        *way, last = path
        place = described
        for key in way:
            place = place[key]
        place[last] = value

    return change


def _step(key, value):
    return lambda described: _call(described).update({key: value})


CODE = '__import__("os").system("true")'
HOSTILE = {
    "operator of another module": _step("call", "os.system"),
    "builtin": _step("call", "builtins.eval"),
    "operator that reads files": _step("call", "aten.from_file.default"),
    "function that is no operator": _step("call", "aten.load.default"),
    "method": _step("call", "aten.tofile.default"),
    "private operator": _step("call", "pullback._constant_pad.default"),
    "attribute of operators": _step("call", "operator.attrgetter"),
    "attribute of a packet": _step("call", "aten.add._schema"),
    "step with code for a name": _step("name", f"x = {CODE}"),
    "keyword for a name": _step("name", "lambda"),
    "argument with code for a name": _step("kwargs", [[CODE, 1]]),
    "unknown kind of value": _step("args", [{"eval": CODE}]),
    "function for a value": _step("args", [{"named": "load"}]),
    "node that does not exist": _step("args", [{"node": "nowhere"}]),
    "list for a value": _step("args", [[1]]),
    "deep value": _step("args", [json.loads('{"list": [' * 90 + "1" + "]}" * 90)]),
    "input with code for a name": lambda d: d["nodes"][0].update(input=f"x={CODE}"),
    "tensor with code for a name": lambda d: d["inputs"][0].__setitem__(2, f'a"); {CODE}; ("'),
    "tensor at a name of Python's": lambda d: d["inputs"][0].__setitem__(2, "__class__"),
    "condition with code": _put(["conditions"], [[CODE, True]]),
    "condition of a power": _put(["conditions"], [["s0 ** s0 ** s0", True]]),
    "condition of attributes": _put(["conditions"], [["s0.__class__", True]]),
    "long condition": _put(["conditions"], [["s0 + " * 3000 + "s0", True]]),
    "size of no input": _put(["symbols"], [["s0", 8, 2, 50, [[9, 0]]]]),
    "argument with code": _put(["names"], [[f"x={CODE}"], ["more"]]),
    "shape of texts": lambda d: d["nodes"][0].update(val=[["a"], {"named": "float32"}, [1]]),
    "shape without end": lambda d: d["nodes"][0].update(
        val=[[1 << 62, 1 << 62], {"named": "float32"}, [1 << 62, 1 << 62]]
    ),
    "argument named twice": lambda d: d.update(names=[["x", "x"], []]),
    "class that nobody registered": _put(["in_spec"], ["!os.system", None, []]),
    "other nesting": _put(["in_spec"], ["tuple", None, []]),
    "other version": _put(["version"], 99),
    "other format": _put(["format"], "x"),
    "no nodes": lambda d: d.pop("nodes"),
    "unknown output": lambda d: d["outputs"].append(["USER_OUTPUT", ["tensor", "zz", None], None]),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_files_that_nobody_saved_are_refused(program, name):
    with pytest.raises(ValueError, match="exported program that can be loaded"):
        load(changed(program, HOSTILE[name]))


class Runs:
    def __reduce__(self):
        return (pytest.fail, ("the file ran code",))


def test_pickles_in_a_file_run_nothing(program):
    file = changed(program, lambda described: None, tensors=pickle.dumps({"state": Runs()}))
    with pytest.raises(pickle.UnpicklingError):
        load(file)


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04", b"x" * 100])
def test_what_is_no_archive_is_refused(content):
    with pytest.raises(ValueError, match="no archive"):
        load(io.BytesIO(content))


def test_files_of_torch_are_told_apart():
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("archive/models/model.json", "{}")
    with pytest.raises(ValueError, match="torch wrote it"):
        load(file)


def test_operators_of_torch_take_no_names_of_files():
    from pullback.library.builtin.schema import torchs_schemas
    from pullback.torch_names.export._operators import _OUTSIDE

    named = {
        text.partition("(")[0].partition("::")[2]
        for text in torchs_schemas().values()
        if any(word in text for word in ("str filename", "str path", "str file", "str url"))
    }
    assert named == _OUTSIDE


def test_only_programs_are_saved():
    with pytest.raises(TypeError, match="ExportedProgram"):
        save(nn.ReLU(), io.BytesIO())
