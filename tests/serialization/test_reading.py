"""save and load."""

import collections
import io
import pickle
import zipfile

import pytest

import pullback as torch
from pullback import serialization
from pullback.operators.tensor import pickling as copying


def through_file(obj, **options):
    file = io.BytesIO()
    torch.save(obj, file)
    file.seek(0)
    return torch.load(file, **options)


class Mine:
    def __init__(self):
        self.weight = torch.ones(2)


def test_containers_and_plain_values_survive():
    obj = {"a": [1, 2.5, "x", None, (True, b"ab")], "b": collections.OrderedDict(k={3}), 4: 1j}
    assert through_file(obj) == obj


@pytest.mark.parametrize(
    "tensor",
    [
        torch.arange(6.0).reshape(2, 3).T,
        torch.ones(2).expand(3, 2),
        torch.tensor(3),
        torch.ones(0, 3),
        torch.tensor([True]),
        torch.tensor([1j]),
        torch.ones(2, dtype=torch.uint16),
        torch.ones(2, dtype=torch.float16),
        torch.ones(3, requires_grad=True),
    ],
)
def test_tensors_survive(tensor):
    made = through_file([tensor])[0]
    assert made.dtype is tensor.dtype
    assert made.stride() == tensor.stride()
    assert made.tolist() == tensor.tolist()
    assert made.requires_grad == tensor.requires_grad


def test_sharing_survives():
    base = torch.arange(6.0)
    made = through_file({"base": base, "view": base[2:], "same": base})
    made["base"][3] = 99
    assert made["view"].tolist() == [2, 99, 4, 5]
    assert made["same"] is made["base"]
    assert base[3] == 3


def test_attributes_and_metadata_survive():
    x = torch.ones(2)
    x.note = ["mine"]
    assert through_file(x).note == ["mine"]
    obj = [torch.float32, torch.Size([1, 2]), torch.device("cpu"), torch.strided]
    made = through_file(obj)
    assert made == obj
    assert made[0] is torch.float32
    assert made[3] is torch.strided


def test_what_is_computed_loads_as_a_leaf():
    made = through_file(torch.ones(2, requires_grad=True) * 2)
    assert made.is_leaf
    assert made.requires_grad


def test_files_by_path(tmp_path):
    path = tmp_path / "weights.pt"
    torch.save(torch.ones(2), path)
    assert torch.load(path).tolist() == [1, 1]
    assert torch.load(str(path), map_location="cpu").tolist() == [1, 1]
    with pytest.raises(FileNotFoundError):
        torch.load(tmp_path / "none.pt")


def test_a_failed_save_leaves_no_file(tmp_path):
    path = tmp_path / "none.pt"
    with pytest.raises((pickle.PicklingError, AttributeError)):
        torch.save(lambda: 0, path)
    assert not path.exists()


def test_code_is_not_run_unless_trusted():
    with pytest.raises(pickle.UnpicklingError, match="weights_only"):
        through_file(Mine())
    assert through_file(Mine(), weights_only=False).weight.tolist() == [1, 1]
    with serialization.safe_globals([Mine]):
        assert through_file(Mine()).weight.tolist() == [1, 1]
    assert serialization.get_safe_globals() == []


def test_a_pickle_cannot_call_what_is_not_allowed():
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("archive/data.pkl", b"cos\nsystem\n(S'true'\ntR.")
    file.seek(0)
    with pytest.raises(pickle.UnpicklingError, match=r"os\.system"):
        torch.load(file)


def test_a_file_cannot_reach_beyond_its_memory():
    file = io.BytesIO()
    torch.save(torch.ones(2), file)
    with zipfile.ZipFile(file) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    contents["archive/data/0"] = b"\0\0\0\0"
    broken = io.BytesIO()
    with zipfile.ZipFile(broken, "w") as archive:
        for name, data in contents.items():
            archive.writestr(name, data)
    broken.seek(0)
    with pytest.raises(pickle.UnpicklingError, match="as long as"):
        torch.load(broken)


def test_other_files_are_refused():
    with pytest.raises(EOFError, match="empty"):
        torch.load(io.BytesIO())
    for content in (b"junkjunk", b"PK", b"PK\3\4junk", pickle.dumps(5), pickle.dumps([1])):
        for weights_only in (True, False):
            with pytest.raises(pickle.UnpicklingError):
                torch.load(io.BytesIO(content), weights_only=weights_only)


def test_unsupported_arguments_are_refused():
    with pytest.raises(AttributeError, match="Pickler"):
        torch.save(1, io.BytesIO(), pickle_module=io)
    with pytest.raises(ValueError, match="path"):
        torch.load(io.BytesIO(), mmap=True)
    with pytest.raises(AttributeError, match="write"):
        torch.save(1, 5)
    with pytest.raises(AttributeError, match="seek"):
        torch.load(5)
    with pytest.raises(TypeError, match="nonsense"):
        torch.load(io.BytesIO(b"x"), nonsense=1)
    with pytest.raises(TypeError, match="map_location"):
        torch.load(io.BytesIO(b"x"), map_location=1.5)


class Sub(torch.Tensor):
    pass


def test_subclasses_and_attributes_of_parameters_survive():
    sub = copying.leaf(torch.ones(2)._array, Sub, requires_grad=False)
    sub.note = 1
    with serialization.safe_globals([Sub]):
        made = through_file(sub)
    assert type(made) is Sub
    assert made.note == 1
    parameter = torch.nn.Parameter(torch.ones(2))
    parameter.rank = 3
    assert through_file(parameter).rank == 3


def test_modules_survive_in_trusted_files():
    model = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.ReLU())
    made = through_file(model, weights_only=False)
    x = torch.ones(1, 2)
    assert made(x).tolist() == model(x).tolist()
    with pytest.raises(pickle.UnpicklingError, match=r"torch\.nn\.modules"):
        through_file(model)


def test_attributes_of_dicts_survive():
    state = torch.nn.Linear(2, 3).state_dict()
    assert through_file(state)._metadata == state._metadata


def test_tensors_without_data_and_storages_survive():
    made = through_file(torch.ones(2, 3, device="meta").T)
    assert (made.device.type, made.stride()) == ("meta", (1, 3))
    assert through_file(torch.arange(3).untyped_storage()).tolist()[::8] == [0, 1, 2]


@pytest.mark.parametrize("protocol", range(1, 6))
def test_each_protocol_of_pickle_is_read(protocol):
    obj = {"a": [1, -(2**70), 2.5, "é\n'", None, True], (1, b"x"): {3}, "f": frozenset([1])}
    file = io.BytesIO()
    torch.save([obj, torch.ones(2)], file, pickle_protocol=protocol)
    file.seek(0)
    made, tensor = torch.load(file)
    assert made == obj
    assert tensor.tolist() == [1, 1]


def test_bfloat16_survives():
    pytest.importorskip("ml_dtypes")
    assert through_file(torch.ones(1, dtype=torch.bfloat16)).dtype is torch.bfloat16
