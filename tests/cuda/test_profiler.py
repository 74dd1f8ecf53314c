"""The profiler asks the device too: times by operator and node, and rows in the trace."""

import json

import pytest

import pullback as torch

pytestmark = pytest.mark.usefixtures("library")


@pytest.fixture
def profiled():
    x = torch.ones(64, 64, device="cuda", requires_grad=True)
    activities = [torch.profiler.ProfilerActivity.CPU, torch.profiler.ProfilerActivity.CUDA]
    with torch.profiler.profile(activities=activities) as found:
        (x @ x).exp().sum().backward()
    return found


def test_operators_and_nodes_have_the_time_of_the_device(profiled):
    assert torch.profiler.ProfilerActivity.CUDA in torch.profiler.supported_activities()
    events = {event.name: event for event in profiled.events()}
    for name in ("aten::matmul", "aten::exp", "ExpBackward0"):
        if name == "aten::matmul" and name not in events:
            name = "aten::mm"
        event = events[name]
        assert event.device_time_total > 0
        assert event.device_index == 0
        assert event.kernels[0].duration == event.device_time_total
    whole = events["autograd::engine::evaluate_function: ExpBackward0"]
    assert whole.self_device_time_total == 0  # all of it is the node's


def test_sums_and_the_table_have_columns_of_the_device(profiled):
    sums = profiled.key_averages()
    exp = next(one for one in sums if one.key == "aten::exp")
    assert exp.device_time == exp.device_time_total > 0
    text = sums.table(sort_by="self_cuda_time_total")
    assert "Self CUDA %" in text
    assert "Self CUDA time total" in text


def test_the_trace_has_rows_of_the_device(profiled, tmp_path):
    path = tmp_path / "trace.json"
    profiled.export_chrome_trace(str(path))
    rows = json.loads(path.read_text())["traceEvents"]
    kernels = [row for row in rows if row.get("cat") == "kernel"]
    named = {row["args"]["name"] for row in rows if row["name"] == "process_name"}
    assert "cuda:0" in named
    assert {"aten::exp", "ExpBackward0"} <= {row["name"] for row in kernels}
    assert all(row["dur"] >= 0 and row["pid"] < 0 for row in kernels)


def test_without_the_activity_the_device_is_not_asked():
    x = torch.ones(3, device="cuda")
    with torch.autograd.profiler.profile() as found:
        x.exp()
    assert all(not event.kernels for event in found.function_events)
    assert "CUDA" not in found.key_averages().table()


def test_functions_of_the_user_are_marked_too():
    class Double(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, g):
            return g * 2

    x = torch.ones(3, device="cuda", requires_grad=True)
    with torch.autograd.profiler.profile(use_device="cuda", record_shapes=True) as found:
        Double.apply(x).sum().backward()
    events = {event.name: event for event in found.function_events}
    assert events["Double"].device_time_total > 0
    assert events["DoubleBackward"].device_time_total > 0
