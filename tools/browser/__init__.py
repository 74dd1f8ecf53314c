"""Programs in a browser: what runs cells there, and the archive that brings pullback along."""

from __future__ import annotations

import io
import subprocess
import zipfile
from pathlib import Path

__all__ = ["CELLS", "archive"]

ROOT = Path(__file__).resolve().parents[2]
CELLS = Path(__file__).with_name("cells.py")
_EPOCH = (1980, 1, 1, 0, 0, 0)  # the same files make the same archive


def archive() -> bytes:
    """The package, and the module that runs cells, as one zip to be unpacked where Python runs."""
    tracked = subprocess.run(
        ["git", "ls-files", "--cached", "--others", "--exclude-standard", "pullback"],
        check=True,
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    names = [name for name in tracked.stdout.splitlines() if not name.endswith(".pyi")]
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as made:
        for name in sorted(names):
            if (ROOT / name).exists():
                made.writestr(zipfile.ZipInfo(name, _EPOCH), (ROOT / name).read_bytes(), 8)
        cells = zipfile.ZipInfo("pullback_cells.py", _EPOCH)
        made.writestr(cells, CELLS.read_bytes(), 8)
    return packed.getvalue()
