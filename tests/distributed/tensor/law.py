"""One law for all operators: on parts they give what they give on the whole, gradients as well."""

import contextlib
import itertools
import random
import warnings
import zlib

import pullback as torch
import pullback.distributed as dist
from pullback.distributed.tensor import DTensor, Partial, Replicate, Shard, distribute_tensor
from pullback.distributed.tensor.experimental import implicit_replication
from pullback.testing import resolve, samples_for
from pullback.utils._pytree import tree_flatten, tree_map, tree_unflatten


def layouts_of(tensor, dims, *, partial):
    """All ways in which a tensor may lie over a mesh of so many dimensions."""
    single = [Replicate(), *(Shard(dim) for dim in range(tensor.ndim))]
    if partial and tensor.is_floating_point():
        single.append(Partial())
    return list(itertools.product(single, repeat=dims))


def spread(tensor, mesh, where):
    """A leaf that lies so; sums over ranks are of parts that have not all the whole's sign."""
    plain = tuple(Replicate() if one.is_partial() else one for one in where)
    made = distribute_tensor(tensor.detach(), mesh, plain, src_data_rank=None)
    if plain != tuple(where):
        share = made.to_local()
        for number, one in enumerate(where):
            if not one.is_partial() or mesh.size(number) == 1:
                continue
            rank, last = mesh.get_local_rank(number), mesh.size(number) - 1
            first = share + 1.5
            share = first if rank == 0 else torch.full_like(share, -1.5 if rank == last else 0.0)
        made = DTensor.from_local(share, mesh, where, shape=tensor.shape)
    return made.detach().requires_grad_(tensor.requires_grad)


def called(function, sample):
    return function(sample.input, *sample.args, **sample.kwargs)


def flat_of(sample):
    flat, form = tree_flatten((sample.input, sample.args, sample.kwargs))
    return flat, form


def gradients(out, leaves):
    """Of a sum with other weights for each element."""
    total = None
    for number, one in enumerate(tree_flatten(out)[0]):
        if not isinstance(one, torch.Tensor) or not one.requires_grad:
            continue
        weights = torch.linspace(0.5, 1.5 + number, one.numel(), dtype=torch.float64)
        weights = weights.reshape(one.shape)
        with implicit_replication():
            part = (one * weights.to(one.dtype)).sum()
        part = part.real if part.is_complex() else part
        total = part if total is None else total + part
    wanted = [one for one in leaves if one.requires_grad]
    if total is None or not wanted:
        return []
    return torch.autograd.grad(total, wanted, allow_unused=True)


def whole(one):
    if isinstance(one, DTensor):
        return one.full_tensor().detach()
    return one.detach() if isinstance(one, torch.Tensor) else one


def compare(got, wanted, about):
    got, wanted = tree_flatten(got)[0], tree_flatten(wanted)[0]
    assert len(got) == len(wanted), about
    for a, b in zip(got, wanted, strict=True):
        if isinstance(b, torch.Tensor):
            if a is None and not bool((b != 0).any()):
                continue
            assert a is not None, about
            if a.dtype != b.dtype or a.shape != b.shape:
                raise AssertionError(f"{about}: {a.dtype}{a.shape} for {b.dtype}{b.shape}")
            torch.testing.assert_close(
                a, b, rtol=1e-9, atol=1e-9, equal_nan=True, msg=lambda m: f"{about}: {m}"
            )
        elif b is None:
            assert a is None or not bool((a != 0).any()), about
        elif isinstance(b, (int, float, complex)):
            assert a == b or (a != a and b != b), about


def combinations(tensors, dims, most, seed, *, partial):
    """All ways of all tensors together, or so many of them."""
    every = [layouts_of(one, dims, partial=partial) for one in tensors]
    count = 1
    for one in every:
        count *= len(one)
    if most is None or count <= most:
        return list(itertools.product(*every))
    draw = random.Random(seed)
    chosen = [tuple(draw.choice(one) for one in every) for _ in range(most)]
    return list(dict.fromkeys(chosen))


def try_operator(
    name, ranks, *, mesh_shape=None, samples=None, most=6, gradient=True, implicit=False
):
    """Hold an operator's samples to the law; how many ways were tried."""
    function = resolve(torch, name)
    made = list(itertools.islice(samples_for(name, torch.float64, requires_grad=True), samples))
    known = []
    for sample in made:
        flat, form = flat_of(sample)
        leaves = [one for one in flat if isinstance(one, torch.Tensor)]
        if not leaves or any(one.layout != torch.strided for one in leaves):
            continue
        out = called(function, sample)
        grads = gradients(out, leaves) if gradient else []
        known.append((flat, form, tree_map(whole, out), [whole(g) for g in grads]))

    def one():
        mesh = dist.init_device_mesh("cpu", mesh_shape or (ranks,))
        tried = 0
        for number, (flat, form, wanted, wanted_grads) in enumerate(known):
            places = [n for n, x in enumerate(flat) if isinstance(x, torch.Tensor)]
            tensors = [flat[n] for n in places]
            seed = zlib.crc32(f"{name}{number}".encode())
            for where in combinations(tensors, mesh.ndim, most, seed, partial=True):
                about = f"{name} sample {number} {[tuple(x.shape) for x in tensors]} {where}"
                spread_out = [spread(x, mesh, w) for x, w in zip(tensors, where, strict=True)]
                arguments = list(flat)
                for n, x in zip(places, spread_out, strict=True):
                    arguments[n] = x
                input_, args, kwargs = tree_unflatten(arguments, form)
                try:
                    with implicit_replication() if implicit else contextlib.nullcontext():
                        out = function(input_, *args, **kwargs)
                    compare(tree_map(whole, out), wanted, about)
                    if gradient:
                        grads = gradients(out, spread_out)
                        compare([whole(g) for g in grads], wanted_grads, f"gradients of {about}")
                except Exception as error:
                    error.add_note(about)
                    raise
                tried += 1
        return tried

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return dist.threads.run(one, ranks, timeout=60.0)[0]
