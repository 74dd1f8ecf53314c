"""Writes the schemas of torch's built-in overloads, from the torch that is installed.

`python -m tools.torch_schemas` (`make names ORACLE=1`). A schema is the signature of an overload:
names, types and defaults of its arguments. Listed are the overloads that pullback has as well.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

FILE = Path(__file__).resolve().parents[1] / "pullback" / "library" / "builtin" / "schemas.txt"


def schemas(torch: Any, ours: Any) -> list[str]:
    """The schemas of what both have under `ops.aten`, without the namespace."""
    found = []
    for qualified in sorted(torch._C._dispatch_get_all_op_names()):
        space, _, rest = qualified.partition("::")
        name, _, overload = rest.partition(".")
        if space != "aten" or not hasattr(ours.ops.aten, name):
            continue
        overload = overload or "default"
        if overload in getattr(ours.ops.aten, name).overloads():
            schema = getattr(getattr(torch.ops.aten, name), overload)._schema
            found.append(str(schema).removeprefix("aten::"))
    return found


def main() -> None:
    """Write the file."""
    import torch  # type: ignore[import-not-found, unused-ignore]  # the oracle, where installed

    import pullback

    lines = [f"# Overloads of torch {torch.__version__.partition('+')[0]}: tools/torch_schemas.py"]
    lines += schemas(torch, pullback)
    FILE.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{FILE}: {len(lines) - 1} lines, {FILE.stat().st_size} bytes")


if __name__ == "__main__":
    main()
