"""SummaryWriter: what it writes, tensorboard's own reader finds."""

import importlib.util

import numpy
import pytest

import pullback as torch


@pytest.mark.skipif(importlib.util.find_spec("tensorboard") is not None, reason="it is installed")
def test_without_tensorboard_the_error_names_it():
    with pytest.raises(ImportError, match="install tensorboard"):
        torch.utils.tensorboard.SummaryWriter


@pytest.fixture
def log(tmp_path):
    pytest.importorskip("tensorboard")
    from pullback.utils.tensorboard import SummaryWriter

    with SummaryWriter(tmp_path) as writer:
        yield writer


def read(writer, run=""):
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    writer.flush()
    found = EventAccumulator(f"{writer.get_logdir()}/{run}", size_guidance={"tensors": 0})
    return found.Reload()


def test_scalars(log):
    for step in range(3):
        log.add_scalar("loss", torch.tensor(0.5 * step, requires_grad=True), step)
    log.add_scalar("exact", 1 / 3, 1, double_precision=True)
    found = read(log)
    assert [(event.step, event.value) for event in found.Scalars("loss")] == [
        *((0, 0.0), (1, 0.5), (2, 1.0))
    ]
    content = found.Tensors("exact")[0].tensor_proto.tensor_content
    assert numpy.frombuffer(content, "f8")[0] == 1 / 3
    with pytest.raises(ValueError, match="one number"):
        log.add_scalar("loss", torch.ones(2))


def test_several_scalars_are_runs_below(log):
    log.add_scalars("both", {"train": 1.0, "test": 2.0}, 7)
    assert read(log, "both_test").Scalars("both")[0].value == 2.0


def test_histograms(log):
    values = torch.tensor([-1.0, 0.5, 0.5, 3.0])
    log.add_histogram("weights", values, 1)
    log.add_histogram("edges", values, 1, bins=[-2, 0, 4], max_bins=1)
    found = read(log).Histograms("weights")[0].histogram_value
    assert (found.min, found.max, found.num, found.sum) == (-1, 3, 4, 3)
    assert sum(found.bucket) == 4
    assert len(found.bucket) == len(found.bucket_limit)
    assert read(log).Histograms("edges")[0].histogram_value.bucket[-1] == 4
    with pytest.raises(ValueError, match="no values"):
        log.add_histogram("empty", [])


def test_images(log):
    log.add_image("one", torch.ones(3, 4, 5), 1)
    log.add_image("grey", numpy.zeros((4, 5), numpy.uint8), 1, dataformats="HW")
    log.add_images("many", torch.zeros(10, 1, 4, 5), 1)
    found = read(log)
    sizes = {tag: found.Images(tag)[0] for tag in ("one", "grey", "many")}
    assert {tag: (one.height, one.width) for tag, one in sizes.items()} == {
        "one": (4, 5),
        "grey": (4, 5),
        "many": (8, 40),
    }
    assert sizes["one"].encoded_image_string.startswith(b"\x89PNG")
    with pytest.raises(ValueError, match="dataformats"):
        log.add_image("bad", torch.ones(3))
    with pytest.raises(ValueError, match="channels"):
        log.add_image("bad", torch.ones(2, 3, 3))


def test_texts_tensors_and_curves(log):
    log.add_text("note", "hello", 1)
    log.add_tensor("raw", torch.arange(3), 1)
    log.add_pr_curve("curve", torch.tensor([1, 0, 1]), torch.tensor([0.9, 0.2, 0.4]), 1)
    found = read(log)
    assert found.Tensors("note/text_summary")[0].tensor_proto.string_val[0] == b"hello"
    content = found.Tensors("raw")[0].tensor_proto.tensor_content
    assert numpy.frombuffer(content, "i8").tolist() == [0, 1, 2]
    curve = numpy.frombuffer(found.Tensors("curve")[0].tensor_proto.tensor_content, "f4")
    curve = curve.reshape(6, 127)
    assert curve[:, 0].tolist() == [2, 1, 0, 0, numpy.float32(2 / 3), 1]
    assert curve[0, 60] == 1


def test_hyperparameters(log):
    domain = {"name": ["a", "other"]}
    values = {"lr": 0.1, "name": "a", "flag": True}
    log.add_hparams(values, {"accuracy": 0.9}, domain, "first")
    found = read(log, "first")
    assert found.Scalars("accuracy")[0].value == pytest.approx(0.9)
    metadata = found.SummaryMetadata("_hparams_/experiment")
    assert metadata.plugin_data.plugin_name == "hparams"
    assert b"other" in metadata.plugin_data.content
    with pytest.raises(ValueError, match="'bad'"):
        log.add_hparams({"bad": [1]}, {})
    with pytest.raises(TypeError, match="dicts"):
        log.add_hparams([], {})


def test_what_is_refused_says_why(log):
    for name in ("graph", "embedding", "mesh", "video", "audio"):
        with pytest.raises(RuntimeError, match=rf"add_{name} is not possible here: .+ Use .+"):
            getattr(log, f"add_{name}")(None)


def test_a_closed_writer_goes_on_in_another_file(log):
    log.add_scalar("a", 1.0, 0)
    log.close()
    log.add_scalar("a", 2.0, 1)
    assert read(log).Scalars("a")[-1].value == 2.0
