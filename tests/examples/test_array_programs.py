"""Examples over the array API: one program on NumPy and on tensors, and quantities with units."""

import importlib.util
import math
from pathlib import Path

import numpy as np
import pytest

import pullback as torch

ROOT = Path(__file__).parents[2]


def example(name):
    spec = importlib.util.spec_from_file_location(name, ROOT / "examples" / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["array_program", "units"])
def test_a_full_run_reaches_its_goal_and_a_short_one_does_not(name, capsys):
    assert example(name).main([]) == 0
    assert example(name).main(["--steps", "1"]) == 1
    assert capsys.readouterr().out


def test_a_program_of_the_standard_gives_the_same_on_numpy_and_on_tensors():
    program = example("array_program")
    x, y = program.measured(12, noise=0.1)
    options = [np.float64(one) for one in (0.8, 1.1, 0.3)]
    tensors = torch.tensor(options, dtype=torch.float64, requires_grad=True)

    def by_tensors(given):
        return program.log_likelihood(torch.from_numpy(x), torch.from_numpy(y), *given)

    assert math.isclose(by_tensors(tensors).item(), program.log_likelihood(x, y, *options))
    assert torch.autograd.gradcheck(by_tensors, (tensors,))


def test_the_slope_of_a_throw_is_what_differences_say_and_has_its_unit():
    units = example("units")
    speed = units.Quantity(30.0, {"m": 1, "s": -1})

    def thrown(radians):
        return units.thrown(units.Quantity(radians, {"rad": 1}), speed)

    at = torch.tensor(0.6, dtype=torch.float64, requires_grad=True)
    angle = units.Quantity(at, {"rad": 1})
    found = units.slope(units.thrown(angle, speed), angle)
    h = 1e-6
    above, below = (thrown(at.detach() + d).value for d in (h, -h))
    assert found.unit == {"m": 1, "rad": -1}
    assert math.isclose(found.value.item(), ((above - below) / (2 * h)).item(), rel_tol=1e-5)


@pytest.mark.parametrize("value", [2.0, np.ones(2), torch.ones(2)])
def test_units_that_do_not_agree_are_refused(value):
    units = example("units")
    length = units.Quantity(value, units.METRE)
    assert (length * length / length).unit == units.METRE
    assert (value * length).unit == units.METRE
    for wrong in (
        lambda: length + units.STEP,
        lambda: length + 1.0,
        lambda: length < units.MASS,
        lambda: units.lifted("sin")(length),
    ):
        with pytest.raises(units.UnitError, match="expected"):
            wrong()


def test_pint_takes_tensors_with_gradients():
    pint = pytest.importorskip("pint")
    ureg = pint.UnitRegistry()
    lengths = torch.tensor([0.5, 1.0, 2.0], dtype=torch.float64, requires_grad=True)

    def energies(lengths):
        """Of pendulums that are let go at 0.3 rad, and their periods."""
        length = ureg.Quantity(lengths, "m")
        gravity = 981.0 * ureg.cm / ureg.s**2
        period = 2 * math.pi * np.sqrt(length / gravity)
        height = length * (1 - np.cos(0.3 * ureg.rad))
        joined = np.concatenate([height, ureg.Quantity(np.ones(1), "cm")])
        return period.to("s"), (0.2 * ureg.kg * gravity * np.sum(joined)).to("J")

    period, energy = energies(lengths)
    assert (period.units, energy.units) == (ureg.s, ureg.J)
    plain = 2 * math.pi * torch.sqrt(lengths / 9.81)
    assert torch.allclose(period.magnitude, plain)
    (slope,) = torch.autograd.grad(energy.magnitude, lengths)
    assert torch.allclose(slope, torch.full_like(slope, 0.2 * 9.81 * (1 - math.cos(0.3))))
    assert torch.autograd.gradcheck(lambda x: energies(x)[0].magnitude, (lengths,))
    with pytest.raises(pint.DimensionalityError):
        period + energy
