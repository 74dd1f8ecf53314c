"""Collating: tensors stacked, numbers as tensors, through containers of every kind."""

from collections import OrderedDict, deque, namedtuple

import numpy
import pytest

import pullback as torch
from pullback.utils.data import default_collate, default_convert
from pullback.utils.data._utils.collate import collate, default_collate_fn_map

Pair = namedtuple("Pair", "a b")


def test_numbers_have_the_dtype_of_their_kind():
    assert default_collate([1, 2]).dtype == torch.int64
    assert default_collate([1.5, 2]).dtype == torch.float64
    assert default_collate([True]).dtype == torch.bool
    assert default_collate([numpy.float32(1)]).dtype == torch.float32
    assert default_collate([numpy.array([1], "int16")]).dtype == torch.int16


def test_containers_keep_their_class():
    assert default_collate([(1, "a"), (2, "b")])[1] == ("a", "b")
    assert isinstance(default_collate([Pair(1, 2)]), Pair)
    assert isinstance(default_collate([OrderedDict(a=1)]), OrderedDict)
    assert isinstance(default_collate([deque([1, 2])]), deque)
    assert isinstance(default_collate([range(2)]), list)
    assert default_collate([{"a": torch.ones(2)}, {"a": torch.zeros(2)}])["a"].shape == (2, 2)


def test_what_has_no_rule_is_refused():
    for item in (None, {1}, 1j, numpy.array(["a"])):
        with pytest.raises(TypeError, match="collate_fn"):
            default_collate([item])
    with pytest.raises(RuntimeError, match=r"\[1, 2\]"):
        default_collate([[1], [1, 2]])


def test_a_map_says_what_is_done_with_a_class_and_its_subclasses():
    class Sentence(str):
        __slots__ = ()

    table = {**default_collate_fn_map, str: lambda items, *, collate_fn_map: " ".join(items)}
    assert collate([Sentence("a"), Sentence("b")], collate_fn_map=table) == "a b"


def test_convert_turns_arrays_into_tensors_and_leaves_the_rest():
    got = default_convert({"x": (numpy.ones(2), "a"), "y": Pair(numpy.int32(3), None)})
    assert got["x"][0].tolist() == [1, 1]
    assert got["x"][1] == "a"
    assert got["y"].a.dtype == torch.int32
    words = numpy.array(["a"])
    assert default_convert(words) is words
