"""torch.hub with folders on this machine, and nothing else."""

import os
import sys

import pytest

import pullback as torch
from pullback import hub
from pullback.utils import model_zoo


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "hubconf.py").write_text(
        "import neighbour\n"
        "dependencies = ['pullback']\n"
        "def model(width, scale=1):\n"
        "    'A model.'\n"
        "    return neighbour.FACTOR * width * scale\n"
        "def _hidden(): pass\n"
    )
    (tmp_path / "neighbour.py").write_text("FACTOR = 10\n")
    return tmp_path


@pytest.fixture(autouse=True)
def own_home(tmp_path, monkeypatch):
    monkeypatch.setattr(hub, "_hub_dir", None)
    monkeypatch.setenv("TORCH_HOME", str(tmp_path / "home"))


def test_models_of_a_folder(folder, monkeypatch):
    monkeypatch.delitem(__import__("sys").modules, "neighbour", raising=False)
    assert hub.list(folder) == ["model"]
    assert hub.help(folder, "model") == "A model."
    assert hub.load(str(folder), "model", 3, source="local", scale=2) == 60
    assert hub.load(folder, "model", 3) == 30


def test_a_repository_that_was_fetched_before_is_found(folder, tmp_path):
    hub.set_dir(tmp_path / "kept")
    place = tmp_path / "kept" / "owner_name_main"
    place.mkdir(parents=True)
    (place / "hubconf.py").write_text("def f(): return 'found'\n")
    assert hub.load("owner/name", "f") == "found"
    assert hub.get_dir() == str(tmp_path / "kept")


def test_where_models_are(tmp_path, monkeypatch):
    assert hub.get_dir() == os.path.join(str(tmp_path / "home"), "hub")
    monkeypatch.delenv("TORCH_HOME")
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    assert hub.get_dir() == "/cache/torch/hub"


def test_downloads_are_refused(folder, tmp_path):
    with pytest.raises(RuntimeError, match="nothing is downloaded"):
        hub.load("pytorch/vision:v0.10", "resnet18")
    with pytest.raises(RuntimeError, match="force_reload"):
        hub.load(folder, "model", 1, force_reload=True)
    with pytest.raises(RuntimeError, match="nothing is downloaded"):
        hub.download_url_to_file("https://example.org/a.pt", str(tmp_path / "a.pt"))
    with pytest.raises(RuntimeError, match=r"checkpoints.a\.pt"):
        hub.load_state_dict_from_url("https://example.org/a.pt")


def test_weights_that_are_there_are_loaded(tmp_path):
    torch.save({"w": torch.ones(2)}, tmp_path / "a.pt")
    for load in (hub.load_state_dict_from_url, model_zoo.load_url):
        loaded = load("https://example.org/a.pt?x=1", model_dir=str(tmp_path))
        assert loaded["w"].tolist() == [1, 1]


def test_mistakes(folder, tmp_path):
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match=r"hubconf\.py"):
        hub.load(tmp_path / "empty", "f", source="local")
    with pytest.raises(ValueError, match="source"):
        hub.load(folder, "model", source="elsewhere")
    with pytest.raises(ValueError, match="owner/repository"):
        hub.load("nowhere", "f")
    with pytest.raises(RuntimeError, match="'other'"):
        hub.load(folder, "other", source="local")
    with pytest.raises(ValueError, match="named by a str"):
        hub.load(folder, 3, source="local")
    (folder / "hubconf.py").write_text("dependencies = ['no_such_package']\n")
    with pytest.raises(RuntimeError, match="no_such_package"):
        hub.list(folder)


def test_a_progress_bar_is_there_with_and_without_tqdm(monkeypatch):
    monkeypatch.setitem(sys.modules, "tqdm", None)
    with model_zoo.tqdm(range(3), total=3, disable=True) as bar:
        assert list(bar) == [0, 1, 2]
    assert bar.n == 3
    with pytest.raises(AttributeError, match="no_such"):
        hub.no_such
