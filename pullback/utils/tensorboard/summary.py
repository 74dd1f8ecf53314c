"""Summaries: one logged thing each, as tensorboard's messages."""

from __future__ import annotations

import struct
import zlib
from functools import cache
from importlib import import_module
from typing import Any

import numpy

from pullback.core.tensor import Tensor

__all__ = ["histogram", "hparams", "image", "pr_curve", "scalar", "tensor", "text"]

Array = numpy.ndarray[Any, Any]


def as_array(value: Any) -> Array:
    """Numbers, tensors and lists of them as an array; tensors leave their history."""
    if isinstance(value, Tensor):
        array: Array = value.detach()._array
        return array
    if isinstance(value, list | tuple) and value and isinstance(value[0], Tensor):
        return numpy.stack([as_array(one) for one in value])
    return numpy.asarray(value)


def _proto(name: str) -> Any:
    return import_module(f"tensorboard.compat.proto.{name}_pb2")


def _summary(tag: str, plugin: str | None = None, content: bytes = b"", **value: Any) -> Any:
    summary = _proto("summary")
    if plugin is not None:
        data = summary.SummaryMetadata.PluginData(plugin_name=plugin, content=content)
        value["metadata"] = summary.SummaryMetadata(plugin_data=data)
    return summary.Summary(value=[summary.Summary.Value(tag=tag, **value)])


# Numbers ----------------------------------------------------------------------------------------


def scalar(tag: str, value: Any, *, new_style: bool = False, double: bool = False) -> Any:
    """One number."""
    array = as_array(value)
    if array.size != 1:
        raise ValueError(f"add_scalar: {tag!r} must be one number, got shape {array.shape}.")
    number = float(array.reshape(()))
    if not new_style and not double:
        return _summary(tag, simple_value=number)
    kind = numpy.float64 if double else numpy.float32
    return _summary(tag, "scalars", tensor=_tensor_proto(numpy.array(number, kind)))


def tensor(tag: str, value: Any) -> Any:
    """All elements of a tensor."""
    return _summary(tag, "tensor", tensor=_tensor_proto(as_array(value)))


def _tensor_proto(array: Array) -> Any:
    types, shapes = _proto("types"), _proto("tensor_shape")
    code = getattr(types, f"DT_{_KINDS[array.dtype.name]}")
    sizes = [shapes.TensorShapeProto.Dim(size=size) for size in array.shape]
    return _proto("tensor").TensorProto(
        dtype=code,
        tensor_shape=shapes.TensorShapeProto(dim=sizes),
        tensor_content=numpy.ascontiguousarray(array).tobytes(),
    )


_KINDS = {
    "float16": "HALF",
    "float32": "FLOAT",
    "float64": "DOUBLE",
    "int8": "INT8",
    "uint8": "UINT8",
    "int16": "INT16",
    "int32": "INT32",
    "int64": "INT64",
    "bool": "BOOL",
    "complex64": "COMPLEX64",
    "complex128": "COMPLEX128",
}


def text(tag: str, value: str) -> Any:
    """A text, which is shown as Markdown."""
    types, shapes = _proto("types"), _proto("tensor_shape")
    message = _proto("tensor").TensorProto(
        dtype=types.DT_STRING,
        tensor_shape=shapes.TensorShapeProto(dim=[shapes.TensorShapeProto.Dim(size=1)]),
        string_val=[value.encode()],
    )
    return _summary(f"{tag}/text_summary", "text", tensor=message)


# Distributions ----------------------------------------------------------------------------------


@cache
def _default_bins() -> tuple[float, ...]:
    """Edges that grow by a tenth from 1e-12 to 1e20, and their negatives: tensorboard's."""
    steps = numpy.arange(numpy.ceil(numpy.log(1e32) / numpy.log(1.1)) + 1)
    positive = 1e-12 * 1.1**steps
    positive = positive[positive < 1e20]
    return (*(-positive[::-1]), 0.0, *positive)


