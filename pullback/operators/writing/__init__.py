"""What writes code from a declaration; nothing else in the package does.

`build` writes an operator's function on its first call (`steps`, `record`, `view`, `sequence`,
`inplace` and `call` each a part of it), `nodes` its node class, `dual` the function that carries
tangents; `inline` and `specialise` bring rules to arrays. Start with `build`. Imports core,
`declare` and `running`; never a family.
"""
