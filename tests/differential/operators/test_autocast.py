"""Autocast on the CPU: the dtypes, values and gradients that torch gives."""

import warnings

import numpy
import pytest

import pullback

torch = pytest.importorskip("torch")
pytest.importorskip("ml_dtypes")


class Inputs:
    """The same numbers for both sides, in a dtype by name."""

    def __init__(self, lib, dtype):
        self.lib, self.F, self.linalg, self.fft = lib, lib.nn.functional, lib.linalg, lib.fft
        self.dtype = getattr(lib, dtype)

    def normal(self, *shape):
        numbers = numpy.random.default_rng(sum(shape)).standard_normal(shape)
        return self.lib.tensor(numpy.float32(numbers)).to(self.dtype)

    def positive(self, *shape):
        numbers = numpy.random.default_rng(sum(shape)).uniform(0.1, 0.9, shape)
        return self.lib.tensor(numpy.float32(numbers)).to(self.dtype)

    def wide(self, *shape):
        return self.lib.tensor(numpy.ones(shape, numpy.float32))

    def chosen(self, count):
        return self.lib.arange(count)

    @property
    def m(self):
        return self.normal(4, 4)

    @property
    def v(self):
        return self.normal(4)

    @property
    def b(self):
        return self.normal(2, 4, 4)

    @property
    def image(self):
        return self.normal(1, 4, 6, 6)

    @property
    def volume(self):
        return self.normal(1, 4, 6, 6, 6)

    @property
    def line(self):
        return self.normal(1, 4, 6)


CALLS = """
lib.matmul(m,m)  m@m  lib.mm(m,m)  lib.bmm(b,b)  lib.mv(m,v)  lib.dot(v,v)  lib.inner(m,m)
lib.outer(v,v)  lib.addmm(m,m,m)  lib.addbmm(m,b,b)  lib.baddbmm(b,b,b)  lib.addmv(v,m,v)
lib.chain_matmul(m,m)  linalg.multi_dot([m,m])  lib.einsum('ij,jk->ik',m,m)
lib.tensordot(m,m,1)  F.linear(m,m)  F.linear(m,m,v)  lib.kron(m,m)  m.matmul(m)  m.mm(m)
F.conv1d(line,normal(2,4,3))  F.conv2d(image,normal(2,4,3,3))  F.conv3d(volume,normal(2,4,3,3,3))
F.conv_transpose1d(line,normal(4,2,3))  F.conv_transpose2d(image,normal(4,2,3,3))
F.conv_transpose3d(volume,normal(4,2,3,3,3))  F.scaled_dot_product_attention(b,b,b)
F.prelu(m,positive(1))  lib.cdist(m,m+1)  F.avg_pool1d(line,2)  F.avg_pool2d(image,2)
F.avg_pool3d(volume,2)  F.max_pool2d(image,2)  F.adaptive_avg_pool2d(image,2)
F.adaptive_avg_pool3d(volume,2)  F.adaptive_max_pool3d(volume,2)
F.grid_sample(image,normal(1,2,2,2),align_corners=False)  F.interpolate(image,scale_factor=2)
F.interpolate(image,scale_factor=2,mode='bilinear')  F.binary_cross_entropy(positive(4),positive(4))
F.binary_cross_entropy_with_logits(v,positive(4))  F.mse_loss(v,v+1)  F.l1_loss(v,v+1)
F.smooth_l1_loss(v,v+1)  F.huber_loss(v,v+1)  F.nll_loss(m,chosen(4))  F.cross_entropy(m,chosen(4))
F.kl_div(m,positive(4,4),reduction='sum')  F.cosine_embedding_loss(m,m+1,wide(4))
F.hinge_embedding_loss(v,wide(4))  F.margin_ranking_loss(v,v+1,wide(4))
F.triplet_margin_loss(m,m+1,m*2)  F.poisson_nll_loss(v,positive(4))
F.multi_margin_loss(m,chosen(4))  F.soft_margin_loss(v,wide(4))  F.softmax(m,1)
F.log_softmax(m,1)  m.exp()  positive(4).log()  positive(4).pow(2.5)  m.sum()  m.mean()  m.prod()
m.prod(0)  lib.prod(m,1)  m.cumsum(0)  m.norm()  F.layer_norm(m,(4,))  F.group_norm(m,2)
F.gelu(m)  F.relu(m)  m.sigmoid()  m.tanh()  F.softplus(m)  lib.logsumexp(m,0)  lib.trace(m)
F.pad(line,(1,1))  F.pad(line,(1,1),'reflect')  F.pad(line,(1,1),mode='replicate')
F.pad(line,(1,1),'circular')  lib.inverse(m)  linalg.inv(m)  linalg.solve(m,m)
linalg.cholesky(m@m.mT+9*lib.eye(4))  linalg.svdvals(m)  linalg.qr(m)[0].abs()
linalg.eigvalsh(m+m.mT)  linalg.pinv(m.double())  linalg.matrix_rank(m)  linalg.cond(m)
linalg.det(wide(4,4)+lib.eye(4))  linalg.vector_norm(m)  linalg.norm(m)
fft.fft(v)  fft.ifft(v)  fft.rfft(v)  fft.irfft(v)  fft.fft2(m)  fft.hfft(v)  fft.ihfft(v)
lib.cat([m,wide(4,4)])  lib.stack([m,wide(4,4)])  m+wide(4,4)  m*2  lib.addcmul(m,m,wide(4,4))
lib.index_copy(m,0,chosen(1),wide(1,4))  lib.where(m>0,m,wide(4,4))  F.embedding(chosen(2),m)
lib.einsum('i,i->i',v,v)  lib.einsum('i,i',v,v)  lib.einsum('ij->ji',m)
lib.einsum('ij,j->i',m,v)  lib.einsum(m,[0,1],m,[1,2],[0,2])  lib.einsum('...ij,jk->...ik',b,m)
lib.tensordot(v,v,1)  lib.tensordot(m,m,0)  lib.inner(v,v)  lib.inner(m,v)
lib.matmul(v,v)  b@v  m@v  v@m
F.elu(m)  F.glu(m)  F.normalize(m)  m.view(2,8)  m[0]  m.to(lib.float16)  lib.bilinear(m,m,b,None)
"""
CASES = [call for line in CALLS.strip().splitlines() for call in line.split("  ") if call]
TOLERANCE = {"float16": 4e-3, "bfloat16": 3e-2, "float32": 2e-3, "float64": 1e-6}


