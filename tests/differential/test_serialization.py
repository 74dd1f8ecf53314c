"""Files of one library, read by the other."""

import io

import pytest

import pullback

torch = pytest.importorskip("torch")


def saved(lib, obj):
    file = io.BytesIO()
    lib.save(obj, file)
    file.seek(0)
    return file


def samples(lib):
    x = lib.arange(6.0).reshape(2, 3)
    x.note = ["mine"]
    dtypes = ["float16", "float64", "complex64", "uint8", "int16", "uint16", "bool"]
    return {
        "base": x,
        "view": x.T,
        "leaf": lib.ones(2, requires_grad=True),
        "empty": lib.zeros(0, 3),
        "expanded": lib.ones(2).expand(3, 2),
        "number": lib.tensor(3),
        "dtypes": [lib.ones(2, dtype=getattr(lib, name)) for name in dtypes],
        "others": [
            lib.float32,
            lib.Size([1, 2]),
            lib.device("cpu"),
            lib.strided,
            1,
            "x",
            (None, b"y"),
        ],
    }


@pytest.mark.parametrize(("writer", "reader"), [(torch, pullback), (pullback, torch)])
def test_each_reads_the_others_files(writer, reader):
    made, expected = reader.load(saved(writer, samples(writer))), samples(reader)
    assert repr(made) == repr(expected)
    assert made["base"].note == ["mine"]
    assert made["view"].stride() == (1, 3)
    assert made["expanded"].stride() == (0, 1)
    made["base"][0, 1] = 99
    assert made["view"][1, 0] == 99


def test_bfloat16():
    pytest.importorskip("ml_dtypes")
    made = pullback.load(saved(torch, torch.ones(2, dtype=torch.bfloat16)))
    assert made.dtype is pullback.bfloat16


def test_parameters_and_state_dicts():
    layer = torch.nn.Linear(2, 3)
    made = pullback.load(saved(torch, layer.state_dict()))
    assert {name: x.tolist() for name, x in made.items()} == {
        name: x.tolist() for name, x in layer.state_dict().items()
    }
    parameter = pullback.load(saved(torch, layer.weight))
    assert isinstance(parameter, pullback.nn.Parameter)
    back = torch.load(saved(pullback, parameter))
    assert isinstance(back, torch.nn.Parameter)
    assert back.tolist() == layer.weight.tolist()
