"""What writes code from a declaration.

`build` writes an operator's function on its first call (`call`, `steps`, `record`, `sequence` and
`inplace` each a part of it, `rare` what is the same for all), `nodes` its node class (`plan` says
what that keeps); `inline` and `specialise` bring rules to arrays, `choice` chooses among kernels.
`writer` makes functions of lines, also for those above who write code: users' operators, the
engine's loop, compiled programs. Start with `build`. Imports core, `declare` and `running`; never a
family.
"""
