"""Files of one library, read by the other."""

import io
import subprocess
import sys

import pytest

import pullback

torch = pytest.importorskip("torch")


def saved(lib, obj, **options):
    file = io.BytesIO()
    lib.save(obj, file, **options)
    file.seek(0)
    return file


def samples(lib):
    x = lib.arange(6.0).reshape(2, 3)
    x.note = ["mine"]
    dtypes = ["float16", "float64", "complex64", "uint8", "int16", "uint16", "bool"]
    return {
        "base": x,
        "view": x.T,
        "leaf": lib.ones(2, requires_grad=True),
        "empty": lib.zeros(0, 3),
        "expanded": lib.ones(2).expand(3, 2),
        "number": lib.tensor(3),
        "dtypes": [lib.ones(2, dtype=getattr(lib, name)) for name in dtypes],
        "others": [
            lib.float32,
            lib.Size([1, 2]),
            lib.device("cpu"),
            lib.strided,
            1,
            "x",
            (None, b"y"),
        ],
    }


BOTH_WAYS = pytest.mark.parametrize(("writer", "reader"), [(torch, pullback), (pullback, torch)])


@BOTH_WAYS
@pytest.mark.parametrize("weights_only", [True, False])
@pytest.mark.parametrize("new", [True, False], ids=["archive", "legacy"])
def test_each_reads_the_others_files(writer, reader, new, weights_only):
    obj, expected = samples(writer), samples(reader)
    if not new:  # torch writes uint16 but cannot read it
        obj["dtypes"], expected["dtypes"] = obj["dtypes"][:-2], expected["dtypes"][:-2]
    file = saved(writer, obj, _use_new_zipfile_serialization=new)
    made = reader.load(file, weights_only=weights_only)
    assert repr(made) == repr(expected)
    assert made["base"].note == ["mine"]
    assert made["view"].stride() == (1, 3)
    assert made["expanded"].stride() == (0, 1)
    made["base"][0, 1] = 99
    assert made["view"][1, 0] == 99


def test_bfloat16():
    pytest.importorskip("ml_dtypes")
    made = pullback.load(saved(torch, torch.ones(2, dtype=torch.bfloat16)))
    assert made.dtype is pullback.bfloat16


def test_parameters_and_state_dicts():
    layer = torch.nn.Linear(2, 3)
    made = pullback.load(saved(torch, layer.state_dict()))
    assert {name: x.tolist() for name, x in made.items()} == {
        name: x.tolist() for name, x in layer.state_dict().items()
    }
    parameter = pullback.load(saved(torch, layer.weight))
    assert isinstance(parameter, pullback.nn.Parameter)
    back = torch.load(saved(pullback, parameter))
    assert isinstance(back, torch.nn.Parameter)
    assert back.tolist() == layer.weight.tolist()


@BOTH_WAYS
@pytest.mark.parametrize("new", [True, False], ids=["archive", "legacy"])
def test_state_dicts_with_their_versions(writer, reader, new):
    layers = (writer.nn.Conv2d(1, 2, 3), writer.nn.BatchNorm2d(2), writer.nn.Linear(2, 3))
    state = writer.nn.Sequential(*layers).state_dict()
    made = reader.load(saved(writer, state, _use_new_zipfile_serialization=new))
    assert made._metadata == state._metadata
    assert list(made) == list(state)
    target = (reader.nn.Conv2d(1, 2, 3), reader.nn.BatchNorm2d(2), reader.nn.Linear(2, 3))
    reader.nn.Sequential(*target).load_state_dict(made)
    assert [x.tolist() for x in made.values()] == [x.tolist() for x in state.values()]


@BOTH_WAYS
@pytest.mark.parametrize("new", [True, False], ids=["archive", "legacy"])
@pytest.mark.filterwarnings("ignore:source code")
def test_whole_modules_in_trusted_files(writer, reader, new):
    nn = writer.nn
    model = nn.Sequential(
        nn.Conv2d(1, 2, 3, padding=1), nn.BatchNorm2d(2), nn.GELU(), nn.Conv2d(2, 8, 2),
        nn.Dropout(0.5), nn.Sequential(nn.Conv2d(8, 2, 1, bias=False), nn.Softmax(1)),
    ).eval()  # fmt: skip
    made = reader.load(saved(writer, model, _use_new_zipfile_serialization=new), weights_only=False)
    assert type(made).__name__ == "Sequential"
    values = [[[[1.0, 2.0], [3.0, -4.0]]]]
    expected = model(writer.tensor(values)).detach().numpy()
    assert abs(made(reader.tensor(values)).detach().numpy() - expected).max() < 1e-6
    assert {n for n, _ in made.named_parameters()} == {n for n, _ in model.named_parameters()}


