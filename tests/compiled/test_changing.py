"""What changes around a step between its calls is seen by the compiled step as by the plain one."""

import pytest

import pullback as torch
from tests.compiled.changing import PROGRAMS


def seen(name, wrap):
    torch.manual_seed(0)
    return [one.tolist() for one in PROGRAMS[name](wrap)]


@pytest.mark.filterwarnings("ignore:.*run eagerly")
@pytest.mark.parametrize("options", [{}, {"backend": "python"}], ids=["default", "python"])
@pytest.mark.parametrize("name", PROGRAMS)
def test_a_compiled_step_sees_what_an_eager_one_sees(name, options):
    expected = seen(name, lambda step: step)
    assert len({str(one) for one in expected}) > 1
    found = seen(name, lambda step: torch.compile(step, **options))
    for one, other in zip(found, expected, strict=True):
        assert torch.tensor(one).allclose(torch.tensor(other), rtol=1e-5, atol=1e-6)