def histogram(tag: str, values: Any, bins: Any = "tensorflow", max_bins: int | None = None) -> Any:
    """How many values lie between edges."""
    array = as_array(values).astype(numpy.float64).reshape(-1)
    if not array.size:
        raise ValueError(f"add_histogram: {tag!r} has no values.")
    edges = numpy.array(_default_bins()) if isinstance(bins, str) and bins == "tensorflow" else bins
    counts, limits = numpy.histogram(array, bins=edges)
    if max_bins is not None and len(counts) > max_bins:
        step = -(-len(counts) // max_bins)
        counts = numpy.add.reduceat(counts, numpy.arange(0, len(counts), step))
        limits = numpy.append(limits[:-1:step], limits[-1])
    filled = numpy.flatnonzero(counts)
    if not filled.size:
        raise ValueError(f"add_histogram: no value of {tag!r} lies between the edges.")
    first, last = filled[0], filled[-1] + 1
    # One empty bucket before the first tells where that begins.
    shown = numpy.append(0, counts[first:last])
    message = _proto("summary").HistogramProto(
        min=array.min(),
        max=array.max(),
        num=array.size,
        sum=array.sum(),
        sum_squares=array @ array,
        bucket_limit=limits[first : last + 1].tolist(),
        bucket=shown.tolist(),
    )
    return _summary(tag, histo=message)


def pr_curve(
    tag: str, labels: Any, predictions: Any, num_thresholds: int = 127, weights: Any = None
) -> Any:
    """Precision and recall at many thresholds."""
    thresholds = min(num_thresholds, 127)
    truth = as_array(labels).astype(bool).reshape(-1)
    scores = as_array(predictions).astype(numpy.float64).reshape(-1)
    weight = numpy.ones_like(scores) if weights is None else as_array(weights).reshape(-1)
    bucket = numpy.floor(scores * (thresholds - 1)).astype(int)
    true = numpy.bincount(bucket, weight * truth, thresholds)
    false = numpy.bincount(bucket, weight * ~truth, thresholds)
    # A threshold counts what lies at it or above.
    positive, wrong = true[::-1].cumsum()[::-1], false[::-1].cumsum()[::-1]
    missed, right = positive[0] - positive, wrong[0] - wrong
    tiny = 1e-7
    precision = positive / numpy.maximum(tiny, positive + wrong)
    recall = positive / numpy.maximum(tiny, positive + missed)
    table = numpy.stack([positive, wrong, right, missed, precision, recall]).astype(numpy.float32)
    plugin = import_module("tensorboard.plugins.pr_curve.plugin_data_pb2")
    content = plugin.PrCurvePluginData(version=0, num_thresholds=thresholds).SerializeToString()
    return _summary(tag, "pr_curves", content, tensor=_tensor_proto(table))


# Images -----------------------------------------------------------------------------------------


def image(tag: str, value: Any, dataformats: str = "CHW") -> Any:
    """An image, or a batch of them side by side; floats from 0 to 1, or bytes."""
    pixels = _in_order(as_array(value), dataformats)
    if pixels.dtype.kind == "f":
        pixels = (pixels * 255).clip(0, 255)
    pixels = pixels.astype(numpy.uint8)
    height, width, channels = pixels.shape
    message = _proto("summary").Summary.Image(
        height=height, width=width, colorspace=channels, encoded_image_string=_png(pixels)
    )
    return _summary(tag, image=message)


def _in_order(array: Array, dataformats: str) -> Array:
    """Height, width, channels; a batch becomes a grid."""
    letters = dataformats.upper()
    if array.ndim != len(letters) or len(set(letters)) != len(letters):
        raise ValueError(f"add_image: dataformats={dataformats!r} does not fit {array.shape}.")
    if "C" not in letters:
        array, letters = array[..., None], letters + "C"
    if "N" not in letters:
        array, letters = array[None], "N" + letters
    images = array.transpose([letters.index(letter) for letter in "NHWC"])
    count, height, width, channels = images.shape
    columns = min(8, count)
    rows = -(-count // columns)
    grid = numpy.zeros((rows, height, columns, width, channels), images.dtype)
    for number, one in enumerate(images):
        grid[number // columns, :, number % columns] = one
    whole = grid.reshape(rows * height, columns * width, channels)
    return whole.repeat(3, -1) if channels == 1 else whole


def _png(pixels: Array) -> bytes:
    """The bytes of a PNG file; eight bits a channel need no library."""
    height, width, channels = pixels.shape
    rows = numpy.zeros((height, 1 + width * channels), numpy.uint8)  # each begins with filter 0
    rows[:, 1:] = pixels.reshape(height, -1)
    colour = {3: 2, 4: 6}.get(channels)
    if colour is None:
        raise ValueError(f"add_image: an image has 1, 3 or 4 channels, got {channels}.")
    head = struct.pack(">IIBBBBB", width, height, 8, colour, 0, 0, 0)
    parts = [(b"IHDR", head), (b"IDAT", zlib.compress(rows.tobytes())), (b"IEND", b"")]
    return b"\x89PNG\r\n\x1a\n" + b"".join(
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data))
        for name, data in parts
    )


# Hyperparameters --------------------------------------------------------------------------------


def hparams(
    values: dict[str, Any], metrics: dict[str, Any], choices: dict[str, list[Any]] | None = None
) -> list[Any]:
    """The parameters of a run, what they may be, and the names of its results: three messages."""
    protos = import_module("tensorboard.plugins.hparams.plugin_data_pb2")
    api = import_module("tensorboard.plugins.hparams.api_pb2")
    infos, session = [], protos.SessionStartInfo()
    for name, value in values.items():
        kind, message = _parameter(name, value)
        session.hparams[name].CopyFrom(message)
        info = api.HParamInfo(name=name, type=getattr(api, f"DATA_TYPE_{kind}"))
        for choice in (choices or {}).get(name, ()):
            info.domain_discrete.values.append(_parameter(name, choice)[1])
        infos.append(info)
    named = [api.MetricInfo(name=api.MetricName(tag=name)) for name in metrics]
    experiment = api.Experiment(hparam_infos=infos, metric_infos=named)
    ended = protos.SessionEndInfo(status=api.STATUS_SUCCESS)
    contents = {
        "_hparams_/experiment": {"experiment": experiment},
        "_hparams_/session_start_info": {"session_start_info": session},
        "_hparams_/session_end_info": {"session_end_info": ended},
    }
    return [
        _summary(tag, "hparams", protos.HParamsPluginData(version=0, **data).SerializeToString())
        for tag, data in contents.items()
    ]


def _parameter(name: str, value: Any) -> tuple[str, Any]:
    """The kind of a parameter's value, and its message."""
    plain = as_array(value).item() if isinstance(value, Tensor) else value
    message = import_module("google.protobuf.struct_pb2").Value
    if isinstance(plain, bool):
        return "BOOL", message(bool_value=plain)
    if isinstance(plain, int | float):
        return "FLOAT64", message(number_value=plain)
    if isinstance(plain, str):
        return "STRING", message(string_value=plain)
    raise ValueError(f"add_hparams: {name!r} must be a number, bool or str, got {plain!r}.")
