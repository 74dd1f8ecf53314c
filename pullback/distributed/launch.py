"""`pullback launch -n 4 train.py`: a script on several ranks of this machine, or of several.

The flags and the environment variables are torchrun's. Ranks that are still there when one has
failed are ended, and the exit of each is told.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Sequence
from typing import Any

from pullback.core.listing import only_public as _only_public
from pullback.distributed import pmi

__all__ = ["main"]

_GRACE = 3.0  # seconds that ranks have to end by themselves once one has failed


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit status: that of the first rank that failed, or 0."""
    options = _parser().parse_args(arguments)
    nodes = int(str(options.nnodes).split(":")[-1])
    here = _ranks_here(options.nproc_per_node)
    if nodes < 1 or not 0 <= options.node_rank < nodes:
        raise SystemExit(f"pullback launch: node {options.node_rank} of {nodes} nodes.")
    status = 1
    for attempt in range(options.max_restarts + 1):
        job = _Job(options, nodes, here, attempt)
        status = job.run()
        if status == 0 or status == 130:
            return status
        if attempt < options.max_restarts:
            _say(f"restart {attempt + 1} of {options.max_restarts}")
    return status


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="pullback launch", description="Run a script on several ranks."
    )
    add = parser.add_argument
    add("-n", "--nproc-per-node", "--nproc_per_node", default="1", help="ranks here: N, or auto")
    add("--nnodes", default="1", help="how many machines")
    add("--node-rank", "--node_rank", type=int, default=0, help="which of them this is")
    add("--master-addr", "--master_addr", default="127.0.0.1", help="where node 0 is")
    add("--master-port", "--master_port", type=int, default=0, help="a free port there")
    add("--rdzv-endpoint", "--rdzv_endpoint", default="", help="host:port, the same in one")
    add("--rdzv-backend", "--rdzv_backend", default="static", help="static or c10d; alike here")
    add("--rdzv-id", "--rdzv_id", default="none", help="a name of the job")
    add("--standalone", action="store_true", help="one machine, any free port")
    add("--max-restarts", "--max_restarts", type=int, default=0, help="times to begin again")
    add("--monitor-interval", "--monitor_interval", type=float, default=0.1, help="seconds")
    add("-m", "--module", action="store_true", help="the script is the name of a module")
    add("--no-python", "--no_python", action="store_true", help="the script is a program")
    add("--log-dir", "--log_dir", default=None, help="write each rank's output to a file there")
    add("script")
    add("arguments", nargs=argparse.REMAINDER)
    return parser


def _ranks_here(wanted: str) -> int:
    if wanted in ("auto", "cpu"):
        return os.cpu_count() or 1
    try:
        count = int(wanted)
    except ValueError:
        count = 0
    if count < 1:
        raise SystemExit(f"pullback launch: -n takes a number or auto, got {wanted!r}.")
    return count


def _say(text: str) -> None:
    pmi.tell(f"pullback launch: {text}")


