"""Results with names have torch's types, found under `return_types`."""

import pickle

import pytest

import pullback as torch


@pytest.mark.parametrize("name", torch.return_types.__all__)
def test_every_listed_class_exists_and_says_its_fields(name):
    found = getattr(torch.return_types, name)
    assert found.__name__ == name
    assert found.n_fields == len(found.fields)


def test_results_are_of_these_classes():
    x = torch.arange(4.0).reshape(2, 2)
    assert type(x.max(0)) is torch.return_types.max
    assert type(torch.frexp(x)) is torch.return_types.frexp
    assert type(torch.linalg.slogdet(x)) is torch.return_types.linalg_slogdet
    assert torch.frexp(x).mantissa.shape == (2, 2)


def test_torchs_names_of_results_with_out_mean_the_same_classes():
    x = torch.arange(4.0).reshape(2, 2)
    made = torch.max(x, 0, out=(torch.empty(2), torch.empty(2, dtype=torch.int64)))
    assert isinstance(made, torch.return_types.max_out)
    assert torch.return_types.sort_out.n_fields == 2
    with pytest.raises(AttributeError):
        torch.return_types.none_of_them_out


def test_they_survive_pickling():
    result = torch.ones(2).sort()
    assert type(pickle.loads(pickle.dumps(result))) is torch.return_types.sort


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="no_such"):
        _ = torch.return_types.no_such
