"""Every example of the gallery runs, draws, and says honestly whether it reached its goal."""

import importlib.util
import re
import sys
from pathlib import Path

import pytest

import pullback as torch
from tools import gallery

ROOT = Path(__file__).parents[2]
LENGTH = {"vae": "--epochs"}


def example(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", gallery.EXAMPLES)
def test_a_short_run_misses_the_goal_and_draws(name, capsys, tmp_path):
    options = [LENGTH.get(name, "--steps"), "1"]
    if importlib.util.find_spec("matplotlib"):
        options += ["--picture", str(tmp_path / "picture.png")]
    assert example(name).main(options) == 1
    first, last = re.search(r"([\d.]+) at first, ([\d.]+) after", capsys.readouterr().out).groups()
    assert float(first) > 0 < float(last)
    for picture in options[3:]:
        assert Path(picture).read_bytes().startswith(b"\x89PNG")


def test_a_full_run_reaches_its_goal():
    assert example("implicit_layer").main([]) == 0  # the quickest


@pytest.mark.parametrize("name", gallery.DRAWING)
def test_a_run_that_draws_reaches_its_goal(name, tmp_path):
    for needed in ("matplotlib", *(("mpmath", "sympy") if name == "exact_gradients" else ())):
        pytest.importorskip(needed)
    before = sys.modules["mpmath"].mp.dps if "mpmath" in sys.modules else None
    try:
        assert example(name).main(["--picture", str(tmp_path / "picture.png")]) == 0
    finally:
        if before is not None:
            sys.modules["mpmath"].mp.dps = before
    assert (tmp_path / "picture.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("name", [*gallery.EXAMPLES, *gallery.DRAWING])
def test_the_gallery_has_its_picture(name):
    assert (gallery.PICTURES / f"{name}.png").stat().st_size < 200_000
    assert f"images/gallery/{name}.png" in (ROOT / "docs" / "gallery.md").read_text()


def test_the_gradient_of_a_fixed_point_is_that_of_its_iteration():
    implicit = example("implicit_layer")
    torch.manual_seed(0)
    cell = implicit.Cell(3).double()
    implicit.at_rest.__defaults__ = (400,)
    x = torch.randn(2, 3, dtype=torch.float64, requires_grad=True)
    weight = next(cell.parameters())

    def layer(x, weight):
        return implicit.FixedPoint.apply(cell, x, weight)

    assert torch.autograd.gradcheck(layer, (x, weight), eps=1e-4, atol=1e-3)


def test_the_exact_wave_obeys_its_equation():
    pinn = example("pinn")
    places, h = torch.linspace(-0.9, 0.9, 7), 0.01
    around = [pinn.reference(torch.tensor([t]), places)[0] for t in (0.4 - h, 0.4, 0.4 + h)]
    left, right = (pinn.reference(torch.tensor([0.4]), places + d)[0] for d in (-h, h))
    u_t, u_x = (around[2] - around[0]) / (2 * h), (right - left) / (2 * h)
    u_xx = (right - 2 * around[1] + left) / h**2
    assert (u_t + around[1] * u_x - pinn.VISCOSITY * u_xx).abs().max() < 0.15
