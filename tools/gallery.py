"""Runs the examples that draw, and puts their pictures where the gallery shows them.

`make gallery`, or `python -m tools.gallery pinn vae` for some of them.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PICTURES = ROOT / "docs" / "images" / "gallery"
EXAMPLES = (
    "pinn",
    "neural_ode",
    "maml",
    "vae",
    "tiny_gpt",
    "ensemble",
    "implicit_layer",
    "membrane",
)
# Which show what they compute, and train for no goal.
DRAWING = ("array_program", "backward_as_source", "exact_gradients", "memory_budget", "units")


def main(names: list[str]) -> int:
    """Run each; the exit status of the last that missed its goal."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    status = 0
    for name in names or (*EXAMPLES, *DRAWING):
        print(f"{name}:", flush=True)
        picture = PICTURES / f"{name}.png"
        command = [sys.executable, f"examples/{name}.py", "--picture", str(picture)]
        status = subprocess.run(command, cwd=ROOT, check=False).returncode or status
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
