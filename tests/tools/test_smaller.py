"""An archive that is packed again has the same files, and is no larger."""

import zipfile
import zlib

import pytest

from tools import smaller


def deflated(data):
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packer.compress(data) + packer.flush()


@pytest.fixture
def archive(tmp_path):
    path = tmp_path / "made-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as made:
        entry = zipfile.ZipInfo("made/run.py", (2026, 11, 19, 20, 30, 12))
        entry.external_attr = 0o100755 << 16
        made.writestr(entry, "print('again')\n" * 500, zipfile.ZIP_DEFLATED)
        made.writestr("made/ö.txt", "short")
        made.writestr("made/empty.py", b"")
        made.writestr("made/noise.bin", bytes(i * i * 7919 % 251 for i in range(300)))
    return path


def told(path):
    with zipfile.ZipFile(path) as opened:
        assert opened.testzip() is None
        return [
            (e.filename, e.date_time, e.external_attr, e.create_system, e.CRC, opened.read(e))
            for e in opened.infolist()
        ]


@pytest.mark.parametrize("deflate", [deflated, lambda data: data + b"larger"])
def test_an_archive_packed_again_has_the_same_files(archive, deflate):
    before, size = told(archive), archive.stat().st_size
    smaller.pack_again(archive, deflate)
    assert told(archive) == before
    if deflate is deflated:
        assert archive.stat().st_size < size


def test_what_zopfli_makes_is_read_by_any_reader(archive):
    pytest.importorskip("zopfli")
    before = told(archive)
    smaller.pack_again(archive)
    assert told(archive) == before
