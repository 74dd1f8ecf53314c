"""NumPy's reductions of tensors that require grad: as NumPy has them, or a TypeError."""

import numpy
import pytest

import pullback as torch

NAMES = (
    *("sum", "prod", "mean", "std", "var", "min", "max", "amin", "amax", "argmin", "argmax"),
    *("any", "all", "cumsum", "cumprod", "median", "ptp", "count_nonzero", "average"),
    *("nansum", "nanmean", "nanmax", "nanmin", "nanstd", "nanvar", "nanprod"),
    *("quantile", "percentile"),
)
MASK = numpy.random.default_rng(1).random((3, 4)) > 0.3
FORMS = (
    *({}, {"axis": None}, {"axis": 0}, {"axis": -1}, {"axis": (0, 1)}, {"keepdims": True}),
    *({"axis": 1, "keepdims": True}, {"axis": 0, "dtype": numpy.float32}, {"axis": 1, "ddof": 1}),
    *(
        {"axis": 0, "where": MASK},
        {"axis": 0, "where": MASK, "initial": 0.5},
        {"axis": 0, "out": 0},
    ),
)


def _called(name, x, form):
    options = dict(form)
    if "out" in form:
        options["out"] = numpy.zeros(4)
    more = {"quantile": (0.3,), "percentile": (30,)}.get(name, ())
    return getattr(numpy, name)(x, *more, **options)


def _is_refused(name, form):
    several = isinstance(form.get("axis"), tuple) and name in ("median", "quantile", "percentile")
    return several or "where" in form or "out" in form


@pytest.mark.parametrize("name", NAMES)
def test_forms_of_reductions_are_numpys_or_refused(name):
    array = numpy.random.default_rng(0).random((3, 4))
    answered = 0
    for form in FORMS:
        try:
            wanted = numpy.asarray(_called(name, array, form))
        except (TypeError, ValueError):
            continue  # NumPy itself does not take it
        tensor = torch.tensor(array, requires_grad=True)
        if _is_refused(name, form):
            with pytest.raises(TypeError, match=f"numpy.({name}|quantile) of tensors"):
                _called(name, tensor, form)
            continue
        got = _called(name, tensor, form)
        assert isinstance(got, torch.Tensor), form
        assert (got.shape, got.detach().numpy().dtype) == (wanted.shape, wanted.dtype), form
        numpy.testing.assert_allclose(got.detach().numpy(), wanted, rtol=1e-6)
        answered += 1
    assert answered >= 4