@pytest.mark.parametrize("new", [True, False], ids=["archive", "legacy"])
def test_lazily_conjugated_and_negated_tensors(new):
    z = torch.tensor([1 + 2j, 3 - 1j])
    for x in (z.conj(), z.conj().imag, z.conj()[1:], z):
        made = pullback.load(saved(torch, x, _use_new_zipfile_serialization=new))
        assert made.tolist() == x.tolist()


@BOTH_WAYS
def test_tensors_without_data(writer, reader):
    made = reader.load(saved(writer, writer.ones(2, 3, device="meta").T))
    assert (made.device.type, made.shape, made.stride()) == ("meta", (3, 2), (1, 3))


@BOTH_WAYS
def test_attributes_of_parameters(writer, reader):
    parameter = writer.nn.Parameter(writer.ones(2))
    parameter.rank = 3
    made = reader.load(saved(writer, parameter))
    assert isinstance(made, reader.nn.Parameter)
    assert made.rank == 3


@BOTH_WAYS
def test_files_without_checksums(writer, reader):
    writer.serialization.set_crc32_options(False)
    try:
        file = saved(writer, writer.arange(3))
    finally:
        writer.serialization.set_crc32_options(True)
    assert reader.load(file).tolist() == [0, 1, 2]


@BOTH_WAYS
def test_mapped_files(writer, reader, tmp_path):
    writer.save({"a": writer.arange(5.0)}, tmp_path / "x.pt")
    assert reader.load(tmp_path / "x.pt", mmap=True)["a"].tolist() == [0, 1, 2, 3, 4]


def test_the_public_names_are_torchs():
    assert set(torch.serialization.__all__) - set(pullback.serialization.__all__) == {
        "SourceChangeWarning",
        "check_module_version_greater_or_equal",
        "StorageType",
        "mkdtemp",
        "normalize_storage_type",
        "storage_to_tensor_type",
        "validate_cuda_device",
        "validate_hpu_device",
    }


def test_a_module_that_stands_elsewhere_is_found_by_its_name():
    made = pullback.load(saved(torch, torch.nn.Flatten()), weights_only=False)
    assert isinstance(made, pullback.nn.Flatten)


def test_what_is_saved_in_torchs_place_torch_loads_as_leaves(tmp_path):
    program = f"""
import pullback; pullback.stand_in()
import torch
net = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.BatchNorm1d(3))
torch.save({{"net": net, "one": torch.nn.Parameter(torch.ones(2))}}, {str(tmp_path / "net.pt")!r})
"""
    subprocess.run([sys.executable, "-c", program], check=True)
    loaded = torch.load(tmp_path / "net.pt", weights_only=False)
    assert type(loaded["net"][0]) is torch.nn.Linear
    for parameter in (loaded["one"], *loaded["net"].parameters()):
        assert type(parameter) is torch.nn.Parameter
        assert parameter.is_leaf
        assert parameter.requires_grad


@pytest.mark.filterwarnings("ignore:TypedStorage")
@pytest.mark.parametrize("weights_only", [True, False])
@pytest.mark.parametrize("zipped", [True, False])
@pytest.mark.parametrize(("writer", "reader"), [("torch", "pullback"), ("pullback", "torch")])
def test_storages_go_from_one_library_to_the_other(writer, reader, zipped, weights_only):
    libraries = {"torch": torch, "pullback": pullback}
    writer, reader = libraries[writer], libraries[reader]
    tensor = writer.arange(3.0)
    saved_storages = {"storage": tensor.storage(), "tensor": tensor}
    file = saved(writer, saved_storages, _use_new_zipfile_serialization=zipped)
    read = reader.load(file, weights_only=weights_only)
    assert type(read["storage"]) is reader.TypedStorage
    assert read["storage"].tolist() == [0, 1, 2]
    read["tensor"][0] = 7
    assert read["storage"].tolist() == [7, 1, 2]
