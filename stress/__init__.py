"""Stress: random programs and calls, for as long as they are given, from a seed.

`python -m stress` runs every part, `python -m stress api --seconds 60 --seed 1` one. A part is a
module of this folder with `run(seconds, seed, calls)`, which returns a `Report`, and a line in
`PARTS`. What a part finds becomes a test where the behaviour's tests are.
"""

# Name -> what it does; the module of that name runs it.
PARTS = {
    "api": "every public function with wrong arguments: kinds of errors, targets and modes intact",
    "compiled": "random programs compiled against eager, at other sizes too; 100,000 calls, flat",
    "faults": "errors, interrupts and lack of memory at every step of programs, warm and cold",
    "functions": "custom Functions differentiated in every way, against the same in operators",
    "growth": "nothing waits for the collector after transforms, nested, and whole programs",
    "loader": "mutated and hostile files: read or refused, nothing run, memory near their size",
    "programs": "random programs on torch too, where it is installed: values, dtypes, gradients",
    "refusals": "calls with one wrong argument, on torch too: what it refuses is refused here",
    "sizes": "compiled against eager at sizes and numbers that are rounded, sliced and compared",
    "surroundings": "compiled against eager while everything that a function can read changes",
    "threads": "eight threads at a switch interval of 10 us: the numbers of one thread",
}
