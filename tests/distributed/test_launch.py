"""`pullback launch`: torchrun's variables, exits told, restarts. No MPI is needed for these."""

import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from pullback.cli import main as command
from pullback.distributed.meeting import pmi
from pullback.distributed.meeting.pmi_service import Service

ROOT = Path(__file__).parents[2]

SCRIPT = """
import os, sys, time
rank = int(os.environ["RANK"])
attempt = os.environ["TORCHELASTIC_RESTART_COUNT"]
with open(os.path.join(sys.argv[1], f"said_{rank}_{attempt}"), "w") as file:
    names = ("LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "GROUP_RANK")
    file.write(" ".join(os.environ[name] for name in names))
if sys.argv[2] == "fail" and rank == 1 and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
    os._exit(7)
if sys.argv[2] == "fail" and os.environ["TORCHELASTIC_RESTART_COUNT"] == "0":
    time.sleep(60)
"""


@pytest.fixture
def script(tmp_path, monkeypatch):
    path = tmp_path / "train.py"
    path.write_text(SCRIPT)
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return path


def test_ranks_get_torchruns_variables(script, tmp_path):
    options = ["--nproc_per_node=2", "--standalone"]
    assert (
        command(
            ["launch", *options, "--no-python", sys.executable, str(script), str(tmp_path), "ok"]
        )
        == 0
    )
    assert (tmp_path / "said_0_0").read_text() == "0 2 2 127.0.0.1 0"
    assert (tmp_path / "said_1_0").read_text() == "1 2 2 127.0.0.1 0"


def test_a_failed_rank_ends_the_others_and_all_exits_are_told(script, tmp_path, capfd, monkeypatch):
    monkeypatch.setattr("pullback.distributed.launching.job.GRACE", 0.2)
    given = ["-n", "3", "--no-python", sys.executable, str(script), str(tmp_path), "fail"]
    assert command(["launch", *given]) == 7
    assert time.time() - (tmp_path / "said_1_0").stat().st_mtime < 5  # written as it fails
    told = capfd.readouterr().err
    assert "rank 1 exited with status 7; the others are ended" in told
    assert "rank 0 was ended by the launcher" in told
    assert "rank 2 was ended by the launcher" in told


def test_restarts_begin_again(script, tmp_path, capfd, monkeypatch):
    monkeypatch.setattr("pullback.distributed.launching.job.GRACE", 0.2)
    given = [
        "--max-restarts",
        "1",
        "--no-python",
        sys.executable,
        str(script),
        str(tmp_path),
        "fail",
    ]
    assert command(["launch", "-n", "2", *given]) == 0
    assert "restart 1 of 1" in capfd.readouterr().err
    assert (tmp_path / "said_1_1").exists()


def test_logs_can_go_to_files(script, tmp_path):
    logs = tmp_path / "logs"
    given = ["--log-dir", str(logs), "--no-python", sys.executable, "-c", "print('hello')"]
    assert command(["launch", "-n", "2", *given]) == 0
    assert (logs / "rank_1.log").read_text() == "hello\n"


def test_lines_can_go_to_files_and_to_the_terminal(tmp_path, capfd):
    """Torchrun's flags, and where it puts the files."""
    given = [
        "--log-dir",
        str(tmp_path),
        "--tee",
        "0:1,1:3",
        "--role",
        "trainer",
        "--rdzv-id",
        "job",
    ]
    given += ["--redirects", "2", "--rdzv-conf", "timeout=5", "--start-method", "spawn"]
    program = "import sys; print('out'); print('err', file=sys.stderr)"
    assert command(["launch", "-n", "2", *given, "--no-python", sys.executable, "-c", program]) == 0
    said = capfd.readouterr()
    assert sorted(said.out.split()) == ["[trainer0]:out", "[trainer1]:out"]
    assert said.err.split() == ["[trainer1]:err"]
    files = tmp_path / "job" / "attempt_0"
    assert (files / "0" / "stdout.log").read_text() == "out\n"
    assert (files / "0" / "stderr.log").read_text() == "err\n"
    assert (files / "1" / "stderr.log").read_text() == "err\n"


def test_one_ranks_lines_can_be_shown_alone(capfd):
    program = "import os; print('rank', os.environ['RANK'], os.environ['ROLE_NAME'])"
    given = ["--local-ranks-filter", "1", "--no-python", sys.executable, "-c", program]
    assert command(["launch", "-n", "2", *given]) == 0
    assert capfd.readouterr().out == "rank 1 default\n"


def test_as_many_ranks_as_there_are_devices(monkeypatch, capfd):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,3")
    program = "import os; os.write(1, b'x' + os.environ['WORLD_SIZE'].encode())"
    for wanted in ("gpu", "auto"):
        given = [f"--nproc-per-node={wanted}", "--no-python", sys.executable, "-c", program]
        assert command(["launch", *given]) == 0
        assert capfd.readouterr().out == "x2x2"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    with pytest.raises(SystemExit, match="this has none"):
        command(["launch", "-n", "gpu", "train.py"])


