"""How many functions, files and folders a program runs through: no way grows longer unnoticed.

A warm call of a small program is counted by `sys.setprofile`, all functions that it enters, the
program's own among them, in a process of its own: what other tests leave behind (hooks, classes of
tensors) may take passes off their fast path. The bounds are what was measured on CPython 3.11 when
they were written down; where a way becomes shorter, its bound goes down with it.
"""

import functools
import gc
import itertools
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy
import pytest

import pullback as torch
from pullback.func import functional_call, grad, hessian, jacfwd, jacrev, jvp, vjp, vmap
from pullback.utils.checkpoint import checkpoint
from pullback.utils.data import DataLoader, TensorDataset

PACKAGE = Path(torch.__file__).parent


def walk_of(program):
    """How many functions a call enters, once everything that it needs is written; in how many files
    of the package, and how often the next one is in another folder. Written code is of no folder.
    """
    for _ in range(3):
        program()
    places = []

    def profile(frame, event, arg):
        if event == "call":
            places.append(frame.f_code.co_filename)

    before, collects = sys.getprofile(), gc.isenabled()
    gc.disable()  # what a collection calls is nobody's way
    try:
        sys.setprofile(profile)
        program()
    finally:
        sys.setprofile(before)
        if collects:
            gc.enable()
    files = [one for one in map(Path, places) if PACKAGE in one.parents]
    changes = sum(a.parent != b.parent for a, b in itertools.pairwise(files))
    return len(places), len(set(files)), changes


def square(x):
    return (x * x).sum()


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2


def _step(optimizer_class):
    layer, loss = torch.nn.Linear(4, 3), torch.nn.MSELoss()
    optimizer = optimizer_class(layer.parameters(), lr=0.1)
    given, wanted = torch.ones(2, 4), torch.ones(2, 3)

    def step():
        optimizer.zero_grad()
        loss(layer(given), wanted).backward()
        optimizer.step()

    return step


def _batch():
    loader = DataLoader(TensorDataset(torch.ones(80, 3), torch.ones(80)), batch_size=8)
    batches = iter(loader)
    return lambda: next(batches)


def _functional_call():
    layer, given = torch.nn.Linear(4, 3), torch.ones(2, 4)
    parameters = dict(layer.named_parameters())
    return lambda: functional_call(layer, parameters, (given,))


def _compiled():
    program = torch.compile(lambda x: (x * x).sum() + 1)
    x = torch.ones(4)
    return lambda: program(x)


def _programs():
    x, t, out, batch = torch.ones(4), torch.ones(4), torch.ones(4), torch.ones(5, 4)
    w = torch.ones(4, requires_grad=True)
    adam = torch.optim.Adam([w])
    square(w).backward()
    return {
        "backward": (lambda: square(w).backward(), 32),
        "checkpoint": (lambda: checkpoint(square, w, use_reentrant=False).backward(), 131),
        "a custom Function": (lambda: Doubled.apply(w), 10),
        "a product into out": (lambda: torch.mul(x, t, out=out), 3),
        "vmap of grad": (lambda: vmap(grad(square))(batch), 84),
        "jvp": (lambda: jvp(square, (x,), (t,)), 43),
        "vjp": (lambda: vjp(square, x)[1](torch.tensor(1.0)), 76),
        "jacrev": (lambda: jacrev(torch.sin)(x), 83),
        "jacfwd": (lambda: jacfwd(torch.sin)(x), 66),
        "hessian": (lambda: hessian(square)(x), 205),
        "a Hessian times a vector": (lambda: jvp(grad(square), (x,), (t,)), 131),
        "functional_call": (_functional_call(), 43),
        "a step of SGD": (_step(torch.optim.SGD), 67),
        "a step of Adam": (_step(torch.optim.Adam), 82),
        "the optimizer's part of it": (adam.step, 30),
        "a batch of a loader": (_batch(), 12),
        "a compiled call": (_compiled(), 6),
        **_small_calls(),
    }


def _small_calls():
    one, rows, z = torch.tensor(1), torch.tensor([0, 3, 1]), torch.zeros(3, 5)
    buffer, array, step = torch.zeros(5), numpy.ones(5, "f4"), torch.ones(1)[0]
    x, sequence = torch.ones(2, 5), torch.ones(3, 2, 8)
    loss = torch.ones(2, requires_grad=True).sum()
    attention, cell = torch.nn.MultiheadAttention(8, 2), torch.nn.LSTMCell(5, 4)
    norm = torch.nn.BatchNorm1d(5)

    def add_at():
        z[one, one] += step

    def put(value):
        buffer[rows] = value

    return {
        "a sum at 0-d indices": (add_at, 23),
        "a number at several places": (lambda: put(1.0), 12),
        "item() of a result with history": (lambda: loss.item(), 2),
        "tolist() of a result with history": (lambda: loss.tolist(), 2),
        "from_numpy": (lambda: torch.from_numpy(array), 4),
        "detach": (lambda: loss.detach(), 2),
        "zero_": (lambda: buffer.zero_(), 2),
        "attention to itself": (lambda: attention(sequence, sequence, sequence), 93),
        "a step of an LSTM cell": (lambda: cell(x), 63),
        "batch norm in training": (lambda: norm(x), 41),
    }


# Files, and changes of folder, of twelve programs that a reader may want to follow.
WALKS = {
    "backward": (13, 9),
    "checkpoint": (25, 48),
    "a custom Function": (6, 2),
    "vmap of grad": (22, 34),
    "jvp": (10, 19),
    "vjp": (20, 35),
    "jacrev": (18, 36),
    "hessian": (29, 95),
    "functional_call": (7, 8),
    "a step of SGD": (27, 24),
    "a batch of a loader": (5, 2),
    "a compiled call": (3, 1),
}


@functools.cache
def counted():
    """The walk of each program, counted elsewhere."""
    path = os.pathsep.join([str(Path(torch.__file__).parents[1]), os.environ.get("PYTHONPATH", "")])
    made = subprocess.run(
        [sys.executable, __file__],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(made.stdout)


@pytest.mark.parametrize("name", _programs())
def test_a_program_takes_no_more_calls_than_it_did(name):
    assert counted()[name][0] <= _programs()[name][1]


@pytest.mark.parametrize("name", WALKS)
def test_a_program_is_followed_through_no_more_files_and_folders_than_it_was(name):
    files, changes = WALKS[name]
    assert counted()[name][1] <= files
    assert counted()[name][2] <= changes


if __name__ == "__main__":
    print(json.dumps({name: walk_of(program) for name, (program, _) in _programs().items()}))
