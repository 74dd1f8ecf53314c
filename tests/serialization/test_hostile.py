"""Files that mean harm: nothing runs, nothing changes, memory stays near the size of the file."""

import io
import itertools
import struct
import subprocess
import sys
import textwrap
import tracemalloc
import zipfile

import pytest

import pullback as torch
from stress import loader
from stress.loader import FLOATS, REFUSED, TENSOR, archive, int_, tensor


def refused(structure, match=None, **options):
    with pytest.raises(REFUSED, match=match):
        torch.load(archive(structure, **options))


def test_the_honest_form_of_these_files_is_read():
    assert torch.load(archive(b"\x80\x02" + tensor() + b".")).tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "target",
    [
        b"ctorch\nTensor\n",
        b"ctorch\nfloat32\n",
        b"ctorch\nFloatStorage\n",
        b"ctorch._utils\n_rebuild_tensor_v2\n",
        b"ccollections\nOrderedDict\n",
        b"cbuiltins\nset\n",
        b"ctorch.nn.parameter\nParameter\n",
        b"ctorch\ndevice\n(X\x03\x00\x00\x00cputR",
        b"]",
        b"}",
        FLOATS,
    ],
    ids=itertools.count(),
)
def test_attributes_are_set_only_on_objects_that_the_load_has_made(target):
    before = dict(vars(torch.Tensor))
    refused(target + b"}(X\x08\x00\x00\x00backwardK\x01ub.", match="attributes")
    assert dict(vars(torch.Tensor)) == before


@pytest.mark.parametrize(
    "name",
    ["backward", "grad", "_array", "_cell", "shape", "__class__", "_scope", "_depth", "_node"],
)
def test_attributes_that_the_class_has_are_not_the_files_to_set(name):
    key = b"X" + struct.pack("<I", len(name)) + name.encode()
    state = b"}(" + key + b"K\x01u"
    refused(tensor() + state + b"b.", match="not its to set")
    with_state = (
        b"ctorch._tensor\n_rebuild_from_type_v2\n("
        + TENSOR + b"ctorch\nTensor\n(" + FLOATS + b"K\x00K\x04\x85K\x01\x85\x89)t" + state + b"tR."
    )  # fmt: skip
    refused(with_state, match="not its to set")
    refused(
        b"ccollections\nOrderedDict\n)R}(X\x05\x00\x00\x00itemsK\x01ub.", match="not its to set"
    )


def test_a_class_that_the_user_allows_keeps_its_methods():
    class Mine:
        scale = 1

        def run(self):
            return "mine"

    name = b"cmine\nMine\n)\x81}(X\x03\x00\x00\x00runK\x01ub."
    with torch.serialization.safe_globals([(Mine, "mine.Mine")]):
        refused(name, match="not its to set")
        refused(b"cmine\nMine\n}(X\x03\x00\x00\x00runK\x01ub.", match="attributes")
        made = torch.load(archive(name.replace(b"X\x03\x00\x00\x00run", b"X\x05\x00\x00\x00scale")))
    assert (made.run(), made.scale, Mine.scale) == ("mine", 1, 1)


@pytest.mark.parametrize(
    "structure",
    [
        tensor(offset=int_(-1)),
        tensor(offset=int_(-4)),
        tensor(offset=b"K\x01"),
        tensor(size=int_(5) + b"\x85"),
        tensor(size=int_(10**9) + b"\x85"),
        tensor(size=int_(-4) + b"\x85"),
        tensor(stride=int_(2) + b"\x85"),
        tensor(offset=b"K\x03", stride=int_(-1) + b"\x85"),
        tensor(size=b"K\x04K\x01\x86"),
        tensor(size=b"K\x04\x85\x85"),
        tensor(offset=b"N"),
        tensor().replace(b"cpuK\x04", b"cpuK\x08"),
        tensor().replace(b"cpuK\x04", b"cpuK\x02"),
        tensor().replace(b"cpuK\x04", b"cpu" + int_(10**9)),
        tensor().replace(b"cpuK\x04", b"cpu" + int_(-4)),
        tensor().replace(b"FloatStorage", b"DoubleStorage"),
        tensor().replace(b"storage", b"garbage"),
        TENSOR + b"(K\x05K\x00K\x04\x85K\x01\x85\x89)tR",
    ],
    ids=itertools.count(),
)
def test_a_tensor_stays_within_its_storage(structure):
    refused(structure + b".")


@pytest.mark.parametrize(
    "structure",
    [
        b"cos\nsystem\nX\x04\x00\x00\x00true\x85R",
        b"X\x02\x00\x00\x00osX\x06\x00\x00\x00system\x93X\x04\x00\x00\x00true\x85R",
        b"(X\x04\x00\x00\x00trueios\nsystem\n",
        b"(cos\nsystem\nX\x04\x00\x00\x00trueo",
        b"cbuiltins\neval\nX\x01\x00\x00\x001\x85R",
        b"cbuiltins\ngetattr\n(ctorch\nTensor\nX\x03\x00\x00\x00addtR",
        b"cpullback.serialization.names\nCALLS\n",
        b"ctorch\nTensor\n)R",
        b"ctorch\nTensor\n)\x81",
        b"ctorch\nfloat32\n)R",
        b"cbuiltins\nset\n)Rcbuiltins\nset\n)R\x85R",
        b"\x82\x01",
        b"P1\n",
        b"ccodecs\nencode\n(X\x01\x00\x00\x00aX\x04\x00\x00\x00zlibtR",
        b"c_codecs\nencode\n(X\x01\x00\x00\x00aX\x04\x00\x00\x00zlibtR",
        b"c_codecs\nencode\n(X\x01\x00\x00\x00aX\x05\x00\x00\x00rot13tR",
    ],
    ids=itertools.count(),
)
def test_only_listed_calls_are_made(structure):
    refused(structure + b".")


