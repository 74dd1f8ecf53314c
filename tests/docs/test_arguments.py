"""Every parameter of every public callable is described, in a docstring or in the shared table."""

import fnmatch
import inspect
import types

import pytest

import pullback as torch
from pullback import nn
from tools import arguments, public_modules, reference

pytestmark = pytest.mark.filterwarnings("ignore")  # reading old names warns, as in torch


def every():
    for path, title in reference.MODULES.items():
        for name in reference.public_names(path):
            yield f"{title}.{name}", getattr(reference.found(path), name)


# Inner modules whose parameters need no words: Python's own classes, and named tuples.
NO_WORDS = {
    *("fx.immutable_collections", "installed", "multiprocessing.pool", "multiprocessing.queue"),
    *("return_types", "utils.collect_env"),
}


def inner():
    """What is in modules that have no page of their own."""
    found = public_modules.found()
    for path, names in public_modules.without_page().items():
        if path not in NO_WORDS:
            values = ((f"torch.{path}.{name}", getattr(found[path], name)) for name in names)
            yield from (
                one for one in values if inspect.isclass(one[1]) or inspect.isroutine(one[1])
            )


def test_every_parameter_of_every_public_callable_is_described():
    missing = [
        f"{title}({parameter.name})"
        for title, value in [*every(), *inner()]
        for parameter in arguments.parameters(title, value)
        if parameter.name not in arguments.described(title, value)
    ]
    assert missing == []


def test_every_public_module_has_a_page_or_a_reason_to_have_none():
    assert set(public_modules.without_page()) == set(public_modules.NO_PAGE)


def test_public_modules_are_found_by_names_and_by_torchs_list():
    found = public_modules.found()
    assert {"autograd.numbers", "backends.native", "nn.functional", "cuda.nccl"} <= set(found)
    assert not {"core", "engine", "compiled", "distributed.engines"} & set(found)


def test_a_new_module_is_noticed(monkeypatch):
    shapes = types.ModuleType("pullback.shapes")
    shapes.volume = lambda sides: sides
    monkeypatch.setattr(torch, "shapes", shapes, raising=False)
    monkeypatch.setattr(torch, "__dir__", lambda: ["shapes"])
    assert public_modules.without_page()["shapes"] == ["volume"]


def test_args_sections_name_parameters_that_exist():
    unknown = []
    for title, value in [*every(), *inner()]:
        own = arguments._of_docstring(inspect.getdoc(value) or "")
        names = {parameter.name for parameter in arguments.parameters(title, value)}
        if not title.startswith("torch.Tensor."):  # a docstring of the function names the receiver
            unknown += [f"{title}({name})" for name in own.keys() - names]
    assert unknown == []


def test_every_shared_description_is_used():
    used = set()
    for title, value in every():
        used |= arguments.described(title, value).items()
    spare = [
        (section, name)
        for section, texts in arguments._file().items()
        for name, text in texts.items()
        if (name, text) not in used
    ]
    assert spare == []


# Modules that hold others, and what others are made of: nothing has a shape of its own.
NO_SHAPE = {
    *("Container", "DataParallel", "Module", "ModuleDict", "ModuleList", "ParameterDict"),
    *("ParameterList", "RNNBase", "RNNCellBase", "Sequential"),
}


def test_every_layer_and_loss_says_its_shapes():
    home = reference.found("nn")
    layers = {
        name: value
        for name in reference.public_names("nn")
        if inspect.isclass(value := getattr(home, name)) and issubclass(value, home.Module)
    }
    without = {
        name
        for name, value in layers.items()
        if not arguments.shapes(f"torch.nn.{name}", inspect.getdoc(value) or "")
    }
    assert without == NO_SHAPE


def test_every_shared_shape_belongs_to_a_layer():
    names = [f"torch.nn.{name}" for name in reference.public_names("nn")]
    patterns = [each for section in arguments._file("shapes.toml") for each in section.split()]
    assert [one for one in patterns if not fnmatch.filter(names, one)] == []


