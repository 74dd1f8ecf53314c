"""In torch's place: modules are the same objects, names are torch's, real torch is respected."""

import subprocess
import sys
import textwrap

import pytest

import pullback
from pullback.checking.standing_in import standing_in


def run(program):
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_import_torch_gives_pullback_under_torchs_names():
    names = run(
        """
        import pullback
        assert pullback.stand_in() is pullback and pullback.stand_in() is pullback
        import torch, torch.nn.functional as F, sys
        assert torch is pullback and F is pullback.nn.functional
        assert sys.modules["torch.nn"] is sys.modules["pullback.nn"]
        from torch.nn.modules.linear import Linear
        assert Linear is torch.nn.Linear
        x = torch.ones(2, requires_grad=True)
        print(torch.__name__, torch.Tensor.__module__, torch.device.__module__)
        print(torch.nn.Module.__module__, Linear.__module__, type(x).__module__)
        print(torch.nn.Parameter.__module__, torch.fft.__name__.partition(".")[2])
        import importlib.metadata
        print(importlib.metadata.version("torch"), importlib.util.find_spec("torch") is not None)
        """
    )
    assert names == [
        *("torch", "torch", "torch", "torch.nn.modules.module", "torch.nn.modules.linear"),
        *("torch", "torch.nn.parameter", "fft", "2.13.0+pullback", "True"),
    ]


def test_modules_loaded_before_are_found_too():
    run(
        """
        import pullback, pullback.linalg, pullback.nn as nn
        pullback.stand_in()
        import torch.linalg
        assert torch.linalg is pullback.linalg and torch.nn is nn
        assert nn.Linear.__module__ == "torch.nn.modules.linear"
        try:
            import torch.no_such_module
        except ModuleNotFoundError as error:
            assert "torch.no_such_module" in str(error)
        """
    )


def test_pickles_name_torch_and_load():
    run(
        """
        import pickle, pullback
        torch = pullback.stand_in()
        net = torch.nn.Linear(2, 2)
        data = pickle.dumps(net)
        assert b"torch.nn.modules.linear" in data and b"pullback.nn" not in data
        assert pickle.loads(data).weight.tolist() == net.weight.tolist()
        """
    )


def test_real_torch_is_not_pushed_aside():
    run(
        """
        import sys, types, pullback
        sys.modules["torch"] = types.ModuleType("torch")
        try:
            pullback.stand_in()
        except RuntimeError as error:
            assert "loaded already" in str(error)
        else:
            raise AssertionError
        """
    )


def test_a_block_leaves_all_names_as_they_were():
    class_before = pullback.nn.Linear.__module__
    theirs = sys.modules.get("torch")
    with standing_in():
        import torch

        assert torch is pullback
        assert torch.__name__ == "torch"
        assert pullback.nn.Linear.__module__ == "torch.nn.modules.linear"
        assert torch.Tensor.__module__ == "torch"
    assert pullback.__name__ == "pullback"
    assert pullback.nn.Linear.__module__ == class_before
    assert sys.modules.get("torch") is theirs
    with pytest.raises(ImportError):
        from torch.no_such_module import nothing  # noqa: F401 (the import is the test)


def test_errors_about_missing_names_call_every_module_as_the_program_does():
    """Also of modules that leave them to Python, which knows a module's own name alone."""
    run(
        """
        import pullback.linalg, pullback.autograd.functional
        from pullback.checking.standing_in import standing_in

        def told(module):
            try:
                module.zork
            except AttributeError as error:
                return str(error)

        with standing_in():
            import torch, torch.nn.init, torch.optim.lr_scheduler, torch.futures
            for module, name in (
                (torch.linalg, "linalg"), (torch.fft, "fft"), (torch.nn, "nn"),
                (torch.nn.init, "nn.init"), (torch.optim.lr_scheduler, "optim.lr_scheduler"),
                (torch.futures, "futures"), (torch.version, "version"),
            ):
                assert told(module) == f"module 'torch.{name}' has no attribute 'zork'", name
            from torch.nn import utils  # a submodule that is not loaded is found still
        assert told(pullback.linalg) == "module 'pullback.linalg' has no attribute 'zork'"
        assert "__getattr__" not in vars(pullback.linalg)
        """
    )


def test_the_package_knows_its_own_by_another_name():
    run(
        """
        import pullback
        torch = pullback.stand_in()
        from torch.distributions import Independent, Normal
        d = Independent(Normal(torch.zeros(3), torch.ones(3)), 1).expand((2,))
        assert d.batch_shape == (2,)

        class Mine(Normal):
            def __init__(self):
                super().__init__(0.0, 1.0)

        try:
            Mine().expand((2,))
        except NotImplementedError:
            pass
        else:
            raise AssertionError

        import torch.nn.functional as F
        class Asked:
            @classmethod
            def __torch_function__(cls, function, types, args=(), kwargs=None):
                return function

        for function in (F.gelu, torch.linalg.norm):
            assert function(Asked()) is function
        """
    )


def test_gradients_of_nested_tensors_are_found_there_too():
    """B-76: functions say that they are torch's, and are known all the same."""
    said = run(
        """
        import pullback
        pullback.stand_in()
        import torch
        x = torch.nested.nested_tensor([torch.ones(2, 3), torch.ones(4, 3)], layout=torch.jagged)
        x.requires_grad_()
        (g,) = torch.autograd.grad((x * x).values().sum(), x)
        print(g.is_nested)
        """
    )
    assert said == ["True"]


def test_compiled_functions_are_captured_there_too():
    """Arrays of a captured program are known, whatever their class says."""
    run(
        """
        import pullback
        pullback.stand_in()
        import torch
        net = torch.nn.Sequential(torch.nn.Linear(2, 2), torch.nn.ReLU(), torch.nn.LayerNorm(2))
        for function in (lambda x: torch.unsqueeze(x, 0) * 2, net):
            x = torch.ones(2, requires_grad=True)
            made = torch.compile(function, fullgraph=True)(x)
            assert torch.allclose(made, function(x))
            made.sum().backward()
            assert x.grad is not None
        """
    )


def test_saved_parameters_are_leaves_there_too(tmp_path):
    """Files name what torch makes parameters with."""
    run(
        f"""
        import pullback, pickletools, zipfile
        pullback.stand_in()
        import torch
        file = {str(tmp_path / "p.pt")!r}
        torch.save([torch.nn.Parameter(torch.ones(2)), torch.nn.Linear(2, 2)], file)
        with zipfile.ZipFile(file) as parts:
            data = parts.read(next(n for n in parts.namelist() if n.endswith("data.pkl")))
        names = {{arg for op, arg, _ in pickletools.genops(data) if op.name == "GLOBAL"}}
        assert "torch._utils _rebuild_parameter" in names, names
        assert "torch.nn.modules.linear Linear" in names, names
        assert not any("pullback" in name or "torch._tensor" in name for name in names), names
        loaded, net = torch.load(file, weights_only=False)
        assert loaded.is_leaf and net.weight.is_leaf
        """
    )


def test_names_in_files_are_the_same_there(tmp_path):
    """What users allow in files is allowed by the name that files have for it."""
    for begin in ("import pullback as torch", "import pullback; torch = pullback.stand_in()"):
        run(
            f"""
            {begin}
            file = {str(tmp_path / "net.pt")!r}
            torch.save(torch.nn.Linear(2, 2), file)
            with torch.serialization.safe_globals([torch.nn.Linear]):
                assert torch.load(file, weights_only=True).in_features == 2
            """
        )
