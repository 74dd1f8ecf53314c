"""Shows a page while it changes, to this machine alone."""

from __future__ import annotations

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from pullback.autograd.answers.report import Report

__all__ = ["Server"]

_LOOPBACK = "127.0.0.1"
# The page asks for itself again and takes over what is new, so that scrolling is kept.
_AGAIN = """
"use strict";
setInterval(async () => {
  try {
    const answer = await fetch("/body");
    if (answer.ok) document.querySelector("main").innerHTML = await answer.text();
  } catch { document.title = "the run is over"; }
}, 2000);
"""


class Server:
    """Serves `page()` on the loopback until closed; a port of 0 lets the system choose."""

    def __init__(self, page: Callable[[], Report], port: int = 0) -> None:
        handler = type("Handler", (_Handler,), {"page": staticmethod(page)})
        self._server = ThreadingHTTPServer((_LOOPBACK, port), handler)
        self._server.daemon_threads = True
        self.port = int(self._server.server_address[1])
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.1}, daemon=True
        )
        self._thread.start()

    @property
    def address(self) -> str:
        """Where a browser on this machine finds it."""
        return f"http://{_LOOPBACK}:{self.port}/"

    def close(self) -> None:
        """Serve no more."""
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class _Handler(BaseHTTPRequestHandler):
    """Two addresses: the page, and what is in it."""

    page: Callable[[], Report]

    def do_GET(self) -> None:
        """Answer, if it is asked for by a name of this machine.

        A page of somebody else's may let a browser resolve its own name to the loopback.
        """
        host = (self.headers.get("Host") or "").rpartition(":")[0]
        if host not in (_LOOPBACK, "localhost"):
            self.send_error(403)
        elif self.path == "/":
            made = self.page()
            made.body, made._script = f"<main>{made.body}</main>", _AGAIN
            self._send(made.html())
        elif self.path == "/body":
            self._send(self.page().body)
        else:
            self.send_error(404)

    def _send(self, text: str) -> None:
        data = text.encode("utf-8")
        self.send_response(200)
        self.send_header("Content-Type", "text/html; charset=utf-8")
        self.send_header("Content-Length", str(len(data)))
        self.send_header("Cache-Control", "no-store")
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing: the user's own output is on the terminal."""
