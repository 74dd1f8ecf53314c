"""Worker threads for large loops: Python threads that stay in native code, without the lock.

They wait on semaphores for (function, table, slots, rows). A loop has parts of equally many rows,
or of none where rows are few: it does at least one row, so such a part is left out. Each thread
does every so many-th of them, the caller from the first on. Sums over rows have one copy a part,
added in order by the caller, so results depend neither on timing nor, where parts are equally many,
on the number of threads. One loop at a time is shared; a second caller meanwhile does all parts of
its own, one after the other, which gives the same sums.
"""

from __future__ import annotations

import ctypes
import os
import sys
from functools import cache
from typing import Any

import numpy

from pullback.compiled.llvm.machine import Code
from pullback.core.process.alone import Servant
from pullback.operators.arrays.threads import setting

__all__ = ["can_share", "count", "parallel_address"]

_SEMAPHORE = 64  # bytes for each, more than any sem_t
# Addresses of this process are filled in when the code is there: so the text is the same in every
# process, and the code is kept on disk.
_TEXT = """
@job = global i64 0
@semaphores = global i64 0
@sem_wait = global i64 0
@sem_post = global i64 0
define internal void @parts(ptr %f, ptr %B, ptr %S, i64 %R, i64 %first, i64 %step) {
entry:
  %some = icmp slt i64 %first, {parts}
  br i1 %some, label %loop, label %over
loop:
  %k = phi i64 [ %first, %entry ], [ %next, %behind ]
  %l = mul i64 %R, %k
  %lo = udiv i64 %l, {parts}
  %k1 = add i64 %k, 1
  %h = mul i64 %R, %k1
  %hi = udiv i64 %h, {parts}
  %any = icmp ult i64 %lo, %hi
  br i1 %any, label %some_rows, label %behind
some_rows:
  call void %f(ptr %B, ptr %S, i64 %lo, i64 %hi, i64 %k)
  br label %behind
behind:
  %next = add i64 %k, %step
  %more = icmp slt i64 %next, {parts}
  br i1 %more, label %loop, label %over
over:
  ret void
}
define void @work(i64 %tid) {
entry:
  %off = mul i64 %tid, 64
  %first = load i64, ptr @semaphores
  %sa = add i64 %off, %first
  %sem = inttoptr i64 %sa to ptr
  %da = add i64 %first, {behind}
  %done = inttoptr i64 %da to ptr
  %job = load ptr, ptr @job
  %wait = load ptr, ptr @sem_wait
  %post = load ptr, ptr @sem_post
  br label %loop
loop:
  %w = call i32 %wait(ptr %sem)
  %bad = icmp ne i32 %w, 0
  br i1 %bad, label %loop, label %got
got:
  %f = load volatile ptr, ptr %job
  %ba = getelementptr i64, ptr %job, i64 1
  %B = load volatile ptr, ptr %ba
  %sl = getelementptr i64, ptr %job, i64 2
  %S = load volatile ptr, ptr %sl
  %ra = getelementptr i64, ptr %job, i64 3
  %R = load volatile i64, ptr %ra
  call void @parts(ptr %f, ptr %B, ptr %S, i64 %R, i64 %tid, i64 {threads})
  %p = call i32 %post(ptr %done)
  br label %loop
}
define void @par(ptr %f, ptr %B, ptr %S, i64 %R) {
entry:
  %job = load ptr, ptr @job
  %first = load i64, ptr @semaphores
  %wait = load ptr, ptr @sem_wait
  %post = load ptr, ptr @sem_post
  %fa = getelementptr i64, ptr %job, i64 4
  %was = atomicrmw xchg ptr %fa, i64 1 acquire, align 8
  %alone = icmp ne i64 %was, 0
  br i1 %alone, label %serial, label %shared
serial:
  call void @parts(ptr %f, ptr %B, ptr %S, i64 %R, i64 0, i64 1)
  ret void
shared:
  store volatile ptr %f, ptr %job
  %ba = getelementptr i64, ptr %job, i64 1
  store volatile ptr %B, ptr %ba
  %sl = getelementptr i64, ptr %job, i64 2
  store volatile ptr %S, ptr %sl
  %ra = getelementptr i64, ptr %job, i64 3
  store volatile i64 %R, ptr %ra
{posts}
  call void @parts(ptr %f, ptr %B, ptr %S, i64 %R, i64 0, i64 {threads})
{waits}
  store atomic i64 0, ptr %fa release, align 8
  ret void
}
"""


def count() -> int:
    """How many threads share a loop of a program that is made now.

    `PULLBACK_THREADS`, else what `set_num_threads` was given, else one.
    """
    wanted = int(os.environ.get("PULLBACK_THREADS", setting.count or 1))
    return max(1, wanted) if can_share() else 1


@cache
def can_share() -> bool:
    """Whether the system has the semaphores that workers wait on."""
    if not sys.platform.startswith("linux"):
        return False
    libc = ctypes.CDLL(None)
    return all(hasattr(libc, name) for name in ("sem_init", "sem_wait", "sem_post"))


class _Pool:
    """The workers, and the memory through which they are told what to do."""

    def __init__(self, threads: int, parts: int) -> None:
        libc = ctypes.CDLL(None)
        self.memory = numpy.zeros(64 + _SEMAPHORE * (threads + 2), numpy.uint8)
        start = self.memory.__array_interface__["data"][0]
        self.job = -(-start // 64) * 64
        semaphores = self.job + 64
        for number in range(threads + 1):
            libc.sem_init(ctypes.c_void_p(semaphores + _SEMAPHORE * number), 0, 0)

        def calls(what: str, places: list[int]) -> str:
            return "\n".join(
                f"  %{what}a{k} = add i64 %first, {_SEMAPHORE * place}\n"
                f"  %{what}p{k} = inttoptr i64 %{what}a{k} to ptr\n"
                f"  %{what}{k} = call i32 %{what}(ptr %{what}p{k})"
                for k, place in enumerate(places)
            )

        given = {
            "threads": threads, "parts": parts, "behind": _SEMAPHORE * threads,
            "posts": calls("post", list(range(1, threads))),
            "waits": calls("wait", [threads] * (threads - 1)),
        }  # fmt: skip
        text = _TEXT
        for name, value in given.items():
            text = text.replace("{" + name + "}", str(value))
        self.code = Code(text)
        for name in ("sem_wait", "sem_post"):
            found = ctypes.cast(getattr(libc, name), ctypes.c_void_p).value
            self._fill(name, int(found or 0))
        self._fill("job", self.job)
        self._fill("semaphores", semaphores)
        work = ctypes.CFUNCTYPE(None, ctypes.c_int64)(self.code.address("work"))
        for number in range(1, threads):
            Servant(target=work, args=(number,), daemon=True).start()
        self.work = work

    def _fill(self, name: str, value: int) -> None:
        ctypes.c_int64.from_address(self.code.address(name)).value = value

    def forget_workers(self) -> None:
        """In a forked child there are none: every loop is done by its caller."""
        flag = ctypes.c_int64.from_address(self.job + 32)
        flag.value = 1


_pools: list[_Pool] = []


@cache
def _pool(threads: int, parts: int) -> Any:
    pool = _Pool(threads, parts)
    _pools.append(pool)
    return pool


def _in_child() -> None:
    for pool in _pools:
        pool.forget_workers()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_in_child)


def parallel_address(threads: int, parts: int | None = None) -> int:
    """Where the function begins that shares the parts of a loop among so many threads."""
    return int(_pool(threads, parts or threads).code.address("par"))
