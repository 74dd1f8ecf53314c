"""Device names, the default device, and what can hold tensors."""

import copy
import pickle
import threading

import numpy
import pytest

from pullback.core.device import (
    HOLDERS,
    KINDS,
    Holder,
    as_device,
    device,
    get_default_device,
    require_available,
    set_default_device,
)

CPU = device("cpu")
META = device("meta")


@pytest.fixture(autouse=True)
def no_default_device_left_behind():
    yield
    left = get_default_device()
    set_default_device(None)
    assert left is CPU


@pytest.fixture
def two_gpus(monkeypatch):
    monkeypatch.setitem(HOLDERS, "cuda", Holder(devices=2, is_accelerator=True))


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_parses_alone_and_with_an_index(kind):
    assert (device(kind).type, device(kind).index) == (kind, None)
    assert (device(f"{kind}:12").type, device(f"{kind}:12").index) == (kind, 12)


def test_all_spellings_of_a_device_are_one_object():
    expected = device("cuda:1")
    assert device("cuda", 1) is expected
    assert device("cuda", numpy.int64(1)) is expected
    assert device(type="cuda", index=1) is expected
    assert device(device="cuda:1") is expected
    assert device(expected) is expected
    assert device(device=expected) is expected
    assert as_device("cuda:1") is as_device(expected) is expected


def test_devices_differ_by_type_and_index():
    assert device("cpu") != device("cpu:0")
    assert device("cuda:0") != device("cuda:1")
    assert device("cpu") != "cpu"
    assert len({device("cpu"), device("cpu", 0), device("meta"), device("cpu")}) == 3


def test_repr_and_str():
    assert repr(CPU) == "device(type='cpu')"
    assert repr(device("cuda:1")) == "device(type='cuda', index=1)"
    assert (str(CPU), str(device("cuda", 0))) == ("cpu", "cuda:0")


@pytest.mark.parametrize("name", ["cpu", "cpu:0", "cuda:1"])
def test_pickle_and_copy_give_the_same_object(name):
    d = device(name)
    for protocol in range(pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(d, protocol)) is d
    assert copy.copy(d) is d
    assert copy.deepcopy([d])[0] is d


@pytest.mark.parametrize("name", ["", "foo", "CPU", " cpu", "foo:1", ":1"])
def test_an_unknown_kind_is_refused_naming_those_that_hold_tensors(name):
    with pytest.raises(RuntimeError, match=r"is not a device[.;] .*one of cpu, cuda, meta device"):
        device(name)


@pytest.mark.parametrize(
    ("name", "meant"),
    [("gpu", "cuda"), ("GPU:1", "cuda"), ("cuuda", "cuda"), ("CPU", "cpu"), (" cpu", "cpu")],
)
def test_a_name_near_a_device_is_answered_with_that_device_and_not_with_twenty(name, meant):
    with pytest.raises(RuntimeError, match=f"did you mean '{meant}'") as raised:
        device(name)
    assert sum(kind in str(raised.value) for kind in KINDS) < 6


@pytest.mark.parametrize(
    "name", ["cuda:", "cuda:-1", "cuda:x", "cuda:01", "cuda: 1", "cuda:+1", "cuda:1:2", "cuda:1\n"]
)
def test_a_wrong_index_in_the_name_is_refused_with_the_right_spelling(name):
    with pytest.raises(RuntimeError, match="write 'cuda', or 'cuda:0'"):
        device(name)


def test_a_wrong_index_beside_the_name_is_refused():
    with pytest.raises(RuntimeError, match="negative"):
        device("cuda", -1)
    with pytest.raises(RuntimeError, match="has an index already"):
        device("cuda:1", 1)
    for index in (True, "1", 1.0):
        with pytest.raises(TypeError, match="must be an int"):
            device("cuda", index)


@pytest.mark.parametrize("value", [None, 1.0, True, b"cpu", ["cpu"]], ids=repr)
def test_what_cannot_name_a_device_is_refused(value):
    with pytest.raises(TypeError, match="needs a string such as 'cpu'"):
        device(value)


