"""Compiler: forward and backward captured together, run as one program.

`capture/` runs a function once on arrays without data and writes down what it does; `ir/` and
`lower/` turn that into values of a small array language, `llvm/` those into machine code, `python/`
the captured calls into NumPy source; `runtime/` calls either, guarded. `sizes/` makes a capture
serve other sizes, `partition/` cuts forward from backward, `aot/` hands both to compilers of the
user's, `backward/` captures the passes of eager graphs. The public names are
`pullback.compile` and `pullback.compiler`.
"""
