"""The ranks that a launcher has started on this machine, from their start to their end."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

from pullback.distributed.launching.outputs import Outputs
from pullback.distributed.meeting import pmi

__all__ = ["Interrupted", "Job", "Share", "say"]

GRACE = 3.0  # seconds that ranks have to end by themselves once one has failed
_NUDGE = 1.0  # seconds from being asked to end to being killed


class Share(NamedTuple):
    """Which ranks of a job are this machine's, and where all of them meet."""

    node: int
    nodes: int
    here: int
    first: int
    size: int
    host: str
    port: int
    pmi_port: int = 0
    mapping: str = ""  # which ranks share a machine, in MPI's words; empty where all have as many


class Interrupted(BaseException):
    """A signal has told the launcher to end."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


def say(text: str) -> None:
    """A line of the launcher's."""
    pmi.tell(f"pullback launch: {text}")


def _ending_with_this_process() -> list[str]:
    """What a command begins with so that the system ends it when we die.

    Not all children are ranks that hold a connection to us, and we may be killed without a word.
    (Asking for it between fork and exec would be Python code in a process that had threads.)
    """
    found = shutil.which("setpriv")
    return [] if found is None else [found, "--pdeathsig", "TERM", "--"]


class Job:
    """One attempt: start all ranks of this machine, watch them, tell how each ended."""

    def __init__(self, options: Any, share: Share, attempt: int) -> None:
        self.options, self.share, self.attempt = options, share, attempt
        self.ranks: list[subprocess.Popen[Any]] = []
        self.ended: dict[int, int] = {}
        self.left_behind: set[str] = set()
        self.outputs = Outputs(options, share.first, attempt)

    def run(self, disturbed: Callable[[], bool] = lambda: False) -> int | None:
        """The exit status: that of the first rank that failed, or 0; None if it was disturbed."""
        service, share = None, self.share
        pmi_port = share.pmi_port
        try:
            if share.size > 1 and share.node == 0:
                host = "127.0.0.1" if share.nodes == 1 else ""
                even = 0 if share.mapping else share.here
                service = pmi.ServiceHere(share.size, host, pmi_port, even, share.mapping)
                pmi_port = service.port
            for local in range(share.here):
                self.ranks.append(self._start(local, pmi_port))
            self.outputs.begin(self.ranks)
            return self._watch(disturbed)
        except KeyboardInterrupt:
            self.end_all()
            return 130
        except Interrupted as told:
            say(f"ended by {signal.Signals(told.number).name}; the ranks are ended")
            self.end_all(self.options.shutdown_timeout)
            return 128 + told.number
        finally:
            self.end_all()
            self.outputs.end()
            if service is not None:
                service.end()
            for path in self.left_behind:  # of ranks that were killed while MPI began
                with contextlib.suppress(OSError):
                    os.unlink(path)

    def failed(self) -> dict[int, tuple[int, subprocess.Popen[Any]]]:
        """Ranks here that ended badly by themselves: their numbers here, and processes."""
        return {
            self.share.first + local: (local, self.ranks[local])
            for local, code in self.ended.items()
            if code
        }

    def _environment(self, local: int, pmi_port: int) -> dict[str, str]:
        options, share = self.options, self.share
        rank = share.first + local
        environment = {
            **os.environ,
            "RANK": str(rank),
            "LOCAL_RANK": str(local),
            "WORLD_SIZE": str(share.size),
            "LOCAL_WORLD_SIZE": str(share.here),
            "GROUP_RANK": str(share.node),
            "GROUP_WORLD_SIZE": str(share.nodes),
            "ROLE_NAME": options.role,
            "ROLE_RANK": str(rank),
            "ROLE_WORLD_SIZE": str(share.size),
            "MASTER_ADDR": share.host,
            "MASTER_PORT": str(share.port),
            "PULLBACK_PMI_PORT": str(pmi_port),
            "TORCHELASTIC_RESTART_COUNT": str(self.attempt),
            "TORCHELASTIC_MAX_RESTARTS": str(options.max_restarts),
            "TORCHELASTIC_RUN_ID": options.rdzv_id,
            "PYTHONUNBUFFERED": "1",
        }
        environment.setdefault("OMP_NUM_THREADS", "1")
        if options.virtual_local_rank:
            seen = os.environ.get("CUDA_VISIBLE_DEVICES")
            devices = seen.split(",") if seen else [str(n) for n in range(share.here)]
            if local >= len(devices):
                raise SystemExit(
                    f"pullback launch: --virtual-local-rank gives each of {share.here} ranks a "
                    f"device of its own, and CUDA_VISIBLE_DEVICES names {len(devices)}."
                )
            environment.update(LOCAL_RANK="0", CUDA_VISIBLE_DEVICES=devices[local])
        return environment

    def _start(self, local: int, pmi_port: int) -> subprocess.Popen[Any]:
        command = [*_ending_with_this_process(), *self._command()]
        with self.outputs.of(local) as given:
            return subprocess.Popen(command, env=self._environment(local, pmi_port), **given)

    def _command(self) -> list[str]:
        options = self.options
        if options.no_python:
            return [options.training_script, *options.training_script_args]
        run = [sys.executable, "-m", "pullback", "run", *(["-m"] if options.module else [])]
        return [*run, options.training_script, *options.training_script_args]

    def _watch(self, disturbed: Callable[[], bool]) -> int | None:
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
                        until = time.monotonic() + GRACE
                        say(f"rank {self.share.first + local} {told(code)}; the others are ended")
            if time.monotonic() > until:
                break
            if not failed and disturbed():
                self.end_all()
                return None
            time.sleep(0.01)
        if failed:
            killed = self.end_all()
            for local, process in enumerate(self.ranks):
                how = "was ended by the launcher" if local in killed else told(process.returncode)
                say(f"rank {self.share.first + local} {how}")
        return failed if failed >= 0 else 128 - failed

    def end_all(self, patience: float = _NUDGE) -> set[int]:
        """End ranks that still run; which those were."""
        alive = {n for n, process in enumerate(self.ranks) if process.poll() is None}
        for number in alive:
            self.left_behind |= pmi.shared_memory(self.ranks[number].pid)
            self.ranks[number].terminate()
        until = time.monotonic() + patience
        for number in alive:
            try:
                self.ranks[number].wait(max(0.0, until - time.monotonic()))
            except subprocess.TimeoutExpired:
                self.ranks[number].kill()
                self.ranks[number].wait()
        return alive


def told(code: int) -> str:
    """How a process has ended, in words."""
    if code == 0:
        return "ended well"
    if code > 0:
        return f"exited with status {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = str(-code)
    return f"was killed by {name}"
