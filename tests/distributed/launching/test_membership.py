"""`--nnodes LEAST:MOST`: machines come and go, and each attempt runs on those that are there."""

import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pullback.cli import main as command
from pullback.distributed.launching.membership import Ended, Member, keeper_at

ROOT = Path(__file__).parents[3]
BEGIN = "import sys; from pullback_command import main; sys.exit(main(sys.argv[1:]))"
SCRIPT = """
import os, sys, time
folder = sys.argv[1]
attempt, rank = os.environ["TORCHELASTIC_RESTART_COUNT"], os.environ["RANK"]
with open(f"{folder}/new_{attempt}_{rank}", "w") as file:
    file.write(os.environ["WORLD_SIZE"])
os.rename(file.name, f"{folder}/size_{attempt}_{rank}")
while not os.path.exists(f"{folder}/stop"):
    time.sleep(0.01)
    if os.path.exists(f"{folder}/fail_{attempt}_{rank}"):
        sys.exit(5)
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Launchers:
    """Launchers of one job, as if each were on a machine of its own."""

    def __init__(self, folder, restarts):
        self.folder, self.started = folder, []
        (folder / "train.py").write_text(SCRIPT)
        self.given = ["--nnodes", "1:2", "--rdzv-endpoint", f"127.0.0.1:{free_port()}"]
        self.given += ["--rdzv-conf", "last_call_timeout=0.1", "--max-restarts", str(restarts)]

    def start(self):
        run = ["--no-python", sys.executable, str(self.folder / "train.py"), str(self.folder)]
        process = subprocess.Popen(
            [sys.executable, "-c", BEGIN, "launch", *self.given, *run],
            cwd=ROOT,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.started.append(process)
        return process

    def size(self, attempt, rank):
        """What a rank of an attempt was told, when it begins."""
        path = self.folder / f"size_{attempt}_{rank}"
        until = time.monotonic() + 30
        while not path.exists():
            assert time.monotonic() < until, [p.poll() for p in self.started]
            time.sleep(0.01)
        return path.read_text()

    def end(self):
        for process in self.started:
            process.kill()
            process.communicate()


@pytest.fixture
def launchers(tmp_path, request):
    made = Launchers(tmp_path, request.param)
    yield made
    made.end()


@pytest.mark.parametrize("launchers", [1], indirect=True)
def test_a_machine_that_comes_and_one_that_goes_begin_a_new_attempt(launchers):
    first = launchers.start()
    assert launchers.size(0, 0) == "1"
    second = launchers.start()
    assert launchers.size(1, 0) == launchers.size(1, 1) == "2"
    second.kill()
    assert launchers.size(2, 0) == "1"
    (launchers.folder / "stop").touch()
    told = first.communicate(timeout=30)[1]
    assert first.returncode == 0, told
    assert "attempt 1: node 0 of 2, 2 ranks in all" in told


@pytest.mark.parametrize("launchers", [1], indirect=True)
def test_a_failure_is_a_restart_for_all_until_none_is_left(launchers):
    both = [launchers.start()]
    assert launchers.size(0, 0) == "1"
    both.append(launchers.start())
    assert launchers.size(1, 1) == "2"
    (launchers.folder / "fail_1_1").touch()
    assert launchers.size(2, 0) == launchers.size(2, 1) == "2"
    (launchers.folder / "fail_2_0").touch()
    for process in both:
        told = process.communicate(timeout=30)[1]
        assert process.returncode == 5, told
        assert "a rank has failed; the job is over" in told


def test_too_few_machines_end_the_job():
    keeper = keeper_at("127.0.0.1", 0, least=2, most=3, restarts=0, last_call=0.0, patience=0.3)
    member = Member("127.0.0.1", keeper.port, 1, 5.0, keeper.own_word)
    with pytest.raises(Ended) as ended:
        member.next_share()
    assert ended.value.status == 1
    assert ended.value.why == "1 of 2 machines have come"
    member.close()
    keeper.close()


def test_shares_may_differ_and_the_keepers_own_is_the_first():
    keeper = keeper_at("127.0.0.1", 0, least=2, most=2, restarts=0, last_call=0, patience=20)
    other = Member("127.0.0.1", keeper.port, 3, 5.0)
    own = Member("127.0.0.1", keeper.port, 1, 5.0, keeper.own_word)
    other._line.put(join=3, machine="elsewhere", word="")
    share, attempt = own.next_share()
    assert share[:5] == (0, 2, 1, 0, 4)
    assert share.mapping == "(vector,(0,1,1),(1,1,3))"
    assert attempt == 0
    message = other._heard.get(timeout=20)
    assert message["share"][:5] == [1, 2, 3, 1, 4]
    for one in (other, own, keeper):
        one.close()


def test_the_list_is_kept_where_the_endpoint_is():
    assert keeper_at("192.0.2.1", 29400) is None  # an address that nobody has
    with pytest.raises(SystemExit, match="needs --rdzv-endpoint"):
        command(["launch", "--nnodes", "1:4", "train.py"])
    with pytest.raises(SystemExit, match="nobody keeps a list of members"):
        Member("127.0.0.1", free_port(), 1, 0.0)
