"""Byte orders, mapped files, places, checksums, skipped data."""

import io
import mmap
import pickle
import sys
import zipfile

import pytest

import pullback as torch
from pullback import serialization


def saved(obj, **options):
    file = io.BytesIO()
    torch.save(obj, file, **options)
    file.seek(0)
    return file


def changed(file, **records):
    """The archive with records replaced, or left out where None."""
    with zipfile.ZipFile(file) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    for name, content in records.items():
        contents[f"archive/{name}"] = content
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name, content in contents.items():
            if content is not None:
                archive.writestr(name, content)
    made.seek(0)
    return made


OTHER = {"little": "big", "big": "little"}[sys.byteorder]


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex128, torch.int16, torch.uint32])
def test_the_other_byte_order_is_swapped(dtype):
    x = torch.tensor([1, 2, 300], dtype=dtype)
    swapped = x.numpy().byteswap()
    file = changed(saved(x), **{"byteorder": OTHER, "data/0": swapped.tobytes()})
    assert torch.load(file).tolist() == x.tolist()


def test_a_file_without_byte_order_is_read_as_chosen():
    x = torch.tensor([1.0, 2.0])
    file = saved(x, _disable_byteorder_record=True)
    assert torch.load(file).tolist() == [1, 2]
    orders = serialization.LoadEndianness
    serialization.set_default_load_endianness(
        orders.BIG if sys.byteorder == "little" else orders.LITTLE
    )
    try:
        file.seek(0)
        assert torch.load(file).tolist() == x.numpy().byteswap().tolist()
    finally:
        serialization.set_default_load_endianness(None)
    with pytest.raises(TypeError, match="LoadEndianness"):
        serialization.set_default_load_endianness("big")


def test_a_byte_order_that_is_none_is_refused():
    with pytest.raises(pickle.UnpicklingError, match="byte order"):
        torch.load(changed(saved(torch.ones(1)), byteorder="middle"))


def test_mapped_files_are_private_unless_shared(tmp_path):
    path = tmp_path / "x.pt"
    torch.save({"a": torch.arange(4.0), "b": torch.ones(3, dtype=torch.int8)}, path)
    made = torch.load(path, mmap=True)
    assert made["a"].tolist() == [0, 1, 2, 3]
    assert made["a"].data_ptr() % 64 == 0
    made["a"][0] = 9
    assert torch.load(path)["a"].tolist() == [0, 1, 2, 3]
    with serialization.set_default_mmap_options(mmap.MAP_SHARED):
        torch.load(path, mmap=True)["a"][0] = 7
    with pytest.warns(UserWarning, match="checksum"):
        assert torch.load(path)["a"].tolist() == [7, 1, 2, 3]
    assert serialization.get_default_mmap_options() == mmap.MAP_PRIVATE
    with pytest.raises(ValueError, match="MAP_PRIVATE"):
        serialization.set_default_mmap_options(99)


def test_an_old_file_cannot_be_mapped(tmp_path):
    torch.save(torch.ones(2), tmp_path / "x.pt", _use_new_zipfile_serialization=False)
    with pytest.raises(RuntimeError, match="mapped"):
        torch.load(tmp_path / "x.pt", mmap=True)


@pytest.mark.parametrize("new", [True, False])
def test_places_of_storages(new):
    def load(place):
        return torch.load(
            saved(torch.ones(2, 2).T, _use_new_zipfile_serialization=new), map_location=place
        )

    assert load("cpu").tolist() == [[1, 1], [1, 1]]
    assert load({"cpu": "cpu"}).device.type == "cpu"
    meta = load("meta")
    assert (meta.device.type, meta.stride()) == ("meta", (1, 2))
    assert load(torch.device("meta")).device.type == "meta"
    seen = []
    assert load(lambda storage, place: seen.append((len(storage), place))).device.type == "cpu"
    assert seen == [(16, "cpu")]
    assert load(lambda storage, place: storage).tolist() == [[1, 1], [1, 1]]
    with pytest.raises(RuntimeError, match="cuda"):
        load("cuda")
    with pytest.raises(RuntimeError, match="cuda"):
        load({"cpu": "cuda:1"})
    with pytest.raises(TypeError, match="storage"):
        load(lambda storage, place: 5)


def test_a_registered_device_is_asked_in_order(monkeypatch):
    from pullback.serialization import places

    monkeypatch.setattr(places, "_packages", list(places._packages))
    asked = []
    serialization.register_package(
        5, lambda storage: None, lambda storage, place: asked.append(place)
    )
    torch.load(saved(torch.ones(1)))
    assert asked == ["cpu"]
    assert serialization.location_tag(torch.ones(1).untyped_storage()) == "cpu"


def test_checksums_can_be_left_out_and_are_compared_where_they_are():
    whole = saved(torch.full((1000,), 1.5)).getvalue()
    place = whole.index(torch.full((1000,), 1.5).numpy().tobytes())
    broken = whole[:place] + b"\xff" + whole[place + 1 :]
    with pytest.warns(UserWarning, match="checksum"):
        torch.load(io.BytesIO(broken))
    broken = whole.replace(b"FloatStorage", b"ShortStorage", 1)
    with pytest.raises(pickle.UnpicklingError, match="checksum"):
        torch.load(io.BytesIO(broken))
    serialization.set_crc32_options(False)
    try:
        file = saved(torch.ones(2))
    finally:
        serialization.set_crc32_options(True)
    assert serialization.get_crc32_options()
    assert torch.load(file).tolist() == [1, 1]


def test_data_is_skipped_within_the_block_only():
    with serialization.skip_data():
        file = saved(torch.ones(2))
        assert torch.load(saved(torch.ones(2))).shape == (2,)
    assert torch.load(file).tolist() == [0, 0]
    assert torch.load(saved(torch.ones(2))).tolist() == [1, 1]


def test_what_a_file_asks_for_is_told_without_running_it():
    from fractions import Fraction

    for protocol in (2, 4):
        file = saved([torch.ones(1), Fraction(1), Fraction(2)], pickle_protocol=protocol)
        assert serialization.get_unsafe_globals_in_checkpoint(file) == ["fractions.Fraction"]
    with serialization.safe_globals([Fraction]):
        file.seek(0)
        assert serialization.get_unsafe_globals_in_checkpoint(file) == []
    with pytest.raises(ValueError, match=r"1\.6"):
        serialization.get_unsafe_globals_in_checkpoint(io.BytesIO(b"abcd"))


def test_fake_tensors_are_written_as_if_they_had_data():
    from pullback._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        layer = torch.nn.Linear(2, 3)
        turned = layer.weight.detach().t()
    values = {**layer.state_dict(), "parameter": layer.weight, "turned": turned}
    values["small"] = layer.bias.detach().to(torch.uint16)
    file = io.BytesIO()
    with serialization.skip_data(materialize_fake_tensors=True):
        torch.save(values, file)
    file.seek(0)
    loaded = torch.load(file)
    shapes = {name: tuple(one.shape) for name, one in loaded.items()}
    assert shapes.pop("small") == shapes.pop("bias") == (3,)
    assert shapes == {"weight": (3, 2), "parameter": (3, 2), "turned": (2, 3)}
    assert isinstance(loaded["parameter"], torch.nn.Parameter)
    assert loaded["small"].dtype is torch.uint16
    assert loaded["turned"].data_ptr() == loaded["weight"].data_ptr() != 0
    assert not loaded["weight"].is_meta
    with serialization.skip_data():
        file = saved(turned)
    with pytest.raises(pickle.UnpicklingError, match="FakeTensor"):
        torch.load(file)
