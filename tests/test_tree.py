"""The tree: few folders, each of a tier; public import paths are file paths; tests mirror it."""

import re
from pathlib import Path

import pytest

import pullback
from generate import tree
from tests.core.test_listing import MODULES, OBJECTS

ROOT = Path(__file__).parents[1]
PACKAGE = Path(pullback.__file__).parent
FOLDERS = sorted(p.name for p in PACKAGE.iterdir() if p.is_dir() and p.name != "__pycache__")
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
# Tier -> its folders, as the page has them.
TIERS = {
    tier: re.findall(r"`(\w+)/`", folders)
    for tier, folders in re.findall(r"^\| \[(.*?)\]\(architecture/.*?\) \| (.*?) \|", PAGE, re.M)
}
# Folders of tests that go through several folders of the package, or through what is beside it.
ACROSS = {"benchmarks", "differential", "docs", "examples", "generate", "programs", "stress"}
ACROSS |= {"mutate", "tools", "types", "wasm"}


def test_a_reader_sees_25_folders_at_most():
    assert len(FOLDERS) <= 25


@pytest.mark.parametrize("folder", FOLDERS)
def test_the_first_line_of_a_folder_says_its_tier(folder):
    first = (PACKAGE / folder / "__init__.py").read_text(encoding="utf-8").partition("\n")[0]
    tier = re.match(r'"""([^:]+): \S', first)
    assert tier is not None
    assert folder in TIERS[tier[1]]


@pytest.mark.parametrize("name", sorted(MODULES.keys() - OBJECTS - {"pullback"}))
def test_a_public_module_is_found_by_its_import_path(name):
    inside = Path(*name.split(".")[1:])
    places = {
        folder / file
        for folder in (PACKAGE, PACKAGE / "torch_names")
        for file in (inside.with_suffix(".py"), inside / "__init__.py")
    }
    assert Path(MODULES[name].__file__) in places


def test_the_architecture_is_one_page_with_one_for_each_tier():
    assert len(PAGE.splitlines()) < 120
    assert len(TIERS) == 8
    assert sorted(folder for folders in TIERS.values() for folder in folders) == FOLDERS


def test_the_core_to_study_can_be_read_in_a_day():
    files = tree.core_files(PAGE)
    assert len(files) == len(set(files)) >= 15
    assert sum(len(file.read_bytes().splitlines()) for file in files) < 8000


def test_folders_of_tests_are_folders_of_the_package():
    tested = {p.name for p in (ROOT / "tests").iterdir() if p.is_dir() and any(p.rglob("*.py"))}
    assert tested - ACROSS <= set(FOLDERS)