# Input, and the shape that comes out by the words of shapes.toml.
SHAPES = {
    "GLU()": ((2, 6), (2, 3)),
    "ConstantPad1d((1, 2), 0.0)": ((2, 3, 5), (2, 3, 8)),
    "ReflectionPad2d((1, 2, 3, 1))": ((3, 5, 6), (3, 9, 9)),
    "ZeroPad3d((1, 2, 3, 4, 5, 6))": ((1, 2, 2, 2), (1, 13, 9, 5)),
    "PixelShuffle(2)": ((1, 8, 3, 4), (1, 2, 6, 8)),
    "PixelUnshuffle(2)": ((1, 2, 6, 8), (1, 8, 3, 4)),
    "Upsample(scale_factor=1.5)": ((1, 2, 3), (1, 2, 4)),
    "ConvTranspose1d(2, 3, 3, 2, 1, 1, dilation=2)": ((1, 2, 5), (1, 3, 12)),
    "LPPool1d(2, 3)": ((1, 2, 8), (1, 2, 2)),
    "FractionalMaxPool2d(2, output_ratio=0.5)": ((2, 7, 8), (2, 3, 4)),
    "Unfold((2, 3))": ((1, 2, 4, 5), (1, 12, 9)),
    "Fold((4, 5), (2, 3))": ((1, 12, 9), (1, 2, 4, 5)),
    "Flatten(1, 2)": ((2, 3, 4, 5), (2, 12, 5)),
    "Unflatten(1, (3, 2))": ((2, 6), (2, 3, 2)),
    "RNNCell(3, 4)": ((2, 3), (2, 4)),
    "Softmax2d()": ((2, 3, 4), (2, 3, 4)),
    "FeatureAlphaDropout()": ((2, 3, 4), (2, 3, 4)),
    "ChannelShuffle(2)": ((1, 4, 3), (1, 4, 3)),
    "RMSNorm((3, 4))": ((2, 3, 4), (2, 3, 4)),
}


@pytest.mark.parametrize("layer", SHAPES)
def test_layers_have_the_shapes_that_are_told(layer):
    given, shown = SHAPES[layer]
    assert tuple(eval(f"nn.{layer}", {"nn": nn})(torch.zeros(given)).shape) == shown


def test_layers_that_are_said_to_keep_the_shape_do():
    (kept,) = [one for one in arguments._file("shapes.toml") if "torch.nn.ReLU " in one]
    for title in kept.split():
        layer = getattr(nn, title.rpartition(".")[2])
        made = layer(0.1, 2.0) if layer is nn.Threshold else layer()
        if "dim" in inspect.signature(layer).parameters:
            made = layer(dim=-1)
        assert made(torch.zeros(2, 3, 4)).shape == (2, 3, 4)
        assert made(torch.zeros(3)).shape == (3,)


def documented(size, *rest, mode="plain"):
    """Do it.

    Args:
        size: How large,
            and how wide.
        *rest: What is
            left.

    Returns:
        What was done.

    >>> documented(1)
    """


def test_the_docstring_wins_over_the_shared_table():
    texts = arguments.described("torch.full", documented)
    assert texts["size"] == "How large, and how wide."
    assert texts["rest"] == "What is left."


def test_a_particular_section_wins_over_a_general_one():
    def convolve(input, bias):
        pass

    assert arguments.described("torch.nn.Conv2d", convolve)["bias"].startswith("Whether")
    assert arguments.described("torch.conv2d", convolve)["bias"].startswith("Tensor")


def test_the_table_has_name_default_and_description():
    rows = list(arguments.table("torch.somewhere", documented))
    assert "| `size` |  | How large, and how wide. |" in rows
    assert "| `*rest` |  | What is left. |" in rows
    assert any(row.startswith("| `mode` | `'plain'` |") for row in rows)


def test_sections_of_a_docstring_become_headings_lists_and_fences():
    text = "\n".join(reference._entry("torch", "documented", documented))
    assert "Args" not in text
    assert "**Returns**\n\n- What was done." in text
    assert "```python\n>>> documented(1)\n```" in text


def test_a_method_leaves_out_its_receiver_and_an_enumeration_its_machinery():
    import pullback as torch

    names = [p.name for p in arguments.parameters("torch.Tensor.abs", torch.Tensor.abs)]
    assert "input" not in names
    assert "self" not in names
    assert arguments.parameters("torch.distributed.ReduceOp", torch.distributed.ReduceOp) == []
