"""Builds wheel and sdist, checks what is in them, and tries the wheel on every Python there is.

`make dist`. The wheel is then tried in a clean environment of each Python from 3.11 on that is
found on the PATH or under pyenv, with nothing but its dependencies: `tools/smoke.py` runs there.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"
LARGEST = 3_700_000
OLDEST = (3, 11)
# What must be in a wheel beside Python files.
WANTED = (
    "pullback/py.typed",
    "pullback/core/explain/absent.txt",
    "pullback/checking/torch_names.txt",
    "pullback/autograd/show/data/dagre.LICENSE.txt",
)


def main() -> int:
    """Build, check, try; the exit status."""
    shutil.rmtree(DIST, ignore_errors=True)
    _run(sys.executable, "-m", "build", "--no-isolation", "--outdir", str(DIST), str(ROOT))
    (wheel,) = DIST.glob("*.whl")
    (sdist,) = DIST.glob("*.tar.gz")
    _run(sys.executable, "-m", "twine", "check", "--strict", str(wheel), str(sdist))
    problems = [*wheel_problems(wheel), *sdist_problems(sdist, wheel)]
    for problem in problems:
        print(f"dist: {problem}")
    if "[project.urls]" not in (ROOT / "pyproject.toml").read_text(encoding="utf-8"):
        print("dist: the project has no public address yet; give [project.urls] before a release")
    found = pythons()
    for version, python in sorted(found.items()):
        print(f"dist: trying on {'.'.join(map(str, version))}", flush=True)
        try_wheel(wheel, python)
    return 1 if problems or not found else 0


def _run(*command: str) -> None:
    subprocess.run(command, check=True, cwd=ROOT, stdout=subprocess.DEVNULL)


def wheel_problems(wheel: Path) -> Iterator[str]:
    """What is wrong with a wheel: too large, or other files than those of the package."""
    size = wheel.stat().st_size
    if size > LARGEST:
        yield f"{wheel.name} has {size} bytes, more than {LARGEST}"
    names = zipfile.ZipFile(wheel).namelist()
    yield from (f"{wheel.name} lacks {name}" for name in WANTED if name not in names)
    examples = {f"pullback_{name}" for name in _tracked("examples")}
    tracked = (set(_tracked("pullback")) | examples) - left_out()
    inside = {name for name in names if name.startswith(("pullback/", "pullback_examples/"))}
    metadata = next((name for name in names if name.endswith(".dist-info/METADATA")), None)
    told = zipfile.ZipFile(wheel).read(metadata).decode() if metadata else ""
    yield from (f"the long description has a link into the checkout: {one}" for one in inner(told))
    yield from (f"{wheel.name} lacks {name}" for name in sorted(tracked - inside))
    yield from (f"{wheel.name} has {name} too" for name in sorted(inside - tracked))
    strange = {
        name
        for name in names
        if not re.match(r"pullback(/|_examples/|_command\.py$|-[\d.]+\.dist-info/)", name)
    }
    yield from (f"{wheel.name} has {name} too" for name in sorted(strange))


def inner(markdown: str) -> list[str]:
    """Links of a text that lead somewhere in a checkout alone."""
    return re.findall(r"\]\((?!https?:|mailto:|#)[^)\s]+\)", markdown)


def sdist_problems(sdist: Path, wheel: Path) -> Iterator[str]:
    """What is wrong with an sdist: the wheel cannot be made from it, or tests are not there."""
    with tarfile.open(sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    for name in ("pyproject.toml", "LICENSE", "README.md", "CHANGELOG.md", "tests/conftest.py"):
        if name not in names:
            yield f"{sdist.name} lacks {name}"
    package = {name for name in zipfile.ZipFile(wheel).namelist() if name.startswith("pullback/")}
    yield from (f"{sdist.name} lacks {name}" for name in sorted(package - names))


def left_out() -> set[str]:
    """Files of the package that stay in the checkout: they write pages of the documents."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    excluded = project["tool"]["hatch"]["build"]["targets"]["wheel"]["exclude"]
    return {name.removeprefix("/") for name in excluded}


def _tracked(folder: str) -> list[str]:
    listed = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", folder],
        check=True,
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    return [name for name in listed.stdout.splitlines() if (ROOT / name).exists()]


def pythons() -> dict[tuple[int, int], str]:
    """One interpreter for each version from 3.11 on."""
    folders = [Path(folder) for folder in os.environ.get("PATH", "").split(os.pathsep) if folder]
    pyenv = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv"))
    folders += sorted(pyenv.glob("versions/*/bin"))
    found: dict[tuple[int, int], str] = {}
    asked: set[Path] = set()
    for file in [Path(sys.executable), *(f for d in folders for f in d.glob("python3*"))]:
        named = re.fullmatch(r"python(?:3(?:\.(\d+))?)?", file.name)
        old = named is not None and named[1] is not None and (3, int(named[1])) < OLDEST
        if named is None or old or file.resolve() in asked:
            continue
        asked.add(file.resolve())
        version = _version(file)
        if version is not None and version >= OLDEST:
            found.setdefault(version, str(file))
    return found


def _version(python: Path) -> tuple[int, int] | None:
    """Of an interpreter that runs and can make environments; None for any other."""
    asked = "import ensurepip, sys, venv; print(*sys.version_info[:2])"
    try:
        done = subprocess.run(
            [python, "-c", asked], capture_output=True, text=True, timeout=30, check=True
        )
        major, minor = map(int, done.stdout.split())
    except (OSError, subprocess.SubprocessError, ValueError):
        return None
    return major, minor


def try_wheel(wheel: Path, python: str) -> None:
    """Install the wheel into a clean environment and run the smoke test there."""
    with tempfile.TemporaryDirectory() as made:
        environment = Path(made) / "environment"
        _run(python, "-m", "venv", str(environment))
        inside = str(environment / "bin" / "python")
        pip = [inside, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        _run(*pip, str(wheel))
        smoke = shutil.copy(ROOT / "tools" / "smoke.py", made)
        clean = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
        subprocess.run([inside, "-W", "error", smoke], check=True, cwd=made, env=clean)


if __name__ == "__main__":
    sys.exit(main())
