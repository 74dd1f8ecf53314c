"""Results lie in memory as torch's do, however the inputs lie: `view` works where it works there.

`ROW_MAJOR_THERE` and `ELSEWHERE` say where they do not, and why. Dimensions of one element have
strides that say nothing; NumPy and torch fill them in by rules of their own.
"""

import itertools
import math

import pytest

import pullback
from pullback.testing import SAMPLES, resolve, samples_for, tensors_in
from pullback.testing.cases import LAYOUTS

torch = pytest.importorskip("torch")

pytestmark = pytest.mark.filterwarnings("ignore")

NAMES = [name for name in SAMPLES if resolve(pullback, name) and resolve(torch, name)]

# Contiguous in torch, and not here.
ROW_MAJOR_THERE = {
    "torch's kernel for volumes depends on dtype and build, and so does their order": """
        conv3d conv_transpose3d nn.functional.conv3d nn.functional.conv_transpose3d
    """,
    "torch chooses among fused kernels, whose results lie differently": """
        nn.functional.scaled_dot_product_attention
    """,
    "torch copies its input first; here it is one loop, which keeps the order": """
        nn.functional.logsigmoid
    """,
}

# In another order than torch's, which is not contiguous either, or contiguous where torch's is not.
ELSEWHERE = {
    "made of several operators, or beside a part of what LAPACK wrote": """
        triangular_solve cholesky_inverse linalg.householder_product orgqr ormqr linalg.lu_solve
        linalg.lstsq
    """,
    "of vectors, torch solves the whole batch as one matrix": """
        linalg.solve linalg.solve_ex
    """,
    "transforms work along the last dimension of memory in torch": """
        fft.fft fft.ifft fft.rfft fft.irfft fft.hfft fft.ihfft fft.fftn fft.ifftn fft.rfftn
        fft.irfftn fft.hfftn fft.ihfftn fft.fft2 fft.ifft2 fft.ihfft2
    """,
    "lines are images of one row in torch, with channels last": """
        conv1d conv_transpose1d nn.functional.conv1d nn.functional.conv_transpose1d
        nn.functional.max_pool1d nn.functional.avg_pool1d nn.functional.adaptive_avg_pool1d
        nn.functional.adaptive_max_pool1d nn.functional.lp_pool1d nn.functional.interpolate
        nn.functional.local_response_norm
    """,
    "written into memory of their own, row by row": """
        put sort argsort msort addr unravel_index Tensor.__getitem__ pixel_unshuffle
    """,
    "operands in unlike orders: the first decides in torch, row by row here": """
        addcmul addcdiv
    """,
    "of single volumes torch keeps the order of channels in this pool alone": """
        nn.functional.max_pool3d
    """,
    "torch keeps gaps between elements, or makes views where copies are due": """
        select_scatter slice_scatter diagonal_scatter unsafe_chunk unsafe_split
    """,
}


def listed(table):
    return {name for names in table.values() for name in names.split()}


def pairs(name):
    """Tensors of ours and torch's from one call, with how its inputs lay."""
    for layout in LAYOUTS:
        ours = samples_for(name, requires_grad=False, layout=layout)
        theirs = samples_for(name, requires_grad=False, layout=layout, module=torch)
        for mine, other in zip(ours, theirs, strict=True):
            try:
                made = other.call(resolve(torch, name))
            except (RuntimeError, ValueError, IndexError, NotImplementedError):
                continue  # in this layout it has no such call
            if name in RAISES and layout != "contiguous":
                continue
            try:
                found = mine.call(resolve(pullback, name))
            except pullback.linalg.LinAlgError:
                continue  # singular in this layout; whether rounding hides it is the processor's
            for one, two in zip(tensors_in(found), tensors_in(made), strict=False):
                if two.layout is torch.strided and not two.is_nested:
                    yield one, two, mine


# Views of what is not contiguous that torch makes as copies, or the other way round.
RAISES = {"as_strided", "as_strided_scatter", "view_copy"}


def told(tensor):
    """The strides that say something."""
    if 0 in tensor.shape:
        return ()
    return tuple(s for s, n in zip(tensor.stride(), tensor.shape, strict=True) if n > 1)


@pytest.mark.parametrize("name", NAMES)
def test_results_are_contiguous_where_torchs_are(name):
    allowed = name in listed(ROW_MAJOR_THERE)
    wrong = [
        f"{sample}: {ours.stride()} for {theirs.stride()}"
        for ours, theirs, sample in pairs(name)
        if theirs.is_contiguous() and not ours.is_contiguous()
    ]
    assert not wrong or allowed, wrong[:3]