def test_wrong_combinations_of_arguments_are_refused():
    with pytest.raises(TypeError, match="needs a string"):
        device()
    with pytest.raises(TypeError, match="needs a string"):
        device(index=1)
    with pytest.raises(TypeError, match="index 1"):
        device(device("cuda"), 1)
    with pytest.raises(TypeError, match="got both"):
        device("cpu", device="cpu")
    with pytest.raises(TypeError):
        device("cpu", 1, 2)


def test_devices_cannot_be_changed_or_subclassed():
    with pytest.raises(AttributeError, match="'type' of device cpu is read-only"):
        CPU.type = "cuda"
    with pytest.raises(AttributeError, match="read-only"):
        del CPU.index
    with pytest.raises(TypeError, match="subclassed"):
        type("mine", (device,), {})


def test_a_number_alone_means_the_accelerator(two_gpus):
    assert device(1) is device("cuda:1")
    assert as_device(0) is device("cuda:0")


def test_a_number_alone_is_refused_where_there_is_no_accelerator():
    with pytest.raises(RuntimeError, match=r"device\(0\) means accelerator number 0"):
        device(0)
    with pytest.raises(RuntimeError, match="negative"):
        device(-1)


def test_blocks_nest_and_may_repeat_a_device():
    assert get_default_device() is CPU
    with META as entered:
        assert entered is META
        with CPU:
            assert get_default_device() is CPU
            with META, META:
                assert as_device(None) is META
            assert get_default_device() is CPU
        assert get_default_device() is META
    assert get_default_device() is CPU


def test_a_block_that_raises_is_left():
    with pytest.raises(ValueError, match="stop"), META:
        raise ValueError("stop")
    assert get_default_device() is CPU


def test_set_default_device_counts_until_taken_back():
    set_default_device("meta")
    assert get_default_device() is META
    with CPU:
        assert get_default_device() is CPU
    set_default_device(device("cuda:1"))
    assert get_default_device() is device("cuda:1")
    set_default_device(None)
    assert get_default_device() is CPU


def test_set_default_device_inside_a_block_counts_at_once_and_outlives_it():
    with META:
        set_default_device("cuda")
        assert get_default_device() is device("cuda")
        with CPU:
            assert get_default_device() is CPU
        assert get_default_device() is device("cuda")
    assert get_default_device() is device("cuda")
    with META:
        set_default_device(None)
        assert get_default_device() is META
    assert get_default_device() is CPU


def test_a_refused_default_device_changes_nothing():
    set_default_device("meta")
    with pytest.raises(RuntimeError, match="is not a device"):
        set_default_device("foo")
    with pytest.raises(TypeError, match="needs a string"):
        set_default_device(1.5)
    assert get_default_device() is META
    set_default_device(None)


def test_default_device_belongs_to_the_thread():
    seen = []

    def look():
        seen.append(get_default_device())
        with device("cuda"):
            seen.append(get_default_device())

    with META:
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
        assert get_default_device() is META
    assert seen == [CPU, device("cuda")]


def test_every_cpu_is_the_one_cpu():
    assert require_available(CPU) is CPU
    assert require_available(device("cpu:3")) is CPU


@pytest.mark.parametrize("name", ["cuda", "cuda:1", "mps"])
def test_other_devices_are_refused_with_a_remedy(name):
    error = RuntimeError if name == "mps" else AssertionError  # as torch has it
    with pytest.raises(error, match=f"on device '{name}': only cpu can hold.*use 'cpu'"):
        require_available(device(name))


def test_an_array_library_makes_its_devices_available(two_gpus):
    # A tensor made on "cuda" says which one it is on, as in torch.
    assert require_available(device("cuda")) is device("cuda:0")
    assert require_available(device("cuda:1")) is device("cuda:1")
    with pytest.raises(RuntimeError, match=r"number of 'cuda' devices is 2.*smaller index"):
        require_available(device("cuda:2"))
