"""The older vmap (T-110)."""

import pytest
from pullback._vmap_internals import _vmap, vmap

import pullback as torch

batch = torch.arange(6.0).reshape(3, 2)


def test_older_vmap_maps_and_points_to_the_newer():
    """T-110"""
    with pytest.warns(FutureWarning, match="vmap"):
        mapped = vmap(torch.sum)
    assert mapped(batch).tolist() == [1, 5, 9]
    assert mapped.__name__ == "sum"


def test_dimensions_are_chosen_as_in_the_newer_one():
    """T-110"""
    assert _vmap(lambda a, b: a + b, in_dims=(1, None))(batch, batch[:, 0]).shape == (2, 3)
    assert _vmap(lambda d: d["a"], in_dims=({"a": 0},))({"a": batch}).shape == (3, 2)
    first, second = _vmap(lambda v: (v, v), out_dims=(0, 1))(batch)
    assert first.shape == (3, 2)
    assert second.shape == (2, 3)


@pytest.mark.parametrize("result", [lambda v: [v], lambda v: {"a": v}, lambda v: 3, lambda v: None])
def test_results_are_tensors_or_tuples_of_them(result):
    """T-110"""
    for f in (result, lambda v: (v, result(v))):
        with pytest.raises(ValueError, match="tuple of Tensors"):
            _vmap(f)(batch)


def test_none_passes_where_it_is_allowed():
    """T-110"""
    first, second = _vmap(lambda v: (v, None), allow_none_pass_through=True)(batch)
    assert first.shape == (3, 2)
    assert second is None


@pytest.mark.parametrize("out_dims", [None, "a", (0,), (0, None), [0, 0]])
def test_bad_out_dims_are_refused(out_dims):
    """T-110"""
    with pytest.raises(ValueError, match="out_dims"):
        _vmap(lambda v: (v, v), out_dims=out_dims)(batch)


def test_random_numbers_are_refused():
    """T-110"""
    with pytest.raises(RuntimeError, match="random"):
        _vmap(lambda v: v + torch.rand(2))(batch)