def test_each_rank_may_see_one_device_alone(monkeypatch, capfd):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3,5")
    names = ("LOCAL_RANK", "RANK", "CUDA_VISIBLE_DEVICES")
    program = f"import os; os.write(1, ' '.join(os.environ[n] for n in {names}).encode() + b';')"
    given = ["--virtual-local-rank", "--no-python", sys.executable, "-c", program]
    assert command(["launch", "-n", "2", *given]) == 0
    assert sorted(capfd.readouterr().out.split(";")) == ["", "0 0 3", "0 1 5"]
    with pytest.raises(SystemExit, match="names 2"):
        command(["launch", "-n", "3", *given])


def test_flags_may_be_variables(monkeypatch, capfd):
    monkeypatch.setenv("PET_NPROC_PER_NODE", "2")
    monkeypatch.setenv("PET_MAX_RESTARTS", "4")
    monkeypatch.setenv("PET_NO_PYTHON", "1")
    names = ("WORLD_SIZE", "TORCHELASTIC_MAX_RESTARTS")
    program = f"import os; os.write(1, ' '.join(os.environ[n] for n in {names}).encode() + b';')"
    taken = ["--local-addr", "127.0.0.1", "--event-log-handler", "null", "--run-path"]
    assert command(["launch", *taken, sys.executable, "-c", program]) == 0
    assert capfd.readouterr().out == "2 4;2 4;"
    assert command(["launch", "-n", "1", sys.executable, "-c", program]) == 0
    assert capfd.readouterr().out == "1 4;"


def alive(pid):
    """Whether a process runs; one that nobody has asked how it ended does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(shutil.which("setpriv") is None, reason="nobody tells a child of a death")
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_the_end_of_the_launcher_is_the_end_of_its_ranks(number, tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    program = (
        "import os, sys, time; r = os.environ['RANK']\n"
        "with open(os.path.join(sys.argv[1], 'new' + r), 'w') as f: f.write(str(os.getpid()))\n"
        "os.rename(f.name, os.path.join(sys.argv[1], 'pid' + r)); time.sleep(60)"
    )
    begin = "import sys; from pullback_command import main; sys.exit(main(sys.argv[1:]))"
    given = ["launch", "-n", "2", "--no-python", sys.executable, "-c", program, str(tmp_path)]
    launcher = subprocess.Popen([sys.executable, "-c", begin, *given], stderr=subprocess.PIPE)
    until = time.monotonic() + 30
    while not all((tmp_path / f"pid{r}").exists() for r in range(2)) and time.monotonic() < until:
        time.sleep(0.01)
    pids = [int((tmp_path / f"pid{r}").read_text()) for r in range(2)]
    assert all(map(alive, pids))
    launcher.send_signal(number)
    told = launcher.communicate(timeout=20)[1]
    assert launcher.returncode == (143 if number == signal.SIGTERM else -9)
    assert number == signal.SIGKILL or b"ended by SIGTERM; the ranks are ended" in told
    while any(map(alive, pids)) and time.monotonic() < until:
        time.sleep(0.01)
    assert not any(map(alive, pids))


def test_wrong_numbers_are_refused():
    with pytest.raises(SystemExit, match=r"--tee takes 0, 1 \(stdout\).*got '7'"):
        command(["launch", "--tee", "7", "train.py"])
    with pytest.raises(SystemExit, match="no signal 'SIGNONE'"):
        command(["launch", "--signals-to-handle", "SIGNONE", "train.py"])
    with pytest.raises(SystemExit, match="a number or auto, got 'many'"):
        command(["launch", "-n", "many", "train.py"])
    with pytest.raises(SystemExit, match="node 2 of 2 nodes"):
        command(["launch", "--nnodes", "2", "--node-rank", "2", "train.py"])
    with pytest.raises(SystemExit, match="need --master-port"):
        command(["launch", "--nnodes", "2", "train.py"])


def test_the_command_starts_ranks_without_loading_the_package():
    program = """
