"""`pullback launch -n 4 train.py`: a script on several ranks of this machine, or of several.

The flags and the environment variables are torchrun's. Ranks that are still there when one has
failed are ended, and the exit of each is told; when the launcher is ended, its ranks are.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import re
import signal
import socket
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from pullback.core.listing import only_public as _only_public
from pullback.distributed.launching.job import Interrupted, Job, Share, say

__all__ = ["main"]


def main(arguments: Sequence[str] | None = None) -> int:
    """Entry point; returns the exit status: that of the first rank that failed, or 0.

    Args:
        arguments: Command line without the name of the program; that of the process if not given.
    """
    return launched(parser().parse_args(arguments)).status


class Outcome(NamedTuple):
    """How a launch has ended: the exit status, and the job that was run last, if one was."""

    status: int
    job: Job | None


def launched(options: Any) -> Outcome:
    """Run what was asked for, to its end."""
    least, _, most = str(options.nnodes).partition(":")
    here = _ranks_here(options.nproc_per_node)
    with _ended_by(options.signals_to_handle):
        if most and most != least:
            return _elastic(options, int(least), int(most), here)
        return _static(options, int(least), here)


def _static(options: Any, nodes: int, here: int) -> Outcome:
    """A job whose machines are known, and numbered by `--node-rank`."""
    if nodes < 1 or not 0 <= options.node_rank < nodes:
        raise SystemExit(f"pullback launch: node {options.node_rank} of {nodes} nodes.")
    status: int | None = 1
    job = None
    for attempt in range(options.max_restarts + 1):
        job = Job(options, _share(options, nodes, here), attempt)
        status = job.run()
        if not status or status >= 128:  # ended well, or by a signal
            break
        if attempt < options.max_restarts:
            say(f"restart {attempt + 1} of {options.max_restarts}")
    return Outcome(status or 0, job)


def _elastic(options: Any, least: int, most: int, here: int) -> Outcome:
    """A job whose machines come and go: each attempt runs on those that are there."""
    from pullback.distributed.launching.membership import Ended, Member, keeper_at

    host, _, port = options.rdzv_endpoint.partition(":")
    if not 1 <= least < most or not port:
        raise SystemExit("pullback launch: --nnodes LEAST:MOST needs --rdzv-endpoint HOST:PORT.")
    given = {"timeout": "600", "last_call_timeout": "30"}
    for pair in filter(None, options.rdzv_conf.split(",")):
        key, _, value = pair.partition("=")
        given[key.strip()] = value
    patience = float(given.get("join_timeout", given["timeout"]))
    keeper = keeper_at(
        host,
        int(port),
        least=least,
        most=most,
        restarts=options.max_restarts,
        last_call=float(given["last_call_timeout"]),
        patience=patience,
    )
    member = Member(host, int(port), here, patience, "" if keeper is None else keeper.own_word)
    job = None
    try:
        while True:
            share, attempt = member.next_share()
            say(f"attempt {attempt}: node {share.node} of {share.nodes}, {share.size} ranks in all")
            job = Job(options, share, attempt)
            status = job.run(member.disturbed)
            if status is not None and status >= 128:
                return Outcome(status, job)
            if status is not None:
                member.report(status)
    except Ended as ended:
        if ended.why:
            say(f"{ended.why}; the job is over")
        return Outcome(ended.status, job)
    except Interrupted as told:
        return Outcome(128 + told.number, job)
    except KeyboardInterrupt:
        return Outcome(130, job)
    finally:
        member.close()
        if keeper is not None:
            keeper.close()


@contextlib.contextmanager
def _ended_by(names: str) -> Iterator[None]:
    """Inside, these signals end the ranks, and then the launcher."""

    def told(number: int, frame: Any) -> None:
        raise Interrupted(number)

    before: dict[int, Any] = {}
    try:
        if threading.current_thread() is threading.main_thread():
            for name in filter(None, names.split(",")):
                number = getattr(signal, name.strip(), None)
                if not isinstance(number, signal.Signals):
                    raise SystemExit(f"pullback launch: there is no signal {name!r}.")
                if number is not signal.SIGINT:  # which raises KeyboardInterrupt
                    before[number] = signal.signal(number, told)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _share(options: Any, nodes: int, here: int) -> Share:
    """The ranks of this machine, where every machine has as many."""
    host, port = options.master_addr, options.master_port
    if options.rdzv_endpoint:
        host, _, given = options.rdzv_endpoint.partition(":")
        port = int(given or 29400)
    if nodes > 1 and not port:
        raise SystemExit("pullback launch: several nodes need --master-port.")
    port = port or _free_port()
    first = options.node_rank * here
    pmi_port = port + 1 if nodes > 1 else 0
    return Share(options.node_rank, nodes, here, first, nodes * here, host, port, pmi_port)


def parser() -> argparse.ArgumentParser:
    """Of the flags; the options have torchrun's names."""
    made = argparse.ArgumentParser(
        prog="pullback launch", description="Run a script on several ranks."
    )
    add = made.add_argument
    add(
        "-n",
        "--nproc-per-node",
        "--nproc_per_node",
        default="1",
        help="ranks here: N, cpu, gpu or auto",
    )
    add("--nnodes", default="1", help="how many machines, or LEAST:MOST that come and go")
    add("--node-rank", "--node_rank", type=int, default=0, help="which of them this is")
    add("--master-addr", "--master_addr", default="127.0.0.1", help="where node 0 is")
    add("--master-port", "--master_port", type=int, default=0, help="a free port there")
    add("--rdzv-endpoint", "--rdzv_endpoint", default="", help="host:port, the same in one")
    add("--rdzv-backend", "--rdzv_backend", default="static", help="static or c10d; alike here")
    add("--rdzv-id", "--rdzv_id", default="none", help="a name of the job")
    add("--rdzv-conf", "--rdzv_conf", default="", help="settings of the meeting: key=value,...")
    add("--standalone", action="store_true", help="one machine, any free port")
    add("--max-restarts", "--max_restarts", type=int, default=0, help="times to begin again")
    add("--monitor-interval", "--monitor_interval", type=float, default=0.1, help="seconds")
    add("-m", "--module", action="store_true", help="the script is the name of a module")
    add("--no-python", "--no_python", action="store_true", help="the script is a program")
    add("--log-dir", "--log_dir", default=None, help="write each rank's output to a file there")
    add("-r", "--redirects", default="0", help="write 1 stdout, 2 stderr or 3 both to files")
    add("-t", "--tee", default="0", help="the same, and show them")
    add("--local-ranks-filter", "--local_ranks_filter", default="", help="show these alone: 0,1")
    add("--role", default="default", help="what the ranks are called")
    add("--start-method", "--start_method", default="spawn", help="taken; ranks are new processes")
    add(
        *("--signals-to-handle", "--signals_to_handle"),
        default="SIGTERM,SIGINT,SIGHUP,SIGQUIT",
        help="signals that end the ranks",
    )
    add(
        *("--shutdown-timeout", "--shutdown_timeout"),
        type=float,
        default=30.0,
        help="seconds that ranks have to end when a signal ends the launcher",
    )
    add(
        *("--virtual-local-rank", "--virtual_local_rank"),
        action="store_true",
        help="each rank sees one device, and is the first",
    )
    add("--run-path", "--run_path", action="store_true", help="taken; scripts are run so anyway")
    add("--local-addr", "--local_addr", help="taken; the others try all addresses of this machine")
    add(
        *("--event-log-handler", "--event_log_handler"),
        choices=["null"],
        default="null",
        help="taken; events are lines of the launcher",
    )
    add("training_script", metavar="script")
    add("training_script_args", metavar="arguments", nargs=argparse.REMAINDER)
    return _with_environment(made)


