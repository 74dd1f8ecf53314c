"""`torch.distributed.run`: what torchrun calls, for programs that launch others.

`python -m torch.distributed.run train.py` is `pullback launch train.py`, whose flags it takes.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from typing import Any

from pullback.core.listing import only_public as _only_public
from pullback.distributed.elastic.multiprocessing.errors import (
    ChildFailedError as _ChildFailedError,
)
from pullback.distributed.elastic.multiprocessing.errors import ProcessFailure as _ProcessFailure
from pullback.distributed.launch import launched as _launched
from pullback.distributed.launch import parser as _parser

__all__ = ["get_args_parser", "main", "parse_args", "run"]


def get_args_parser() -> argparse.ArgumentParser:
    """The parser of torchrun's flags.

    Example:
        >>> from pullback.distributed.run import get_args_parser
        >>> given = get_args_parser().parse_args(["--nproc-per-node", "2", "train.py", "--lr", "1"])
        >>> given.nproc_per_node, given.training_script, given.training_script_args
        ('2', 'train.py', ['--lr', '1'])
    """
    return _parser()


def parse_args(args: Sequence[str] | None) -> argparse.Namespace:
    """The options that these words ask for; without them, those of the command line.

    Args:
        args: The words after the command's name.
    """
    return get_args_parser().parse_args(args)


def run(args: Any) -> None:
    """Start the ranks and wait for their end.

    Raises ChildFailedError, with the exits of all that failed on this machine, where one did.

    Args:
        args: What `get_args_parser` has made of the flags. Those that are missing have their
            defaults, as have those that are None.
    """
    given = parse_args([args.training_script])
    vars(given).update({name: one for name, one in vars(args).items() if one is not None})
    given.nproc_per_node, given.master_port = str(given.nproc_per_node), int(given.master_port)
    status, job = _launched(given)
    if not status:
        return
    failed = {} if job is None else job.failed()
    if not failed:  # ended by a signal, or by another machine
        sys.exit(status)
    raise _ChildFailedError(
        given.training_script,
        {
            rank: _ProcessFailure(local, process.pid, process.returncode, "")
            for rank, (local, process) in failed.items()
        },
    )


def main(args: Sequence[str] | None = None) -> None:
    """Run a script on several ranks, as the words ask for.

    Args:
        args: Command line without the name of the program; that of the process if not given.
    """
    run(parse_args(args))


if __name__ == "__main__":
    main()

__dir__ = _only_public(globals())
