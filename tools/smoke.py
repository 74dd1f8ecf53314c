"""A minute with the installed package, far from the checkout: what must work wherever it installs.

`make dist` runs this file in an environment that has pullback and NumPy and nothing else.
"""

from __future__ import annotations

import pathlib
import subprocess
import sys
import tempfile


def first_gradient() -> None:
    """The README's first program."""
    import pullback as torch

    x = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    (x**2).sum().backward()
    assert x.grad.tolist() == [2.0, 4.0, 6.0]


def training(folder: pathlib.Path) -> None:
    """A network learns, is saved, and is the same when loaded."""
    import pullback as torch

    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(2, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    x = torch.randn(64, 2)
    y = (x[:, :1] * x[:, 1:]).sin()
    losses = []
    for _ in range(60):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.5 * losses[0], losses
    torch.save(model.state_dict(), folder / "model.pt")
    model.load_state_dict(torch.load(folder / "model.pt"))


def transforms() -> None:
    """Derivatives of derivatives, and a batch of them."""
    import pullback as torch

    second = torch.func.vmap(torch.func.grad(torch.func.grad(lambda v: v**3)))
    assert second(torch.tensor([1.0, 2.0])).tolist() == [6.0, 12.0]


def data_files(folder: pathlib.Path) -> None:
    """What is not Python came along: the page of a graph, the table of absent names."""
    import pullback as torch
    from pullback.checking import names

    x = torch.ones(2, requires_grad=True)
    torch.autograd.graph.show((x * x).sum()).save(str(folder / "graph.html"))
    assert (folder / "graph.html").stat().st_size > 10_000
    assert names.status("nn.Linear").kind == "here"
    assert names.status("onnx.export").kind == "missing"
    package = pathlib.Path(torch.__file__).parent
    assert (package / "py.typed").exists()


def command_line(folder: pathlib.Path) -> None:
    """A script that says `import torch` is checked, and runs."""
    script = folder / "script.py"
    script.write_text("import torch\nprint(torch.ones(2).sum().item())\n")
    examples = [sys.executable, "-m", "pullback", "examples", str(folder / "examples")]
    assert "ddp.py" in subprocess.run(examples, capture_output=True, text=True, check=True).stdout
    for command, said in (("check", "runs here"), ("run", "2.0")):
        done = subprocess.run(
            [sys.executable, "-m", "pullback", command, str(script)],
            capture_output=True,
            text=True,
            check=True,
        )
        assert said in done.stdout, done.stdout


def main() -> None:
    """Run all of it."""
    import pullback

    inside = pathlib.Path(pullback.__file__).is_relative_to(sys.prefix)
    assert inside, f"{pullback.__file__} is not in {sys.prefix}"
    with tempfile.TemporaryDirectory() as made:
        folder = pathlib.Path(made)
        first_gradient()
        training(folder)
        transforms()
        data_files(folder)
        command_line(folder)
    version = ".".join(map(str, sys.version_info[:3]))
    print(f"pullback {pullback.__pullback_version__} on Python {version}: ok")


if __name__ == "__main__":
    main()