def _with_environment(parser: argparse.ArgumentParser) -> argparse.ArgumentParser:
    """Flags may be given as variables, PET_NNODES=2, as schedulers of torch's jobs do."""
    for action in parser._actions:
        value = os.environ.get(f"PET_{action.dest.upper()}")
        if value is not None and action.option_strings:
            switched = action.nargs == 0  # a flag without a value
            parser.set_defaults(**{action.dest: bool(int(value)) if switched else value})
    return parser


def _ranks_here(wanted: str) -> int:
    if wanted in ("auto", "gpu"):
        devices = _devices()
        if wanted == "gpu" and not devices:
            raise SystemExit("pullback launch: -n gpu is for machines with a GPU; this has none.")
        return devices or os.cpu_count() or 1
    if wanted == "cpu":
        return os.cpu_count() or 1
    try:
        count = int(wanted)
    except ValueError:
        count = 0
    if count < 1:
        raise SystemExit(f"pullback launch: -n takes a number or auto, got {wanted!r}.")
    return count


def _devices() -> int:
    """How many GPUs ranks may use, without asking a library that loads for a second."""
    named = os.environ.get("CUDA_VISIBLE_DEVICES")
    if named is not None:
        return len([one for one in named.split(",") if one.strip() not in ("", "-1")])
    with contextlib.suppress(OSError):
        return sum(re.fullmatch(r"nvidia\d+", name) is not None for name in os.listdir("/dev"))
    return 0


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


if __name__ == "__main__":
    sys.exit(main())

__dir__ = _only_public(globals())
