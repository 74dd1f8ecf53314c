"""The newest checkpoint of a directory that has one for each step or epoch. Torch has no such."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Any

from pullback.distributed.checkpoint import _former, _metadata_file
from pullback.distributed.checkpoint.utils import Ranks

__all__ = ["latest"]


def latest(directory: str | os.PathLike[str], process_group: Any = None, keep: int = 0) -> Any:
    """The newest complete checkpoint in a directory, the same on all ranks; None if there is none.

    With `keep`, older complete ones beyond so many are removed.

    >>> import tempfile
    >>> from pullback.distributed import checkpoint
    >>> here = tempfile.mkdtemp()
    >>> for step in range(3):
    ...     _ = checkpoint.save({"step": step}, checkpoint_id=f"{here}/step_{step}")
    >>> checkpoint.latest(here).name
    'step_2'
    """
    ranks = Ranks(process_group)
    known = ranks.first("Looking for checkpoints", lambda: _complete(Path(directory)))
    if keep and ranks.is_coordinator:
        for old in known[:-keep]:
            shutil.rmtree(Path(directory) / old)
    return Path(directory) / known[-1] if known else None


def _complete(directory: Path) -> list[str]:
    """Names of complete checkpoints, the newest last."""
    files = [
        path
        for name in (_metadata_file.NAME, _former.INDEX)
        for path in directory.glob(f"*/{name}")
    ]
    when = {path.parent.name: path.stat().st_mtime_ns for path in files}
    return sorted(when, key=lambda name: (when[name], name))
