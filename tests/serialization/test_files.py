"""Files of the user's own making, other picklers, and memory that tensors share."""

import io
import pickle
import types

import pytest

import pullback as torch


class Sink:
    """Takes bytes and says nothing."""

    def __init__(self):
        self.bytes = io.BytesIO()

    def write(self, data):
        self.bytes.write(data)


class Counting(io.BytesIO):
    calls = 0

    def readinto(self, buffer):
        self.calls += 1
        return super().readinto(memoryview(buffer)[:1000])  # less than asked for, as pipes do


class OnlyRead:
    def __init__(self, data):
        self.inner = io.BytesIO(data)
        self.read, self.seek, self.tell = self.inner.read, self.inner.seek, self.inner.tell
        self.readline = self.inner.readline


def values():
    return {"a": torch.arange(3000.0), "b": 3}


@pytest.mark.parametrize("zipped", [True, False])
def test_a_file_needs_no_more_than_write(zipped):
    sink = Sink()
    torch.save(values(), sink, _use_new_zipfile_serialization=zipped)
    sink.bytes.seek(0)
    assert torch.load(sink.bytes)["a"].equal(values()["a"])


@pytest.mark.parametrize("zipped", [True, False])
def test_elements_are_read_into_their_memory_where_the_file_can(zipped):
    file = Counting()
    torch.save(values(), file, _use_new_zipfile_serialization=zipped)
    file.seek(0)
    loaded = torch.load(file)["a"]
    assert loaded.equal(values()["a"])
    assert file.calls >= 12
    loaded.add_(1)
    without = torch.load(OnlyRead(file.getvalue()))["a"]
    assert without.equal(values()["a"])
    without.add_(1)


@pytest.mark.parametrize("zipped", [True, False])
def test_a_file_that_ends_early_is_refused(zipped):
    file = Counting()
    torch.save(values(), file, _use_new_zipfile_serialization=zipped)
    with pytest.raises((pickle.UnpicklingError, EOFError)):
        torch.load(Counting(file.getvalue()[:-600]))


def other_pickle(calls):
    class Pickler(pickle.Pickler):
        def reducer_override(self, obj):
            if type(obj) is types.SimpleNamespace:
                calls.append("written")
                return dict, (vars(obj),)
            return NotImplemented

    class Unpickler(pickle.Unpickler):
        def find_class(self, module, name):
            calls.append(name)
            return super().find_class(module, name)

    return types.SimpleNamespace(Pickler=Pickler, Unpickler=Unpickler)


def test_another_pickle_module_writes_and_reads_what_is_no_tensor():
    calls = []
    module, file = other_pickle(calls), io.BytesIO()
    torch.save([torch.ones(2), types.SimpleNamespace(x=1)], file, pickle_module=module)
    file.seek(0)
    tensor, other = torch.load(file, pickle_module=module, weights_only=False)
    assert tensor.tolist() == [1, 1]
    assert other == {"x": 1}
    assert calls == ["written", "dict"]


@pytest.mark.parametrize("module", [pickle, other_pickle([])])
def test_a_pickle_module_is_used_unless_only_weights_are_wanted(module):
    file = io.BytesIO()
    torch.save(values(), file)
    file.seek(0)
    with pytest.raises(RuntimeError, match="pickle_module"):
        torch.load(file, pickle_module=module, weights_only=True)
    assert torch.load(file, pickle_module=module)["b"] == 3


@pytest.mark.parametrize(
    "pair",
    [
        lambda: (a := torch.tensor([1 + 2j, 3]), a.imag),
        lambda: (a := torch.ones(4), a.view(torch.int32)),
        lambda: (a := torch.ones(4), a.untyped_storage()),
    ],
)
def test_memory_seen_as_two_dtypes_is_not_saved_as_if_apart(pair):
    with pytest.raises(RuntimeError, match="same memory"):
        torch.save(list(pair()), io.BytesIO())


def test_bytes_are_shared_by_all_that_are_written_as_bytes():
    a = torch.zeros(4, dtype=torch.uint8)
    file = io.BytesIO()
    torch.save([a, a.view(torch.uint16), a.untyped_storage(), a.view(torch.uint32)], file)
    file.seek(0)
    first, second, third, fourth = torch.load(file)
    first[0] = 1
    assert second.tolist() == [1, 0]
    assert third.tolist() == [1, 0, 0, 0]
    assert fourth.tolist() == [1]


def test_a_part_of_a_storage_stays_a_part():
    x, y = torch.arange(10.0), torch.empty(0)
    part = x.untyped_storage()[4:16]
    y.set_(part)
    assert y.untyped_storage().nbytes() == 12
    assert y.untyped_storage() == part
    y.fill_(7)
    assert x[:5].tolist() == [0, 7, 7, 7, 4]


def test_storages_without_bytes_go_nowhere():
    storage = torch.empty(3, device="meta").untyped_storage()
    for move in (storage.cpu, lambda: storage.to(device="cpu")):
        with pytest.raises(NotImplementedError):
            move()
    assert storage.to(device="meta") is storage


def test_wrappers_have_no_address():
    class Wrapper(torch.Tensor):
        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            return NotImplemented

    x = torch.Tensor._make_wrapper_subclass(Wrapper, (2, 3))
    assert x.data_ptr() == 0
    assert x.untyped_storage() == x.untyped_storage()
    with pytest.raises(RuntimeError, match="without data"):
        x.untyped_storage().data_ptr()