def outcome(lib, call, given, narrow, *, grad=False):
    inputs = Inputs(lib, given)
    names = {name: getattr(inputs, name) for name in dir(inputs) if not name.startswith("_")}
    if grad:
        names["m"], names["v"] = inputs.m.requires_grad_(), inputs.v.requires_grad_()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with lib.autocast("cpu", dtype=getattr(lib, narrow)):
            made = eval(call, {}, names)
    return made, names


@pytest.mark.parametrize("narrow", ["bfloat16", "float16"])
@pytest.mark.parametrize("given", ["float32", "narrow", "float64"])
@pytest.mark.parametrize("call", CASES)
def test_dtypes_and_values(call, given, narrow):
    given = narrow if given == "narrow" else given
    try:
        expected, _ = outcome(torch, call, given, narrow)
    except (RuntimeError, NotImplementedError):
        pytest.skip("torch cannot do this")
    ours, _ = outcome(pullback, call, given, narrow)
    assert str(ours.dtype) == str(expected.dtype)
    a, b = (t.resolve_conj().to(lib.complex64 if t.is_complex() else lib.float32).numpy()
            for t, lib in ((ours, pullback), (expected, torch)))  # fmt: skip
    tolerance = TOLERANCE["float64" if given == "float64" else narrow]
    numpy.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance * max(1, abs(b).max()))


GRADIENTS = [
    *("(m@m).sum()", "F.linear(m,m,v).float().pow(2).mean()", "F.cross_entropy(m@m,chosen(4))"),
    "F.mse_loss(m@v,v)",
]


@pytest.mark.parametrize("call", GRADIENTS)
def test_gradients_come_back_in_the_parameters_dtype(call):
    grads = []
    for lib in (pullback, torch):
        made, names = outcome(lib, call, "float32", "bfloat16", grad=True)
        made.backward()
        grads.append([names["m"].grad, names["v"].grad])
    for ours, theirs in zip(*grads, strict=True):
        if theirs is None:
            assert ours is None
            continue
        assert str(ours.dtype) == str(theirs.dtype) == "torch.float32"
        numpy.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=3e-2, atol=3e-2)


PROGRAMS = [
    "torch.autocast(3)",
    "torch.autocast('nope')",
    "torch.autocast('meta')",
    "torch.amp.is_autocast_available('nope')",
    "torch.amp.is_autocast_available('meta')",
    "torch.is_autocast_enabled()",
    "torch.is_autocast_enabled('nope')",
    "torch.get_autocast_dtype('cuda')",
    "torch.get_autocast_dtype('cpu')",
    "torch.is_autocast_cache_enabled()",
    "torch.autocast('cuda')._enabled",
    "torch.autocast('cpu', dtype=torch.float32)._enabled",
    "torch.autocast('xpu').fast_dtype",
    "torch.amp.custom_fwd(device_type=3)",
    "torch.amp.GradScaler('cuda').is_enabled()",
    "torch.amp.GradScaler('cuda').get_scale()",
    "torch.amp.GradScaler('cpu').state_dict()",
    "torch.amp.GradScaler('cpu').update()",
    "torch.amp.GradScaler('cpu').scale(3.0)",
    "torch.amp.GradScaler('cpu', growth_factor=1.0)",
    "torch.amp.GradScaler('cpu', backoff_factor=1.0)",
    "torch.amp.GradScaler('cpu').load_state_dict({})",
    "torch.amp.GradScaler('cpu', enabled=False).state_dict()",
    "torch.cuda.amp.GradScaler().is_enabled()",
    "torch.cuda.amp.autocast()._enabled",
    "torch.cpu.amp.autocast().fast_dtype",
    "torch.cuda.amp.common.amp_definitely_not_available()",
]


@pytest.mark.parametrize("program", PROGRAMS)
def test_settings_and_errors(program):
    outcomes = []
    for lib in (pullback, torch):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            try:
                made = eval(program, {"torch": lib})
            except Exception as error:
                made = type(error).__name__
        known = made if isinstance(made, (bool, float, dict)) else str(made)
        outcomes.append((known, [warning.category.__name__ for warning in caught]))
    assert outcomes[0] == outcomes[1]
