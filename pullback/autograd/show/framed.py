"""What pages have in common: a browser opens them, and a notebook shows them in a frame."""

from __future__ import annotations

import json
from html import escape
from typing import Any

__all__ = ["Framed", "in_script"]


class Framed:
    """A page with a title and its whole text from `html()`."""

    title: str
    html: Any  # a method, whose options differ

    def open(self) -> str:
        """Show the page in the browser; returns the file that it reads."""
        import tempfile
        import webbrowser

        with tempfile.NamedTemporaryFile(
            "w", suffix=".html", prefix="pullback-", delete=False, encoding="utf-8"
        ) as file:
            file.write(self.html())
        webbrowser.open("file://" + file.name)
        return file.name

    def _repr_html_(self) -> str:
        # In a frame: its styles, keys and names stay its own, and the notebook's theirs.
        return (
            f'<iframe srcdoc="{escape(self.html())}" title="{escape(self.title)}" width="100%" '
            'height="560" style="border: 1px solid #8884; border-radius: 8px"></iframe>'
        )


def in_script(data: Any) -> str:
    """JSON as it can stand in a script element, whatever names of the user's are in it.

    "</script>" ends the element and "<!--<script>" keeps it from ending, wherever they stand; JSON
    reads the escapes as the same characters.
    """
    text = json.dumps(data, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text
