"""Programs written as C agree with the function that they were made from."""

import ctypes
import shutil
import subprocess
import sys

import numpy as np
import pytest

import pullback as torch
from pullback import func
from pullback.compiled.export import to_c

W = torch.tensor(np.random.default_rng(1).standard_normal((3, 4)))


def loss(x):
    y = (x @ W).tanh() * 2 + x.sum(1, keepdim=True)
    z = y.softmax(-1)[1:] * y.t()[:, 1:].t().exp().log1p()
    return (z.reshape(-1)[:6] ** 2).sum() + torch.where(y > 0, y, y * 0.1).mean()


def pieces(x):
    a, b = x.chunk(2, 0)
    return torch.cat([a * 2, b.erf()], 0), x.amax(1), x.logsumexp(0), x.sigmoid()


FUNCTIONS = {"loss": loss, "gradient": func.grad(loss), "pieces": pieces}


def wanted(function, x):
    made = function(x)
    return [one._array for one in (made if isinstance(made, tuple) else (made,))]


def inputs(function, x):
    return [x._array] if function is pieces else [x._array, W._array]


@pytest.mark.skipif(shutil.which("cc") is None, reason="no C compiler")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("name", FUNCTIONS)
def test_c_without_dependencies(name, dtype, tmp_path, monkeypatch):
    function = FUNCTIONS[name]
    monkeypatch.setattr(sys.modules[__name__], "W", torch.tensor(W._array.astype(dtype)))
    x = torch.tensor(np.random.default_rng(0).standard_normal((4, 3)).astype(dtype))
    path = tmp_path / "exported.c"
    to_c(function, path, x)
    library = tmp_path / "exported.so"
    subprocess.run(["cc", "-std=c99", "-Wall", "-Werror", "-O2", "-shared", "-fPIC", "-o",
                    str(library), str(path), "-lm"], check=True)  # fmt: skip
    program = ctypes.CDLL(str(library)).program
    answers = wanted(function, x)
    results = [np.empty_like(np.ascontiguousarray(one)) for one in answers]
    arrays = [*inputs(function, x), *results]
    program(*[ctypes.c_void_p(one.ctypes.data) for one in arrays])
    loose = 1e-12 if dtype is np.float64 else 2e-5
    for ours, one in zip(results, answers, strict=True):
        np.testing.assert_allclose(ours, one, rtol=loose, atol=loose)


def test_what_has_no_lowering_is_named_with_its_line(tmp_path):
    with pytest.raises(
        RuntimeError, match=r"^sort at test_c.py:\d+: no lowering .* for float32, int"
    ):
        to_c(lambda x: x.sort().values, tmp_path / "p.c", torch.ones(3))


def test_dtypes_that_c_has_not_are_named(tmp_path):
    with pytest.raises(RuntimeError, match=r"^add at test_c.py:\d+: no lowering .* for float16"):
        to_c(lambda x: x + 1, tmp_path / "p.c", torch.ones(3, dtype=torch.float16))


@pytest.mark.parametrize(
    ("function", "reason"),
    [(lambda x: x.mul_(2), "cannot write to tensors"), (lambda x: x[0], "gives new tensors")],
)
def test_what_is_no_new_tensor_is_refused(function, reason, tmp_path):
    with pytest.raises(RuntimeError, match=reason):
        to_c(function, tmp_path / "p.c", torch.ones(3))
