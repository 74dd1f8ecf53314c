"""What writes code from a declaration.

`build` writes an operator's function on its first call (`call`, `steps`, `record`, `sequence` and
`inplace` each a part of it, `rare` what is the same for all), `nodes` its node class, for which
`inline` writes out rules. `core/writer` makes functions of the lines. Start
with `build`. Imports core, `declare`, `choice`, `running` and `dispatch`; never a family.
"""
