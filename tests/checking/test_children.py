"""Processes that a program starts find pullback in torch's place as well; no others do."""

import os
import subprocess
import sys
import textwrap

import pytest

import pullback
from pullback.checking.standing_in import standing_in

ROOT = os.path.dirname(os.path.dirname(pullback.__file__))

SPAWNING = """
    import subprocess, sys
    import torch, torch.multiprocessing as mp

    class Squares(torch.utils.data.Dataset):
        def __len__(self):
            return 4
        def __getitem__(self, i):
            return torch.tensor(i * i)

    def child(rank, x):
        print("child", rank, x.sum().item(), torch.__name__, flush=True)

    if __name__ == "__main__":
        print(*sys.argv[1:])
        mp.spawn(child, args=(torch.ones(3),), nprocs=1)
        with mp.get_context("spawn").Pool(1) as pool:
            pool.apply(child, (7, torch.ones(2)))
        for how in ("spawn", "forkserver"):
            loader = torch.utils.data.DataLoader(
                Squares(), 4, num_workers=1, multiprocessing_context=how
            )
            print(*next(iter(loader)).tolist())
        sys.stdout.flush()
        ask = "import torch.nn as nn; print(nn.Linear)"
        subprocess.run([sys.executable, "-c", ask], check=True)
"""
SPAWNED = """a -m b
child 0 3.0 torch
child 7 2.0 torch
0 1 4 9
0 1 4 9
<class 'torch.nn.modules.linear.Linear'>
"""


def ran(*arguments, status=0, **options):
    path = os.pathsep.join([ROOT, *filter(None, [options.pop("path", "")])])
    done = subprocess.run(
        [sys.executable, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": path},
        **options,
    )
    assert done.returncode == status, done.stderr
    return done.stdout if status == 0 else done.stderr


def written(folder, program, name="program.py"):
    file = folder / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(textwrap.dedent(program))
    return str(file)


def test_processes_of_a_script_find_pullback(tmp_path):
    script = written(tmp_path, SPAWNING)
    assert ran("-m", "pullback", "run", script, "a", "-m", "b") == SPAWNED


def test_a_module_runs_as_with_python(tmp_path):
    """`pullback run -m`, and what it starts."""
    written(tmp_path, "", "package/__init__.py")
    written(tmp_path, SPAWNING, "package/tool.py")
    written(tmp_path, "import torch; print(torch.__name__); 1 / 0", "package/__main__.py")
    run = ("-m", "pullback", "run", "-m")
    assert ran(*run, "package.tool", "a", "-m", "b", cwd=tmp_path) == SPAWNED
    said = ran(*run, "package", cwd=tmp_path, status=1)
    assert "ZeroDivisionError" in said
    assert "runpy" not in said
    for missing in ("no_such_package.tool", "package.no_such_tool", "os.path.nothing"):
        assert "there is no module" in ran(*run, missing, cwd=tmp_path, status=2)


def test_a_module_of_torch_runs_by_torchs_name():
    assert "pullback version" in ran("-m", "pullback", "run", "-m", "torch.utils.collect_env")


def test_launched_modules_stand_in_too(tmp_path):
    written(tmp_path, "", "package/__init__.py")
    written(
        tmp_path,
        # One write: that of another rank could come between two.
        "import os, sys, torch\n"
        "sys.stdout.write(f\"{torch.__name__} {os.environ['RANK']} {sys.argv[1]}\\n\")",
        "package/tool.py",
    )
    launch = ("-m", "pullback", "launch", "-n", "2", "-m", "package.tool", "--lr")
    assert sorted(ran(*launch, cwd=tmp_path).splitlines()) == ["torch 0 --lr", "torch 1 --lr"]


def child(program, **options):
    """What a Python that such a program has started prints."""
    with standing_in():
        path = os.environ["PYTHONPATH"]
    return ran("-c", textwrap.dedent(program), path=path, **options)


def test_a_child_that_does_not_want_torch_loads_nothing():
    said = child(
        """
        import sys
        print([name for name in ("pullback", "numpy", "torch") if name in sys.modules])
        print([entry for entry in sys.path if "checking" in entry])
        """
    )
    assert said == "[]\n[]\n"


def test_a_child_finds_the_very_pullback_of_its_parent(tmp_path):
    written(tmp_path, "raise ImportError('another one')", "pullback.py")
    path = os.path.join(ROOT, "pullback", "checking", "children")
    done = subprocess.run(
        [sys.executable, "-c", "import torch; print(torch.__file__)"],
        env={**os.environ, "PYTHONPATH": path},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.strip() == pullback.__file__


@pytest.mark.parametrize(
    "question",
    [
        "import torch",
        "import torch.nn.functional as torch",
        "import functorch as torch",
        "import importlib.util; assert importlib.util.find_spec('torch'); import torch",
        "import importlib.metadata as m; assert 'pullback' in m.version('torch'); import torch",
        "import pullback; torch = pullback.stand_in()",
    ],
)
def test_a_child_stands_in_once_however_it_asks(question):
    said = child(
        f"""
        {question}
        import os, sys, torch, pullback
        assert torch is pullback is sys.modules["torch"] and torch.__name__ == "torch"
        assert torch.__spec__.name == "pullback"
        assert torch.ones(2).sum() == 2 and torch.nn.Linear.__module__.startswith("torch.nn")
        kinds = [type(one).__name__ for one in sys.meta_path]
        print(kinds.count("_TorchFinder"), os.environ["PYTHONPATH"].count("children"))
        """
    )
    assert said == "1 1\n"


def test_a_sitecustomize_that_was_there_is_imported_too(tmp_path):
    written(tmp_path, "import sys; sys.seen = 1; print(__name__)", "sitecustomize.py")
    with standing_in():
        path = os.pathsep.join([os.environ["PYTHONPATH"], str(tmp_path)])
    ask = "import sys, sitecustomize, torch; print(sys.seen, sitecustomize.sys is sys, torch.e > 2)"
    assert ran("-c", ask, path=path) == "sitecustomize\n1 True True\n"


def test_a_fault_of_that_sitecustomize_is_told_as_python_tells_it(tmp_path):
    written(tmp_path, "import no_such_module", "sitecustomize.py")
    with standing_in():
        path = os.pathsep.join([os.environ["PYTHONPATH"], str(tmp_path)])
    done = subprocess.run(
        [sys.executable, "-c", "import torch; print(torch.__name__)"],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "no_such_module" in done.stderr
    assert done.stdout == "torch\n"


@pytest.mark.parametrize("before", [None, "/one", os.pathsep.join(["/one", "/two"])])
def test_children_that_start_after_a_block_are_told_nothing(monkeypatch, before):
    if before is None:
        monkeypatch.delenv("PYTHONPATH", raising=False)
    else:
        monkeypatch.setenv("PYTHONPATH", before)
    with standing_in():
        with standing_in():
            inside = os.environ["PYTHONPATH"].split(os.pathsep)
            assert os.path.exists(os.path.join(inside[0], "sitecustomize.py"))
            assert inside[1:] == (before or "").split(os.pathsep)[: len(inside) - 1]
        assert os.environ["PYTHONPATH"].split(os.pathsep) == inside
    assert os.environ.get("PYTHONPATH") == before


def test_what_a_block_did_to_the_path_of_children_stays(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "/one")
    with standing_in():
        os.environ["PYTHONPATH"] += os.pathsep + "/more"
    assert os.environ["PYTHONPATH"] == os.pathsep.join(["/one", "/more"])
