"""`torch.Stream` and `torch.Event` without an accelerator: nothing waits."""

import pytest

import pullback as torch


def test_work_of_the_cpu_is_always_done():
    stream, event = torch.Stream(), torch.Event()
    assert stream.query()
    assert event.query()
    assert stream.synchronize() is stream.wait_event(event) is event.wait() is None
    assert stream.device.type == event.device.type == "cpu"
    with stream as entered:
        assert entered == torch.Stream("cpu")
    assert hash(stream) == hash(torch.Stream())


def test_events_of_the_cpu_are_not_recorded():
    stream, event = torch.Stream(), torch.Event(enable_timing=True)
    for call in (stream.record_event, event.record, lambda: stream.wait_stream(stream)):
        with pytest.raises(RuntimeError, match="a CPU has no events"):
            call()
    with pytest.raises(RuntimeError, match=r"perf_counter"):
        event.elapsed_time(event)
    with pytest.raises(ValueError, match="enable_timing"):
        torch.Event().elapsed_time(event)


def test_a_device_that_is_not_there_is_refused():
    with pytest.raises((RuntimeError, AssertionError)):
        torch.Stream("xpu")