def measured(file):
    """Peak of memory that a load takes, in bytes, and how it ended."""
    tracemalloc.start()
    try:
        try:
            torch.load(file)
            ended = None
        except REFUSED as error:
            ended = str(error)
        return tracemalloc.get_traced_memory()[1], ended
    finally:
        tracemalloc.stop()


MB = 1 << 20
BOMBS = {
    "set of a range": b"cbuiltins\nset\ncbuiltins\nrange\n" + int_(10**9) + b"\x85R\x85R.",
    "bytearray of a number": b"cbuiltins\nbytearray\n" + int_(10**9) + b"\x85R.",
    "long text": b"X" + struct.pack("<I", 2**31) + b"x.",
    "very long bytes": b"\x8e" + struct.pack("<Q", 2**40) + b"x.",
    "long number": b"\x8b" + struct.pack("<i", 2**30) + b"x.",
    "far memo": b"Nr" + struct.pack("<I", 2**32 - 1) + b".",
    "frame": b"\x80\x04\x95" + struct.pack("<Q", 2**60) + b"N.",
    "copies of a list": b"]("
    + b"K\x01" * 20000
    + b"eq\x00"
    + b"0cbuiltins\nset\nh\x00\x85R" * 20000,
    "copies of a text": b"X"
    + struct.pack("<I", 20000)
    + b"x" * 20000
    + b"q\x00"
    + b"c_codecs\nencode\nh\x00X\x06\x00\x00\x00latin1\x86R" * 20000,
    "doubling key": b"K\x01" + b"2\x86" * 60 + b"q\x000}h\x00K\x01s.",
    "doubling element": b"K\x01" + b"2\x86" * 60 + b"q\x000\x8f(h\x00\x90.",
    "doubling call": b"K\x01" + b"2\x86" * 60 + b")R.",
    "deep key": b"K\x01" + b"\x85" * 10**5 + b"q\x000}h\x00K\x01s.",
    "sets": b"\x8f" * 3 * 10**5 + b".",
}


@pytest.mark.parametrize("name", BOMBS)
def test_memory_stays_near_the_size_of_the_file(name):
    file = archive(BOMBS[name])
    size = len(file.getvalue())
    peak, ended = measured(file)
    assert ended or name == "far memo"
    assert peak < 120 * size + 3 * MB


def test_compressed_zeros_do_not_unfold():
    zeros = bytes(200 * MB)
    file = archive(tensor().replace(b"K\x04tQ", int_(len(zeros) // 4) + b"tQ") + b".", zeros, True)
    del zeros
    assert len(file.getvalue()) < MB
    peak, ended = measured(file)
    assert "memory" in ended
    assert peak < 10 * MB


def test_honestly_compressed_files_are_read():
    assert torch.load(archive(tensor() + b".", compressed=True)).tolist() == [0, 1, 2, 3]


def test_records_on_top_of_each_other_are_counted_each():
    file = io.BytesIO()
    count = 2000
    with zipfile.ZipFile(file, "w") as made:
        references = b"".join(
            FLOATS.replace(b"\x01\x00\x00\x000", struct.pack("<I", len(k := str(n).encode())) + k)
            .replace(b"K\x04tQ", int_(MB // 4) + b"tQ")
            for n in range(count)
        )  # fmt: skip
        made.writestr("archive/data.pkl", b"(" + references + b"l.")
        made.writestr("archive/data/0", bytes(MB))
        for n in range(1, count):
            again = zipfile.ZipInfo(f"archive/data/{n}")
            info = made.getinfo("archive/data/0")
            for name in ("header_offset", "file_size", "compress_size", "CRC"):
                setattr(again, name, getattr(info, name))
            made.filelist.append(again)
    file.seek(0)
    peak, ended = measured(file)
    assert "memory" in ended
    assert peak < 20 * len(file.getvalue())


# Fuzz, in its short form: `make stress STRESS=loader` has the long one ---------------------------


def test_mutated_files_and_random_instructions_are_read_or_refused_and_change_nothing():
    report = loader.run(60, seed=15, calls=1800)
    assert not report.findings, str(report)
    assert report.counts["files"] == 1800
    assert report.counts["refused"] > 400
    assert report.counts["read"] > 60


def test_a_class_that_a_file_changed_is_found():
    before = loader.state_of_the_world()
    torch.Size.changed = True
    try:
        assert loader.state_of_the_world() != before
    finally:
        del torch.Size.changed


def test_peak_memory_of_the_process_over_bombs(tmp_path):
    """What tracemalloc cannot see, the system does."""
    resource = pytest.importorskip("resource")
    del resource
    for number, name in enumerate(("set of a range", "bytearray of a number", "sets", "far memo")):
        (tmp_path / f"{number}.pt").write_bytes(archive(BOMBS[name]).getvalue())
    program = """
        import glob, pickle, resource, sys
        import pullback as torch
        torch.serialization
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        for path in glob.glob(sys.argv[1] + "/*.pt"):
            try:
                torch.load(path)
            except pickle.UnpicklingError:
                pass
        print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
    """
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), str(tmp_path)],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert int(run.stdout) < 150
