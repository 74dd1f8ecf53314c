"""Object code put into memory, without LLVM: its library takes 45 MB and 40 ms to load.

Code for x86-64 on Linux, as LLVM writes it for addresses of any size: each reference is a word that
gets an address. Whatever else is met, `NotLoadable` is raised, and LLVM's own loader does it.
"""

from __future__ import annotations

import ctypes
import mmap
import struct
import sys
from functools import cache
from typing import Any, NamedTuple

__all__ = ["Image", "NotLoadable"]

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SYMBOL = struct.Struct("<IBBHQQ")
_RELOCATION = struct.Struct("<QQq")
_WORD = struct.Struct("<Q")
_IDENTITY = b"\x7fELF\x02\x01\x01"  # 64 bits, the lowest first
_RELOCATABLE, _X86_64 = 1, 62
_PROGRAM, _SYMBOLS, _WITH_ADDENDS, _ZEROS, _WITHOUT_ADDENDS = 1, 2, 4, 8, 9  # kinds of sections
_WRITABLE, _IN_MEMORY, _THREADS_OWN = 1, 2, 0x400
_WHOLE_ADDRESS = 1  # R_X86_64_64
_ABSOLUTE, _SPECIAL = 0xFFF1, 0xFF00
_READ_AND_RUN = 5
_MOST = 1 << 28  # bytes


class NotLoadable(Exception):  # noqa: N818 (no error: LLVM loads it)
    """The object code has something that is not known here."""


class _Section(NamedTuple):
    name: int
    kind: int
    flags: int
    address: int
    offset: int
    size: int
    link: int
    info: int
    align: int
    entry: int


class Image:
    """Functions and variables of object code, in memory that lives as long as this does."""

    def __init__(self, code: bytes) -> None:
        if sys.platform != "linux":
            raise NotLoadable("another system")
        self._code = code
        self._sections = self._read_sections()
        places, size, fixed = self._laid_out()
        try:
            self._memory = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
        except (OSError, ValueError, OverflowError) as error:
            raise NotLoadable("no memory") from error
        self._start = ctypes.addressof(ctypes.c_char.from_buffer(self._memory))
        self._places = places
        for number, place in places.items():
            section = self._sections[number]
            if section.kind != _ZEROS:
                self._memory[place : place + section.size] = self._bytes(section)
        self._symbols, self._names = self._read_symbols()
        for section in self._sections:
            if section.info in places and section.kind == _WITHOUT_ADDENDS:
                raise NotLoadable("relocations without addends")
            if section.info in places and section.kind == _WITH_ADDENDS:
                self._relocate(section)
        if fixed and _library().mprotect(self._start, fixed, _READ_AND_RUN):
            raise NotLoadable("memory cannot be made to run")
        self._found = {self._name(one[0]): one for one in self._symbols if one[3] in places}
        del self._code

    def address(self, name: str) -> int:
        """Where a function or a variable is."""
        _, _, _, section, value, _ = self._found[name]
        return self._start + self._places[section] + int(value)

    # Reading ----------------------------------------------------------------------------------

    def _read_sections(self) -> list[_Section]:
        if len(self._code) < _HEADER.size or not self._code.startswith(_IDENTITY):
            raise NotLoadable("another format")
        header = _HEADER.unpack_from(self._code)
        _, kind, machine, _, _, _, at, _, _, _, _, size, count, _ = header
        if (kind, machine, size) != (_RELOCATABLE, _X86_64, _SECTION.size):
            raise NotLoadable("another kind of object code")
        if at + count * size > len(self._code):
            raise NotLoadable("cut off")
        table = memoryview(self._code)[at : at + count * size]
        return [_Section(*one) for one in _SECTION.iter_unpack(table)]

    def _bytes(self, section: _Section) -> bytes:
        found = self._code[section.offset : section.offset + section.size]
        if len(found) != section.size:
            raise NotLoadable("cut off")
        return found

    def _laid_out(self) -> tuple[dict[int, int], int, int]:
        """Where sections go, how much that is, and how much of it is never written again."""
        places: dict[int, int] = {}
        end = fixed = 0
        for writable in (0, _WRITABLE):
            for number, one in enumerate(self._sections):
                wanted = one.flags & _IN_MEMORY and one.flags & _WRITABLE == writable
                if not wanted or not one.size or one.kind not in (_PROGRAM, _ZEROS):
                    continue  # the tables for exceptions, of which there are none, are of their own
                align = max(one.align, 1)
                if one.flags & _THREADS_OWN or align > mmap.PAGESIZE or one.size > _MOST:
                    raise NotLoadable("memory of an unknown kind")
                end = -(-end // align) * align
                places[number] = end
                end += one.size
            if not writable:
                fixed = end = -(-end // mmap.PAGESIZE) * mmap.PAGESIZE
        return places, max(end, 1), fixed

    def _read_symbols(self) -> tuple[list[Any], bytes]:
        tables = [one for one in self._sections if one.kind == _SYMBOLS]
        if len(tables) != 1 or tables[0].link >= len(self._sections):
            raise NotLoadable("no table of symbols")
        found = self._bytes(tables[0])
        names = self._bytes(self._sections[tables[0].link])
        return list(_SYMBOL.iter_unpack(found[: len(found) // _SYMBOL.size * _SYMBOL.size])), names

    def _name(self, at: int) -> str:
        return self._names[at : self._names.find(b"\0", at)].decode("utf-8", "replace")

    # Linking ----------------------------------------------------------------------------------

    def _relocate(self, section: _Section) -> None:
        target, base = self._sections[section.info], self._places[section.info]
        found = self._bytes(section)
        known: dict[int, int] = {}
        if len(found) % _RELOCATION.size or target.kind != _PROGRAM:
            raise NotLoadable("relocations of an unknown kind")
        for offset, info, addend in _RELOCATION.iter_unpack(found):
            number = info >> 32
            if info & 0xFFFFFFFF != _WHOLE_ADDRESS or offset + _WORD.size > target.size:
                raise NotLoadable("a relocation of an unknown kind")
            value = known.get(number)
            if value is None:
                value = known[number] = self._value(number)
            _WORD.pack_into(self._memory, base + offset, (value + addend) % 2**64)

    def _value(self, number: int) -> int:
        """The address that a symbol stands for."""
        if number >= len(self._symbols):
            raise NotLoadable("an unknown symbol")
        name, _, _, section, value, _ = self._symbols[number]
        if section == 0:
            return _address_of(self._name(name))
        if section == _ABSOLUTE:
            return int(value)
        if section >= _SPECIAL or section not in self._places:
            raise NotLoadable("a symbol of an unknown kind")
        return self._start + self._places[section] + int(value)


@cache
def _library() -> Any:
    """What is loaded in this process, the C library among it."""
    library = ctypes.CDLL(None)
    library.mprotect.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int]
    return library


@cache
def _address_of(name: str) -> int:
    """Where a function of the C library is."""
    try:
        found = ctypes.cast(getattr(_library(), name), ctypes.c_void_p).value
    except (AttributeError, ValueError):
        raise NotLoadable(f"a symbol that this process does not have: {name}") from None
    return int(found or 0)
