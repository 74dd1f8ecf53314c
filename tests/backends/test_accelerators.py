"""The namespaces of accelerators where there is none: answers, harmless calls, clear errors."""

import operator

import pytest

import pullback as torch

KINDS = ["cuda", "xpu", "mps", "mtia"]


@pytest.mark.parametrize("kind", KINDS)
def test_no_device_is_there(kind):
    module = getattr(torch, kind)
    assert module.is_available() is False
    assert module.device_count() == 0
    module.manual_seed(3)  # waits for no device
    with pytest.raises((AssertionError, RuntimeError), match="is_available"):
        module.synchronize()


def test_the_accelerator_is_missing():
    assert torch.accelerator.is_available() is False
    assert torch.accelerator.current_accelerator() is None
    assert torch.accelerator.device_count() == 0
    with torch.accelerator.device_index(None):
        pass
    for ask in (torch.accelerator.synchronize, torch.accelerator.current_stream):
        with pytest.raises(RuntimeError, match="none can hold tensors"):
            ask()


def test_an_entry_among_the_holders_is_counted(monkeypatch):
    from pullback.core.device import HOLDERS, Holder

    monkeypatch.setitem(HOLDERS, "cuda", Holder(devices=2, is_accelerator=True))
    assert torch.cuda.is_available()
    assert torch.cuda.device_count() == torch.accelerator.device_count() == 2
    assert torch.accelerator.current_accelerator() == torch.device("cuda")


@pytest.mark.parametrize("kind", ["cuda", "xpu", "mtia", "ipu"])
def test_tensors_and_modules_cannot_go_there(kind):
    error = RuntimeError if kind == "ipu" else AssertionError
    for thing in (torch.ones(1), torch.nn.Linear(1, 1)):
        with pytest.raises(error, match=f"device '{kind}'"):
            getattr(thing, kind)()
        with pytest.raises(error, match=f"'{kind}:1'"):
            getattr(thing, kind)(1)
    with pytest.raises(error):
        torch.zeros(1, device=kind)


def test_the_cpu_is_a_device_too():
    stream = torch.cpu.Stream()
    with torch.cpu.stream(stream):
        assert torch.cpu.current_stream() is stream
    assert torch.cpu.current_stream() is not stream
    assert torch.cpu.Event().query()
    assert torch.cpu.device_count() == 1


@pytest.mark.parametrize("path", ["cuda.nvtx.range_start", "backends.mps.get_name"])
def test_modules_below_a_device_name_the_device_and_not_themselves(path):
    kind = "mps" if "mps" in path else "cuda"
    call = operator.attrgetter(path)(torch)
    assert call.__doc__.startswith(f"Needs a device of type '{kind}'")
    with pytest.raises((AssertionError, RuntimeError), match=rf"Ask {kind}\.is_available\(\)"):
        call()
    assert not operator.attrgetter(kind)(torch).is_available()