class _Job:
    """The ranks of this machine, from their start to their end."""

    def __init__(self, options: Any, nodes: int, here: int, attempt: int) -> None:
        self.options, self.here, self.attempt = options, here, attempt
        self.size = nodes * here
        self.first = options.node_rank * here
        host, port = options.master_addr, options.master_port
        if options.rdzv_endpoint:
            host, _, given = options.rdzv_endpoint.partition(":")
            port = int(given or 29400)
        self.nodes = nodes
        if nodes > 1 and not port:
            raise SystemExit("pullback launch: several nodes need --master-port.")
        self.host, self.port = host, port or _free_port()
        self.ranks: list[subprocess.Popen[Any]] = []
        self.ended: dict[int, int] = {}
        self.left_behind: set[str] = set()

    def run(self) -> int:
        """Start all, watch them, tell how each ended."""
        service = None
        pmi_port = self.port + 1 if self.nodes > 1 else 0
        try:
            if self.size > 1 and self.options.node_rank == 0:
                host = "127.0.0.1" if self.nodes == 1 else ""
                service = pmi.ServiceHere(self.size, host, pmi_port, self.here)
                pmi_port = service.port
            for local in range(self.here):
                self.ranks.append(self._start(local, pmi_port))
            return self._watch()
        except KeyboardInterrupt:
            self._end_all()
            return 130
        finally:
            self._end_all()
            if service is not None:
                service.end()
            for path in self.left_behind:  # of ranks that were killed
                with contextlib.suppress(OSError):
                    os.unlink(path)

    def _start(self, local: int, pmi_port: int) -> subprocess.Popen[Any]:
        options, rank = self.options, self.first + local
        environment = {
            **os.environ,
            "RANK": str(rank),
            "LOCAL_RANK": str(local),
            "WORLD_SIZE": str(self.size),
            "LOCAL_WORLD_SIZE": str(self.here),
            "GROUP_RANK": str(options.node_rank),
            "GROUP_WORLD_SIZE": str(self.nodes),
            "ROLE_RANK": str(rank),
            "ROLE_WORLD_SIZE": str(self.size),
            "MASTER_ADDR": self.host,
            "MASTER_PORT": str(self.port),
            "PULLBACK_PMI_PORT": str(pmi_port),
            "TORCHELASTIC_RESTART_COUNT": str(self.attempt),
            "TORCHELASTIC_MAX_RESTARTS": str(options.max_restarts),
            "TORCHELASTIC_RUN_ID": options.rdzv_id,
            "PYTHONUNBUFFERED": "1",
        }
        environment.setdefault("OMP_NUM_THREADS", "1")
        kept: dict[str, Any] = {}
        if options.log_dir:
            os.makedirs(options.log_dir, exist_ok=True)
            log = os.path.join(options.log_dir, f"rank_{rank}.log")
            kept = {"stdout": open(log, "wb"), "stderr": subprocess.STDOUT}  # noqa: SIM115 (closed below)
        try:
            return subprocess.Popen(self._command(), env=environment, **kept)
        finally:
            if kept:
                kept["stdout"].close()

    def _command(self) -> list[str]:
        options = self.options
        if options.no_python:
            return [options.script, *options.arguments]
        run = [sys.executable, "-m", "pullback", "run", *(["-m"] if options.module else [])]
        return [*run, options.script, *options.arguments]

    def _watch(self) -> int:
        failed = 0
        until = float("inf")
        while len(self.ended) < len(self.ranks):
            for local, process in enumerate(self.ranks):
                code = process.poll()
                if code is not None and local not in self.ended:
                    self.ended[local] = code
                    if code and not failed:
                        failed = code
                        for other in self.ranks:
                            self.left_behind |= pmi.shared_memory(other.pid)
                        until = time.monotonic() + _GRACE
                        _say(f"rank {self.first + local} {_told(code)}; the others are ended")
            if time.monotonic() > until:
                break
            time.sleep(0.01)
        if failed:
            killed = self._end_all()
            for local, process in enumerate(self.ranks):
                how = "was ended by the launcher" if local in killed else _told(process.returncode)
                _say(f"rank {self.first + local} {how}")
        return failed if failed >= 0 else 128 - failed

    def _end_all(self) -> set[int]:
        """End ranks that still run; which those were."""
        alive = {n for n, process in enumerate(self.ranks) if process.poll() is None}
        for number in alive:
            self.left_behind |= pmi.shared_memory(self.ranks[number].pid)
            self.ranks[number].terminate()
        until = time.monotonic() + 1.0
        for number in alive:
            try:
                self.ranks[number].wait(max(0.0, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                self.ranks[number].kill()
                self.ranks[number].wait()
        return alive


def _told(code: int) -> str:
    if code == 0:
        return "ended well"
    if code > 0:
        return f"exited with status {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = str(-code)
    return f"was killed by {name}"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


if __name__ == "__main__":
    sys.exit(main())

__dir__ = _only_public(globals())
