"""Runs the programs beside this on torch, where it is installed, and on pullback, and compares the prints.

`python -m clients` runs all and writes docs/clients.md; `python -m clients einops zuko` runs some;
`python -m clients --on pullback einops` runs one and shows what it prints.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

from tests.printed import difference, printed

HERE = Path(__file__).parent
PROGRAMS = HERE / "programs"
PAGE = HERE.parent / "docs" / "clients.md"

# A program's file is called as the module it imports; here are those released under another name.
RELEASED_AS = {
    "backpack": "backpack-for-pytorch",
    "ignite": "pytorch-ignite",
    "lion_pytorch": "lion-pytorch",
    "opt_einsum": "opt-einsum",
    "pyro": "pyro-ppl",
    "sklearn": "scikit-learn",
    "torch_geometric": "torch-geometric",
    "torch_optimizer": "torch-optimizer",
    "vit_pytorch": "vit-pytorch",
    "x_transformers": "x-transformers",
}

# Programs that torch's tensors cannot run, and why.
BEYOND_TORCH = {"xarray": "torch's tensors have no `__array_namespace__`"}

HEAD = """# Libraries that run on pullback

Written by `make clients` (the last column wants `ORACLE=1`). Each library is installed from PyPI as it
is, without torch; a program of ours, [clients/programs/](../clients/programs)`<name>.py`, uses what its documentation
shows, with `import torch` answered by pullback. The same program on torch 2.13.0 prints the same.

| library | release | on pullback | lines printed | as on torch |
|---|---|---|---|---|
"""


class Outcome(NamedTuple):
    """What became of one program on one side."""

    text: str
    error: str | None
    seconds: float


def main() -> int:
    """Entry point; 0 where every program ran and agreed."""
    parser = argparse.ArgumentParser(prog="python -m clients", description=__doc__)
    parser.add_argument("names", nargs="*", help="which programs; all of them if none is named")
    parser.add_argument("--on", choices=("torch", "pullback"), help="run one, show its print")
    asked = parser.parse_args()
    if asked.on:
        for name in asked.names:
            print(printed(PROGRAMS / f"{name}.py", asked.on == "pullback"), end="")
        return 0
    names = asked.names or sorted(path.stem for path in PROGRAMS.glob("*.py"))
    rows = [compare(name) for name in names]
    if not asked.names:
        PAGE.write_text(HEAD + "".join(row for row, _ in rows))
    return 0 if all(fine for _, fine in rows) else 1


def compare(name: str) -> tuple[str, bool]:
    """Run one program on both sides; its row of the table, and whether all is well."""
    ours = run(name, "pullback")
    agreed = "not tried"
    if name in BEYOND_TORCH:
        agreed = BEYOND_TORCH[name]
    elif find_spec("torch") is not None:
        theirs = run(name, "torch")
        differs = theirs.error or difference(ours.text, theirs.text)
        agreed = f"no: {differs}" if differs else "yes"
    if ours.error is not None:
        agreed = "-"
    lines = len(ours.text.splitlines())
    print(f"{name:16} {ours.error or 'works'} ({ours.seconds:.1f} s), as on torch: {agreed}")
    released = RELEASED_AS.get(name, name)
    state = "works" if ours.error is None else f"no: {ours.error}"
    row = f"| {released} | {metadata.version(released)} | {state} | {lines} | {agreed} |\n"
    fine = ("yes", "not tried", BEYOND_TORCH.get(name))
    return row.replace("\\", "").replace("`", "'"), agreed in fine


def run(name: str, side: str) -> Outcome:
    """One program in a process of its own, with one thread."""
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "clients", "--on", side, name],
        capture_output=True,
        text=True,
        check=False,
        cwd=HERE.parent,
        env={
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "HF_HUB_OFFLINE": "1",  # what is tried needs nothing from a network
            "PULLBACK_TRACEBACK": "full",  # so that the error is what is said last
        },
    )
    error = None
    if done.returncode != 0:  # what it says last, without the paths of this machine
        error = re.sub(r" ?\(?/\S*", "", done.stderr.strip().splitlines()[-1])[:160]
    return Outcome(done.stdout, error, time.perf_counter() - start)


if __name__ == "__main__":
    sys.exit(main())
