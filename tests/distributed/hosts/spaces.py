"""Hosts that are network namespaces of this machine, joined by a cable that can be cut.

Each has mount, process, IPC and host name spaces of its own too, and its own /dev/shm: otherwise
MPI would find a way past the cable. Only root can make them. Nothing leaves the machine.
"""

import contextlib
import os
import shutil
import subprocess

ADDRESSES = ("10.77.0.1", "10.77.0.2")


def run(*command):
    return subprocess.run(command, capture_output=True, text=True, check=False)


def can_be_made():
    """Whether this user may make such hosts here; says why not."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        return "network namespaces need root"
    if shutil.which("ip") is None or shutil.which("unshare") is None:
        return "network namespaces need iproute2 and util-linux"
    probe = f"pullback_probe_{os.getpid()}"
    made = run("ip", "netns", "add", probe)
    run("ip", "netns", "delete", probe)
    entered = run("unshare", "--mount", "--pid", "--ipc", "--uts", "--fork", "--mount-proc", "true")
    return "" if made.returncode == entered.returncode == 0 else "namespaces cannot be made here"


class Hosts:
    """Two hosts and the cable between them."""

    def __init__(self):
        self.names = [f"pullback_{os.getpid()}_{k}" for k in range(2)]
        self.ends = [f"pb{os.getpid() % 100000}_{k}" for k in range(2)]
        self.started = []

    def __enter__(self):
        for name in self.names:
            self.do("ip", "netns", "add", name)
        first, second = self.ends
        self.do("ip", "link", "add", first, "type", "veth", "peer", "name", second)
        for name, end, address in zip(self.names, self.ends, ADDRESSES, strict=True):
            self.do("ip", "link", "set", end, "netns", name)
            self.inside(name, "ip", "address", "add", f"{address}/24", "dev", end)
            self.inside(name, "ip", "link", "set", end, "up")
            self.inside(name, "ip", "link", "set", "lo", "up")
        return self

    def do(self, *command):
        done = run(*command)
        assert done.returncode == 0, (command, done.stderr)

    def inside(self, name, *command):
        self.do("ip", "netns", "exec", name, *command)

    def start(self, host, command, **environment):
        """A program on a host; its output can be read from the process that is returned."""
        spaces = ["--mount", "--pid", "--ipc", "--uts", "--fork", "--mount-proc", "--kill-child"]
        begin = f'hostname host{host}; mount -t tmpfs tmpfs /dev/shm; exec "$@"'
        there = ["ip", "netns", "exec", self.names[host], "unshare", *spaces]
        process = subprocess.Popen(
            [*there, "sh", "-c", begin, "sh", *command],
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self.started.append(process)
        return process

    def cut(self):
        """Pull the cable: no packet arrives any more, and nobody is told."""
        self.inside(self.names[1], "ip", "link", "set", self.ends[1], "down")

    def __exit__(self, *_):
        for process in self.started:
            process.kill()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(10)
            process.stdout.close()
        for name in self.names:
            run("ip", "netns", "delete", name)
