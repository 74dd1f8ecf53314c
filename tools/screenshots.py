"""Takes the pictures of pages that the documents show: `python -m tools.screenshots`.

Wants chromium with its driver, selenium and Pillow, and the site in build/site (`make docs`).
Pictures are 900 pixels wide with few colours, some tens of kB each.
"""

from __future__ import annotations

import io
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pullback as torch
from pullback import nn
from pullback.autograd import graph

ROOT = Path(__file__).resolve().parents[1]
PICTURES = ROOT / "docs" / "images" / "pages"
SITE = ROOT / "build" / "site"
OF_SITE = {
    "site-home": "index.html",
    "site-gallery": "gallery.html",
    "site-cheat-sheet": "cheat-sheet.html",
    "site-questions": "faq.html",
    "site-compiled": "compiled.html",
}
WIDTH, HEIGHT, SHOWN = 1400, 900, 900
FLAGS = ("--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars")


class Block(nn.Module):
    """A residual block."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.linear = nn.LayerNorm(width), nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Add what one layer makes."""
        return x + torch.tanh(self.linear(self.norm(x)))


def pages(folder: Path) -> Iterator[tuple[str, Path]]:
    """The pages of a small network, written into a folder, and those of the site."""
    torch.manual_seed(0)
    blocks = [Block(32) for _ in range(12)]
    model = nn.Sequential(nn.Linear(8, 32), *blocks, nn.Linear(32, 4))
    x, target = torch.randn(64, 8), torch.randint(0, 4, (64,))

    def step() -> torch.Tensor:
        return nn.functional.cross_entropy(model(x), target)

    loss = step()
    made: dict[str, Any] = {
        "graph-norms": graph.show(loss, params=model, norms=True),
        "memory-map": graph.memory_map(loss, params=model),
        "debug-steps": graph.debug(loss, "norm > 0.3", params=model, page=True),
        "memory-timeline": graph.memory_timeline(lambda: step().backward()),
    }
    optimizer = torch.optim.Adam(model.parameters(), lr=0.003)
    with graph.watch(model) as run:
        for _ in range(150):
            optimizer.zero_grad()
            loss = step()
            loss.backward()
            optimizer.step()
            run.step(loss)
    made["watch"] = run
    for name, page in made.items():
        path = folder / f"{name}.html"
        page.save(path)
        yield name, path
    yield from ((name, SITE / page) for name, page in OF_SITE.items())


def main() -> int:
    """Take them all."""
    from PIL import Image
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium") or ""
    for flag in (*FLAGS, f"--window-size={WIDTH},{HEIGHT}"):
        options.add_argument(flag)
    service = webdriver.ChromeService(executable_path=shutil.which("chromedriver"))
    browser = webdriver.Chrome(options=options, service=service)
    shape = {"width": WIDTH, "height": HEIGHT, "deviceScaleFactor": 1, "mobile": False}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", shape)
    PICTURES.mkdir(parents=True, exist_ok=True)
    try:
        with tempfile.TemporaryDirectory() as folder:
            for name, path in pages(Path(folder)):
                browser.get(path.as_uri())
                time.sleep(1)
                shot = Image.open(io.BytesIO(browser.get_screenshot_as_png())).convert("RGB")
                small = shot.resize((SHOWN, SHOWN * HEIGHT // WIDTH), Image.Resampling.LANCZOS)
                picture = PICTURES / f"{name}.png"
                small.quantize(128).save(picture, optimize=True)
                print(f"{picture.relative_to(ROOT)}: {picture.stat().st_size // 1000} kB")
    finally:
        browser.quit()
    return 0


if __name__ == "__main__":
    sys.exit(main())
