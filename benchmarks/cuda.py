"""The same programs on torch and on pullback, on one CUDA device: eager, and replayed as a graph.

`python -m benchmarks.cuda` (or `make bench-cuda`) prints a table of milliseconds and of torch's
time over ours, and of the megabytes that a step holds at its peak. Every work is a whole step,
forward and backward; times are the median of many, each ended by a wait for the device. Two works
are compiled as well, called and replayed as a graph: beside them stands torch's graph of the same.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

__all__ = ["WORKS", "main"]

# Torch's time over ours: eager against eager, graph against graph.
BARS = {
    "chain": (0.8, 1.0),
    "mlp": (0.8, 1.0),
    "block": (0.8, 1.0),
    "gpt2 block": (0.7, None),
    "elementwise": (0.8, None),
    "conv net": (0.6, None),
}


MEMORY_BAR = 0.91  # torch's peak over ours: at most 1.1 of torch's
# Torch's graph over ours, compiled.
COMPILED_BARS = {"chain": 10, "elementwise": 8}

Function = Callable[..., Any]


def _as_it_is(function: Function) -> Function:
    return function


def chain(torch: Any, made: Callable[[Function], Function] = _as_it_is) -> Callable[[], None]:
    """1,000 small operators."""
    x = torch.full((64,), 0.5, device="cuda", requires_grad=True)
    w = torch.full((64,), 0.999, device="cuda")

    def total(x: Any, w: Any) -> Any:
        y = x
        for _ in range(500):
            y = y * w
            y = y + x
        return y.sum()

    loss = made(total)

    def step() -> None:
        x.grad = None
        loss(x, w).backward()

    return step


def mlp(torch: Any) -> Callable[[], None]:
    """784-256-256-10 at batch 128, cross entropy."""
    nn = torch.nn
    net = nn.Sequential(
        nn.Linear(784, 256), nn.ReLU(), nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10)
    ).cuda()
    x = torch.randn(128, 784, device="cuda")
    target = torch.randint(0, 10, (128,), device="cuda")

    def step() -> None:
        for p in net.parameters():
            p.grad = None
        nn.functional.cross_entropy(net(x), target).backward()

    return step


def _block(torch: Any, width: int, heads: int) -> Any:
    nn = torch.nn

    class Block(nn.Module):  # type: ignore[misc, name-defined]  # of either library
        def __init__(self) -> None:
            super().__init__()
            self.before, self.after = nn.LayerNorm(width), nn.LayerNorm(width)
            self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
            self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

        def forward(self, x: Any) -> Any:
            batch, length, _ = x.shape
            parts = self.qkv(self.before(x)).view(batch, length, 3, heads, width // heads)
            q, k, v = parts.permute(2, 0, 3, 1, 4).unbind(0)
            mixed = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
            x = x + self.out(mixed.transpose(1, 2).reshape(batch, length, width))
            return x + self.down(nn.functional.gelu(self.up(self.after(x)), approximate="tanh"))

    return Block()


def _block_step(
    torch: Any, shape: tuple[int, int, int], heads: int, dtype: str
) -> Callable[[], None]:
    net = _block(torch, shape[2], heads).cuda().to(getattr(torch, dtype))
    x = torch.randn(*shape, device="cuda").to(getattr(torch, dtype)).requires_grad_()
    g = torch.randn(*shape, device="cuda").to(getattr(torch, dtype))

    def step() -> None:
        x.grad = None
        for p in net.parameters():
            p.grad = None
        net(x).backward(g)

    return step


def block(torch: Any) -> Callable[[], None]:
    """A transformer block at 8 x 64 x 128, 4 heads."""
    return _block_step(torch, (8, 64, 128), 4, "float32")


def gpt2_block(torch: Any) -> Callable[[], None]:
    """GPT-2 small's at 4 x 1024 x 768, 12 heads, bfloat16, causal."""
    return _block_step(torch, (4, 1024, 768), 12, "bfloat16")