@pytest.mark.parametrize("name", NAMES)
def test_results_have_torchs_strides(name):
    allowed = name in listed(ROW_MAJOR_THERE) | listed(ELSEWHERE)
    wrong = [
        f"{sample}: {ours.stride()} for {theirs.stride()}"
        for ours, theirs, sample in pairs(name)
        if told(ours) != told(theirs)
    ]
    assert not wrong or allowed, wrong[:3]


@pytest.mark.parametrize("name", sorted(listed(ROW_MAJOR_THERE) | listed(ELSEWHERE)))
def test_exceptions_are_needed(name):
    assert any(told(ours) != told(theirs) for ours, theirs, _ in pairs(name))


REDUCTIONS = {
    **dict.fromkeys(["sum", "mean", "prod", "amax", "amin", "max", "min", "median", "mode"]),
    **dict.fromkeys(["argmax", "std", "var", "var_mean", "logsumexp", "norm", "nansum", "all"]),
    **dict.fromkeys(["any", "count_nonzero", "nanmean", "nanmedian"]),
    "quantile": lambda torch, x, dim: torch.quantile(x, 0.3, dim),
    "kept": lambda torch, x, dim: torch.sum(x, dim, keepdim=True),
    "largest kept": lambda torch, x, dim: torch.amax(x, dim, keepdim=True),
    "all but one": lambda torch, x, dim: torch.sum(x, [d for d in range(3) if d != dim]),
    "half": lambda torch, x, dim: torch.sum(x.half(), dim),
    "integers": lambda torch, x, dim: torch.sum(x.long(), dim),
    "complex": lambda torch, x, dim: torch.sum(x + 1j, dim),
    "norm of order 3": lambda torch, x, dim: torch.linalg.vector_norm(x, 3, dim),
    "largest norm": lambda torch, x, dim: torch.linalg.vector_norm(x, float("inf"), dim),
    "trapezoid": lambda torch, x, dim: torch.trapezoid(x, dim=dim),
}


@pytest.mark.parametrize("sizes", [(2, 4, 6), (30, 40, 20)], ids=str)
@pytest.mark.parametrize("name", REDUCTIONS)
def test_what_reductions_leave_is_contiguous_in_whatever_order_the_input_lies(name, sizes):
    """`x.transpose(0, 1).sum(-1).view(-1)` is a line that programs have."""
    call = REDUCTIONS[name] or (lambda module, x, dim: getattr(module, name)(x, dim))
    for order in itertools.permutations(range(3)):
        for dim in range(3):
            found = {}
            for module in (torch, pullback):
                x = module.arange(float(math.prod(sizes))).reshape([sizes[d] for d in order])
                made = call(module, x.permute([order.index(d) for d in range(3)]), dim)
                found[module] = [one.is_contiguous() for one in tensors_in(made)]
            assert all(found[pullback]) or not all(found[torch]), (order, dim)


# Of operands that lie in unlike orders, the first decides in torch. Here the result is row by row,
# which is contiguous wherever torch's is. Formulas that write over what they made of the other
# operand (xlogy of few, binary_cross_entropy_with_logits) are left out: they lie as that does.
MIXED = {
    **dict.fromkeys(["add", "sub", "mul", "div", "pow", "atan2", "hypot", "maximum", "fmod"]),
    **dict.fromkeys(["logaddexp", "copysign", "nextafter", "lt", "eq", "logical_and"]),
    "addcmul": lambda torch, a, b: torch.addcmul(a, b, b, value=3),
    "addcdiv": lambda torch, a, b: torch.addcdiv(a, b, b + 1),
    "lerp": lambda torch, a, b: torch.lerp(a, b, b),
    "where": lambda torch, a, b: torch.where(a > 0, b, b),
    "clamp": lambda torch, a, b: torch.clamp(a, b, b + 1),
    "masked_fill": lambda torch, a, b: torch.masked_fill(a, b > 0, 1.0),
    **{
        name: lambda torch, a, b, name=name: getattr(torch.nn.functional, name)(
            a, b, reduction="none"
        )
        for name in ("mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "poisson_nll_loss")
    },
}


@pytest.mark.parametrize("name", MIXED)
@pytest.mark.parametrize("size", [2, 20])
def test_results_of_unlike_orders_are_contiguous_where_torchs_are(name, size):
    def strides(module):
        module.manual_seed(0)
        rows = module.rand(2, size, size)
        columns = module.rand(size, size, 2).permute(2, 1, 0)
        call = MIXED[name] or (lambda module, a, b: getattr(module, name)(a, b))
        results = [call(module, *pair) for pair in ((rows, columns), (columns, rows))]
        return [one.is_contiguous() for one in results]

    for ours, theirs in zip(strides(pullback), strides(torch), strict=True):
        assert ours or not theirs
