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


@pytest.mark.parametrize("weights_only", [True, False])
@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.filterwarnings("ignore:TypedStorage")
def test_storages_are_read_back_on_the_memory_of_their_tensors(zipped, weights_only):
    tensor = torch.arange(3.0)
    file = io.BytesIO()
    saved = {"storage": tensor.storage(), "again": tensor.storage(), "tensor": tensor}
    torch.save(saved, file, _use_new_zipfile_serialization=zipped)
    file.seek(0)
    read = torch.load(file, weights_only=weights_only)
    assert type(read["storage"]) is torch.TypedStorage
    assert read["storage"] is read["again"]
    assert read["storage"].dtype is torch.float32
    assert read["storage"].tolist() == [0, 1, 2]
    read["tensor"][0] = 7
    assert read["storage"].tolist() == [7, 1, 2]


@pytest.mark.filterwarnings("ignore:TypedStorage")
def test_bytes_without_a_dtype_are_read_back_as_bytes():
    file = io.BytesIO()
    torch.save(torch.tensor([1, 2], dtype=torch.int16).untyped_storage(), file)
    file.seek(0)
    read = torch.load(file)
    assert read.dtype is torch.uint8
    assert read.tolist() == [1, 0, 2, 0]


class Trusting:
    """Reading it is a call."""

    def __reduce__(self):
        return (dict, ([("a", 1)],))


def file_of_code():
    file = io.BytesIO()
    torch.save(Trusting(), file)
    file.seek(0)
    return file


NEVER, BY_DEFAULT = "TORCH_FORCE_WEIGHTS_ONLY_LOAD", "TORCH_FORCE_NO_WEIGHTS_ONLY_LOAD"


@pytest.mark.parametrize("value", ["1", "y", "yes", "true"])
def test_the_environment_says_what_is_trusted_where_the_call_does_not(value, monkeypatch):
    monkeypatch.setenv(BY_DEFAULT, value)
    with pytest.warns(UserWarning, match=BY_DEFAULT):
        assert torch.load(file_of_code()) == {"a": 1}
    with pytest.raises(pickle.UnpicklingError):
        torch.load(file_of_code(), weights_only=True)


@pytest.mark.parametrize("value", ["0", "", "no"])
def test_an_environment_that_says_no_changes_nothing(value, monkeypatch):
    monkeypatch.setenv(BY_DEFAULT, value)
    monkeypatch.setenv(NEVER, value)
    assert torch.load(file_of_code(), weights_only=False) == {"a": 1}
    with pytest.raises(pickle.UnpicklingError):
        torch.load(file_of_code())


def test_the_environment_can_forbid_trust(monkeypatch):
    monkeypatch.setenv(NEVER, "1")
    for weights_only in (None, True, False):
        with pytest.raises(pickle.UnpicklingError):
            torch.load(file_of_code(), weights_only=weights_only)
    with pytest.raises(RuntimeError, match="pickle_module"):
        torch.load(file_of_code(), pickle_module=pickle)
    monkeypatch.setenv(BY_DEFAULT, "1")
    with pytest.raises(RuntimeError, match="only one"):
        torch.load(file_of_code())


def test_a_pickle_module_is_asked_for_by_who_trusts_the_file():
    assert torch.load(file_of_code(), pickle_module=pickle) == {"a": 1}
    with pytest.raises(RuntimeError, match="pickle_module"):
        torch.load(file_of_code(), pickle_module=pickle, weights_only=True)
