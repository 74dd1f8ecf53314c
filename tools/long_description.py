"""The package's long description: README with links that lead somewhere from a package index too.

Hatchling calls it when it builds. README's links are relative to the checkout. They become
addresses in the repository that `[project.urls]` calls Source; while there is none, a link becomes
its text, and a picture is left out.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

try:
    from hatchling.metadata.plugin.interface import MetadataHookInterface
except ImportError:  # the tests and other tools need no build system
    MetadataHookInterface = object

__all__ = ["LongDescription", "with_addresses"]

# A picture, or a link that is no picture; neither to an address nor within the page.
_LINK = re.compile(r"(!?)\[([^\]]*)\]\((?!https?:|mailto:|#)([^)\s]+)\)")


def with_addresses(text: str, source: str | None, version: str) -> str:
    """Markdown whose links into the checkout are addresses, or text where there is no source."""

    def link(match: re.Match[str]) -> str:
        picture, shown, target = match.groups()
        if source is None:
            return "" if picture else shown
        kind = "raw" if picture else "blob"
        return f"{picture}[{shown}]({source.rstrip('/')}/{kind}/v{version}/{target})"

    parts = re.split(r"(^```.*?^```$)", text, flags=re.MULTILINE | re.DOTALL)
    return "".join(_LINK.sub(link, part) if at % 2 == 0 else part for at, part in enumerate(parts))


class LongDescription(MetadataHookInterface):
    """What `[tool.hatch.metadata.hooks.custom]` names."""

    def update(self, metadata: dict[str, Any]) -> None:
        """Give the project its description."""
        root = Path(self.root)
        version = re.search(
            r'VERSION = "([^"]+)"', (root / "pullback" / "installed.py").read_text()
        )
        assert version is not None
        text = with_addresses(
            (root / "README.md").read_text(encoding="utf-8"),
            metadata.get("urls", {}).get("Source"),
            version[1],
        )
        metadata["readme"] = {"content-type": "text/markdown", "text": text}