def elementwise(torch: Any, made: Callable[[Function], Function] = _as_it_is) -> Callable[[], None]:
    """An expression over 16M float32."""
    x = torch.rand(1 << 24, device="cuda").requires_grad_()
    g = torch.ones(1 << 24, device="cuda")
    expression = made(lambda x: torch.exp(-x * x) * torch.sin(x) + torch.tanh(x))

    def step() -> None:
        x.grad = None
        expression(x).backward(g)

    return step


def conv_net(torch: Any) -> Callable[[], None]:
    """Two convolutions and two linear layers at batch 64, 1 x 28 x 28."""
    nn = torch.nn
    net = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * 7 * 7, 64),
        nn.ReLU(),
        nn.Linear(64, 10),
    ).cuda()
    x = torch.randn(64, 1, 28, 28, device="cuda")
    target = torch.randint(0, 10, (64,), device="cuda")

    def step() -> None:
        for p in net.parameters():
            p.grad = None
        nn.functional.cross_entropy(net(x), target).backward()

    return step


WORKS: dict[str, Callable[..., Callable[[], None]]] = {
    "chain": chain,
    "mlp": mlp,
    "block": block,
    "gpt2 block": gpt2_block,
    "elementwise": elementwise,
    "conv net": conv_net,
}


def _timed(torch: Any, step: Callable[[], None], rounds: int = 20) -> float:
    times = []
    for _ in range(5):
        step()
    torch.cuda.synchronize()
    for _ in range(rounds):
        start = time.perf_counter()
        step()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e3


def _replayed(torch: Any, step: Callable[[], None]) -> float:
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(side)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return _timed(torch, graph.replay)


def _peak(torch: Any, step: Callable[[], None]) -> float:
    """Megabytes that tensors hold at the most in a step, beyond what they held before it."""
    for _ in range(3):
        step()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    step()
    torch.cuda.synchronize()
    return float(torch.cuda.max_memory_allocated() - before) / 1e6


_MEASURED = {"eager": _timed, "memory": _peak, "graph": _replayed}


def main(path: str | None = None) -> int:
    """Measure all works in both libraries; print the table, and write the numbers to `path`."""
    import torch

    import pullback

    results: dict[str, dict[str, Any]] = {}
    modules = {"torch": torch, "pullback": pullback}
    for mode, measure in _MEASURED.items():  # graphs last: with them every call looks for streams
        for work in WORKS:
            for name, module in modules.items():
                key = f"{work}, {mode}"
                try:
                    step = WORKS[work](module)
                    found: Any = round(measure(module, step), 4)
                except Exception as error:  # one work must not hide the others
                    found = f"{type(error).__name__}: {str(error)[:160]}"
                results.setdefault(key, {})[name] = found
                module.cuda.empty_cache()
            print(_line(key, results[key]), flush=True)
    _compiled(pullback, results)
    if path:
        Path(path).write_text(json.dumps(results, indent=1))
    return 0


def _compiled(ours: Any, results: dict[str, dict[str, Any]]) -> None:
    """Two works as programs, beside torch's graph of them."""
    for work, measure in [(work, one) for work in COMPILED_BARS for one in (_timed, _replayed)]:
        step = WORKS[work](ours, lambda function: ours.compile(function, fullgraph=True))
        key = f"{work}, compiled{'' if measure is _timed else ' graph'}"
        theirs = results[f"{work}, graph"]["torch"]
        results[key] = {"torch": theirs, "pullback": round(measure(ours, step), 4)}
        print(_line(key, results[key]), flush=True)


def _line(key: str, found: dict[str, Any]) -> str:
    theirs, ours = found["torch"], found["pullback"]
    ratio = f"{theirs / ours:.2f}" if isinstance(theirs, float) and isinstance(ours, float) else "-"
    work, mode = key.split(", ")
    if mode.startswith("compiled"):
        bar: float | None = COMPILED_BARS[work]
    else:
        bar = MEMORY_BAR if mode == "memory" else BARS[work][mode == "graph"]
    return f"{key:27} torch {theirs}  pullback {ours}  ratio {ratio}  bar {bar or '-'}"


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
