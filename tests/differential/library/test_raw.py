"""Functions that take other arguments under `torch.ops.aten`, run by both libraries."""
# ruff: noqa: E501 (programs, as users write them in one line)

import pytest

from tests.differential.printed import agree

pytest.importorskip("torch")

PROGRAMS = {
    "factor by position": """
        a = torch.ops.aten; x = torch.tensor([[1.0, 2.0], [4.0, 8.0]])
        print(a.add.Scalar(x, 2, 3), a.sub.Scalar(x, 2, 3), a.rsub.Scalar(x, 2, 3), a.add.Scalar(x, 2), a.add.Scalar(x, 2, alpha=5))
        y = x.clone(); print(a.add_.Scalar(y, 1, 2) is y, a.sub_.Scalar(y, 1, alpha=3), y._version, a.add.Scalar._schema, a.add_.Scalar._schema)
    """,
    "unpooling by the size": """
        a = torch.ops.aten; x = torch.arange(16.0).view(1, 1, 4, 4).requires_grad_()
        v, i = torch.nn.functional.max_pool2d(x, 2, return_indices=True)
        y = a.max_unpool2d(v, i, [4, 4]); print(y.detach()); y.sum().backward(); print(x.grad)
        x = torch.arange(64.0).view(1, 1, 4, 4, 4); v, i = torch.nn.functional.max_pool3d(x, 2, return_indices=True)
        print(a.max_unpool3d(v, i, [4, 4, 4], [2, 2, 2], [0, 0, 0]))
    """,
    "pooling by samples": """
        a = torch.ops.aten; s = torch.full((1, 1, 2), 0.3)
        print(a.fractional_max_pool2d(torch.arange(64.0).view(1, 1, 8, 8), [2, 2], [3, 3], s))
        print(a.fractional_max_pool3d(torch.arange(64.0).view(1, 1, 4, 4, 4), [2, 2, 2], [2, 2, 2], torch.full((1, 1, 3), 0.3)))
    """,
    "products and lists": """
        a = torch.ops.aten; x = torch.tensor([[1.0, 2.0], [4.0, 8.0]])
        print(a.tensordot(x, x, [1], [0]), a.tensordot.default(x, x, dims_self=[0, 1], dims_other=[1, 0]), a.block_diag([x, x[:1]]))
    """,
    "signals as they are": """
        a = torch.ops.aten; x = torch.arange(16.0)
        print(a.stft(x, 8, 4, 8, torch.ones(8), False, True, True).abs(), a.stft(x, 8, return_complex=True).shape)
    """,
}


@pytest.mark.parametrize("about", PROGRAMS)
def test_both_libraries_do_the_same(about):
    agree(PROGRAMS[about], warned=False)