import sys
from pullback_command import main
status = main(["launch", "-n", "2", "--no-python", sys.executable, "-c", "pass"])
print(status, *sorted({"numpy", "pullback.core", "pullback.cli"} & set(sys.modules)))
"""
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert found.stdout.split() == ["0", "pullback.core"], found.stderr  # for `listing` alone


def test_the_command_hands_all_else_to_the_package(capsys):
    from pullback.installed import version
    from pullback_command import main

    with pytest.raises(SystemExit):
        main(["--version"])
    assert capsys.readouterr().out == f"pullback {version()}\n"


def test_no_thread_of_the_service_is_left_when_ranks_never_asked_for_it():
    before = threading.active_count()
    assert command(["launch", "-n", "2", "--no-python", sys.executable, "-c", "pass"]) == 0
    assert threading.active_count() == before


class Rank:
    """A client that speaks PMI-1 as MPICH does, and the connection by which it is watched."""

    def __init__(self, port, rank):
        self.watched = socket.create_connection(("127.0.0.1", port), 20)
        self.watched.sendall(f"watch {rank}\n".encode())
        self.told = self.watched.makefile("r")
        self.connection = socket.create_connection(("127.0.0.1", port), 20)
        self.lines = self.connection.makefile("r")

    def ask(self, text):
        self.connection.sendall(f"{text}\n".encode())
        return self.lines.readline().strip()

    def leave(self, *, well):
        if well:
            self.ask("cmd=finalize")
            self.watched.sendall(b"bye\n")
        for one in (self.lines, self.told, self.connection, self.watched):
            one.close()


def test_the_service_keeps_values_and_ends_with_its_ranks():
    service, port = pmi.start_service(1, on_each_node=1)
    rank = Rank(port, 0)
    assert "rc=0" in rank.ask("cmd=init pmi_version=1 pmi_subversion=1")
    job = rank.ask("cmd=get_my_kvsname").split("kvsname=")[1].split()[0]
    assert job.startswith("pullback_")
    assert rank.ask(f"cmd=put kvsname={job} key=a value=b").startswith("cmd=put_result rc=0")
    assert "value=b" in rank.ask(f"cmd=get kvsname={job} key=a")
    assert "rc=-1" in rank.ask(f"cmd=get kvsname={job} key=none")
    assert "value=(vector,(0,1,1))" in rank.ask(f"cmd=get kvsname={job} key=PMI_process_mapping")
    assert rank.ask("cmd=barrier_in") == "cmd=barrier_out rc=0"
    assert "rc=-1" in rank.ask("cmd=dance")
    rank.leave(well=True)
    assert service.wait(10) == 0


def test_the_service_tells_of_a_rank_that_died():
    service, port = pmi.start_service(2)
    stays, dies = Rank(port, 0), Rank(port, 1)
    started = time.monotonic()
    dies.leave(well=False)
    assert stays.told.readline() == "lost 1\n"
    assert stays.ask("cmd=barrier_in") == "cmd=barrier_out rc=-1"
    assert time.monotonic() - started < 5
    stays.leave(well=True)
    assert service.wait(10) == 0


def test_the_service_tells_who_has_left_and_who_waits():
    service, port = pmi.start_service(3)
    ranks = [Rank(port, k) for k in range(3)]
    ranks[1].watched.sendall(b"waits 4 the default group\n")
    ranks[1].watched.sendall(b"who 9 the default group\n")
    assert ranks[1].told.readline() == "here\n"
    ranks[0].watched.sendall(b"who 4 the default group\n")
    assert ranks[0].told.readline() == "here 1\n"
    ranks[2].watched.sendall(b"bye\n")
    assert ranks[0].told.readline() == "left 2\n"
    ranks[2].watched.sendall(b"back\n")
    assert ranks[0].told.readline() == "back 2\n"
    for rank in ranks:
        rank.leave(well=True)
    assert service.wait(10) == 0


def test_a_service_answers_those_alone_who_know_the_word():
    """An address alone may be that of another machine."""
    service, port = pmi.start_service(1, word="secret")
    with socket.create_connection(("127.0.0.1", port), 20) as stranger:
        stranger.sendall(b"hello guess\n")
        assert stranger.recv(10) == b""
    with socket.create_connection(("127.0.0.1", port), 20) as known:
        known.sendall(b"hello secret\n")
        assert known.recv(10) == b"hello\n"
    service.kill()
    service.wait()


def test_who_comes_after_a_rank_has_died_is_told_too():
    here = Service(3)
    here._lost = 2
    ours, theirs = socket.socketpair()
    with ours, theirs, theirs.makefile("r") as lines:
        theirs.settimeout(20)
        watching = threading.Thread(target=here._hear, args=(ours,))
        watching.start()
        theirs.sendall(b"watch 0\n")
        assert lines.readline() == "lost 2\n"
        theirs.sendall(b"bye\n")
        theirs.shutdown(socket.SHUT_WR)  # a rank that has said bye may come back until then
        watching.join(20)
        assert not watching.is_alive()


def test_a_port_that_is_taken_is_an_error():
    from pullback.distributed import DistNetworkError

    service, port = pmi.start_service(1)
    with pytest.raises(DistNetworkError, match=f"could not listen at 127.0.0.1:{port}"):
        pmi.start_service(1, port=port)
    service.kill()
    service.wait()
    assert isinstance(service, subprocess.Popen)
