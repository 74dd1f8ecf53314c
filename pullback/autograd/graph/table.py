"""Tables for people: as text in a terminal, as HTML in a notebook."""

from __future__ import annotations

from collections.abc import Sequence

Row = Sequence[str]


def as_text(title: str, header: Row, rows: Sequence[Row]) -> str:
    """Columns under their names, the title above."""
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    lines = ["  ".join(map(str.ljust, row, widths)).rstrip() for row in (header, *rows)]
    return "\n".join([title, *lines])


def as_html(title: str, header: Row, rows: Sequence[Row]) -> str:
    """The same as an HTML table."""
    import html  # only here, and slow to load

    def cells(row: Row, tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{html.escape(one)}</{tag}>" for one in row) + "</tr>"

    body = "".join(cells(row, "td") for row in rows)
    caption = f"<caption>{html.escape(title)}</caption>"
    return f"<table>{caption}{cells(header, 'th')}{body}</table>"
