"""Packages are checked for what must be in them, and their version is written once."""

import ast
import re
import tomllib
import zipfile
from pathlib import Path

import pytest

import pullback
from pullback import installed
from tools import dist, long_description, smoke

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def test_the_version_is_written_in_one_place():
    assert "version" in PROJECT["project"]["dynamic"]
    source = (ROOT / PROJECT["tool"]["hatch"]["version"]["path"]).read_text(encoding="utf-8")
    pattern = PROJECT["tool"]["hatch"]["version"]["pattern"]
    assert re.search(pattern, source)["version"] == installed.version()
    assert pullback.__pullback_version__ == installed.version()


def test_the_changelog_begins_with_this_version():
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(r"^## ([\d.]+)", changelog, re.MULTILINE)[1] == installed.version()


def test_a_wheel_that_lacks_a_file_or_has_a_strange_one_is_refused(tmp_path):
    wheel = tmp_path / "pullback-0.1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("pullback/py.typed", "")
        archive.writestr("tests/conftest.py", "")
        archive.writestr("pullback_command.py", "")
        archive.writestr("pullback_examples/pinn.py", "")
        archive.writestr("pullback-0.1.0.dist-info/METADATA", "")
    said = list(dist.wheel_problems(wheel))
    assert any("lacks pullback/core/explain/absent.txt" in line for line in said)
    assert any("has tests/conftest.py too" in line for line in said)
    assert any("lacks pullback_examples/vae.py" in line for line in said)
    right = ("py.typed", "METADATA", "pullback_command.py", "pinn.py")
    assert not any(name in line for line in said for name in right)


def test_what_stays_out_of_the_wheel_is_imported_by_nothing_in_it():
    out = dist.left_out()
    assert all((ROOT / name).exists() for name in out)
    modules = {name.removesuffix(".py").replace("/", ".") for name in out}
    for path in (ROOT / "pullback").rglob("*.py"):
        text = path.read_text(encoding="utf-8")
        named = any(module.rpartition(".")[2] in text for module in modules)
        if path.relative_to(ROOT).as_posix() in out or not named:
            continue
        for node in ast.walk(ast.parse(text)):
            if isinstance(node, ast.Import):
                found = {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                found = {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
            else:
                continue
            assert not found & modules, path


def test_every_python_found_is_one_that_is_supported():
    found = dist.pythons()
    assert found
    assert min(found) >= dist.OLDEST


def test_the_smoke_test_passes_here_too(tmp_path):
    smoke.first_gradient()
    smoke.training(tmp_path)
    smoke.transforms()
    smoke.data_files(tmp_path)


def test_workflows_run_targets_of_the_makefile():
    workflow = (ROOT / ".github" / "workflows" / "check.yml").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = set(re.findall(r"run: make (\w+)", workflow))
    assert {"test", "dist", "docs"} <= named <= targets


@pytest.mark.parametrize(
    ("prefix", "command"),
    [
        ("/home/me/.local/pipx/venvs/pullback", "pipx inject pullback scipy"),
        ("/usr", "python -m pip install scipy"),
    ],
)
def test_hints_name_a_command_for_how_pullback_was_installed(monkeypatch, prefix, command):
    monkeypatch.setattr("sys.prefix", prefix)
    monkeypatch.setattr(installed, "find_spec", lambda name: name)
    assert installed.install_command("scipy") == command


def test_hints_without_pip_name_uv_and_in_conda_name_conda(monkeypatch, tmp_path):
    monkeypatch.setattr("sys.prefix", str(tmp_path))
    monkeypatch.setattr(installed, "find_spec", lambda name: None)
    assert installed.install_command("scipy") == "uv pip install scipy"
    (tmp_path / "conda-meta").mkdir()
    assert installed.install_command("scipy") == "conda install -c conda-forge scipy"


def test_no_hint_names_an_extra_that_no_index_has():
    sources = (ROOT / "pullback").rglob("*.py")
    assert [f.name for f in sources if re.search(r"install '?pullback\[", f.read_text())] == []


def test_links_of_the_long_description_lead_somewhere_outside_of_a_checkout():
    text = "![a](docs/a.png) [b](docs/b.md) [c](https://example.org)\n```\n[d](e)\n```\n"
    somewhere = "https://example.org/pullback"
    assert long_description.with_addresses(text, somewhere, "1.2") == (
        "![a](https://example.org/pullback/raw/v1.2/docs/a.png) "
        "[b](https://example.org/pullback/blob/v1.2/docs/b.md) [c](https://example.org)\n"
        "```\n[d](e)\n```\n"
    )
    nowhere = long_description.with_addresses(text, None, "1.2")
    assert nowhere == " b [c](https://example.org)\n```\n[d](e)\n```\n"
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert dist.inner(readme)
    for source in (somewhere, None):
        assert dist.inner(long_description.with_addresses(readme, source, "1.2")) == []


def test_a_wheel_whose_description_links_into_the_checkout_is_refused(tmp_path):
    wheel = tmp_path / "pullback-0.1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("pullback-0.1.0.dist-info/METADATA", "Name: pullback\n\n[a](docs/a.md)\n")
    assert any("](docs/a.md)" in line for line in dist.wheel_problems(wheel))
