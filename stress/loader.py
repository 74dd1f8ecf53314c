"""Files that were changed by chance, and programs of pickle's instructions: read, or refused.

Nothing of them may run, no class may change, and memory stays near the size of the file.
"""

from __future__ import annotations

import io
import pickle
import random
import struct
import time
import tracemalloc
import warnings
import zipfile
from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

import pullback as torch
from pullback import serialization
from stress.report import Report

REFUSED = (pickle.UnpicklingError, EOFError)
TENSOR = b"ctorch._utils\n_rebuild_tensor_v2\n"
FLOATS = (
    b"(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x000X\x03\x00\x00\x00cpuK\x04tQ"
)
DATA = struct.pack("<4f", 0, 1, 2, 3)
MOST_MEMORY = 4_000_000  # bytes beyond 100 times the file: what loading itself may need


def archive(
    structure: bytes, data: bytes = DATA, compressed: bool = False, **records: bytes
) -> io.BytesIO:
    """A file in the form of today with this structure, and one storage."""
    file = io.BytesIO()
    kind = zipfile.ZIP_DEFLATED if compressed else zipfile.ZIP_STORED
    with zipfile.ZipFile(file, "w", kind) as made:
        made.writestr("archive/data.pkl", structure)
        made.writestr("archive/data/0", data)
        for name, content in records.items():
            made.writestr(f"archive/{name}", content)
    file.seek(0)
    return file


def tensor(
    offset: bytes = b"K\x00",
    size: bytes = b"K\x04\x85",
    stride: bytes = b"K\x01\x85",
    rest: bytes = b"\x89)tR",
) -> bytes:
    """The instructions that make a tensor of the storage."""
    return TENSOR + b"(" + FLOATS + offset + size + stride + rest


def int_(value: int) -> bytes:
    """The instruction for a number."""
    return b"J" + struct.pack("<i", value)


def samples() -> Iterator[bytes]:
    """Honest files, in both forms and by two protocols."""
    x = torch.arange(12.0).reshape(3, 4)
    x.note = {"k": [1, None]}
    objects = [
        {"w": torch.nn.Parameter(torch.ones(2)), "n": (1, 2.5, "text", b"bytes", {3}, 1j)},
        OrderedDict(a=x, b=x.T, c=torch.ones(2, dtype=torch.uint16), d=torch.float64),
        torch.nn.Linear(2, 3).state_dict(),
        [torch.Size([1, 2]), torch.device("cpu"), torch.strided, torch.ones(1, device="meta")],
    ]
    for obj in objects:
        for new in (True, False):
            for protocol in (2, 4):
                file = io.BytesIO()
                torch.save(obj, file, pickle_protocol=protocol, _use_new_zipfile_serialization=new)
                yield file.getvalue()


def touched(draw: random.Random, content: bytes) -> bytes:
    """The content with a few bytes changed, cut out, doubled or moved."""
    made = bytearray(content)
    for _ in range(draw.choice([1, 1, 2, 8])):
        place = draw.randrange(len(made))
        length = draw.choice([1, 1, 4, 20])
        kind = draw.randrange(5)
        if kind <= 1:
            made[place] = draw.randrange(256)
        elif kind == 2:
            del made[place : place + length]
        elif kind == 3:
            made[place:place] = made[place : place + length]
        else:
            other = draw.randrange(len(made))
            made[place : place + length] = made[other : other + length]
        if not made:
            return b""
    return bytes(made)


def repacked(draw: random.Random, content: bytes) -> bytes:
    """An archive whose structure was touched, with right checksums."""
    with zipfile.ZipFile(io.BytesIO(content)) as old:
        records = {name: old.read(name) for name in old.namelist()}
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as made:
        for name, data in records.items():
            made.writestr(name, touched(draw, data) if name == "archive/data.pkl" else data)
    return file.getvalue()


PIECES = [
    *(bytes([code]) for code in b"()}]]tldeu.0012\x85\x86\x87RRRbbb\x81\x90\x91\x8f\x93\x94NQ\x88"),
    *(b"K\x01", b"K\x00", b"h\x00", b"h\x01", b"q\x00", b"q\x01", b"X\x01\x00\x00\x00a"),
    *(b"M\xff\xff", b"X\x08\x00\x00\x00backward"),
    *(b"X\x07\x00\x00\x00storage", b"X\x03\x00\x00\x00cpu", FLOATS),
    *(b"ctorch\nTensor\n", b"ctorch\nfloat32\n", TENSOR, b"cbuiltins\nset\n", tensor()),
    *(b"ccollections\nOrderedDict\n", b"ctorch\nSize\n", b"ctorch\ndevice\n", int_(10**9)),
    *(b"ctorch._tensor\n_rebuild_from_type_v2\n", b"cbuiltins\nrange\n", b"cbuiltins\nbytearray\n"),
    *(b"ccollections\nCounter\n", b"ctorch._utils\n_rebuild_parameter\n", b"cos\nsystem\n"),
    *(b"ctorch.serialization\n_get_layout\n", b"c_codecs\nencode\n", b"X\x06\x00\x00\x00latin1"),
]  # fmt: skip


def instructions(draw: random.Random) -> bytes:
    """A file whose structure is a program of random instructions."""
    program = b"".join(draw.choices(PIECES, k=draw.randrange(1, 25))) + b"."
    return archive(program).getvalue()


def state_of_the_world() -> tuple[Any, ...]:
    """What a file could change: the classes that it names, and the list of what it may name."""
    classes = [type(torch.float32), torch.Tensor, torch.Size, torch.device, OrderedDict]
    return tuple(dict(vars(one)) for one in classes), serialization.get_safe_globals()


def outcome(content: bytes) -> str:
    """How a load ended; what is neither read nor refused is raised."""
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "load.*checksum")
            torch.load(io.BytesIO(content))
    except REFUSED:
        return "refused"
    except RuntimeError as error:
        if "holds none" not in str(error):  # "cpu" became another word
            raise
        return "place"
    return "read"


def run(seconds: float, seed: int, calls: int | None = None) -> Report:
    """Mutated bytes, mutated structures and instructions in turn, until the time is over."""
    report = Report("loader", seed)
    draw = random.Random(seed)
    files = list(samples())
    archives = [content for content in files if content[:2] == b"PK"]
    before = state_of_the_world()
    end = time.monotonic() + seconds
    number = 0
    tracemalloc.start()
    try:
        while time.monotonic() < end and (calls is None or number < calls):
            makers = (
                lambda: touched(draw, draw.choice(files)),
                lambda: repacked(draw, draw.choice(archives)),
                lambda: instructions(draw),
            )
            content = makers[number % 3]()
            number += 1
            tracemalloc.reset_peak()
            held = tracemalloc.get_traced_memory()[0]
            try:
                report.counts[outcome(content)] += 1
            except Exception as error:
                report.found(f"{type(error).__name__}: {error}", f"file {number}: {content!r}")
            taken = tracemalloc.get_traced_memory()[1] - held
            if taken > 100 * len(content) + MOST_MEMORY:
                report.found(f"took {taken >> 20} MB", f"file {number}: {content!r}")
            if state_of_the_world() != before:
                report.found("a class was changed", f"file {number}: {content!r}")
                break
    finally:
        tracemalloc.stop()
    report.counts["files"] = number
    return report
