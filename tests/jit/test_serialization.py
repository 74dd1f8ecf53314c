"""Scripts and traces are written and read again; archives of compiled programs are refused."""

import io
import zipfile

import pytest

import pullback as torch
from pullback import nn

X = torch.ones(1, 2)


def double(x):
    return x * 2


@pytest.mark.parametrize(
    "made",
    [
        lambda: torch.jit.script(nn.Sequential(nn.Linear(2, 2), nn.ReLU())),
        lambda: torch.jit.trace(nn.Sequential(nn.Linear(2, 2), nn.ReLU()), X),
        lambda: torch.jit.script(double),
        lambda: torch.jit.trace(double, X),
    ],
)
def test_programs_come_back(made, tmp_path):
    program = made()
    path = tmp_path / "program.pt"
    program.save(path) if hasattr(program, "save") else torch.jit.save(program, path)
    loaded = torch.jit.load(path, map_location="cpu")
    assert type(loaded) is type(program)
    assert torch.equal(loaded(X), program(X))


def test_extra_files_come_back():
    buffer = io.BytesIO()
    torch.jit.save(torch.jit.script(double), buffer, _extra_files={"note": "hello"})
    buffer.seek(0)
    extra = {"note": "", "other": ""}
    torch.jit.load(buffer, _extra_files=extra)
    assert extra == {"note": b"hello", "other": ""}


def test_archive_of_torchscript_is_refused_with_what_to_do(tmp_path):
    path = tmp_path / "compiled.pt"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("compiled/constants.pkl", b"")
    with pytest.raises(NotImplementedError, match="state_dict"):
        torch.jit.load(path)


def test_what_is_no_program_is_refused(tmp_path):
    with pytest.raises(TypeError, match=r"torch\.save"):
        torch.jit.save(nn.Linear(1, 1), tmp_path / "x")
    torch.save({"a": 1}, tmp_path / "x")
    with pytest.raises(RuntimeError, match=r"torch\.load"):
        torch.jit.load(tmp_path / "x")
    with pytest.raises(ValueError, match="no file"):
        torch.jit.load(tmp_path / "missing")
