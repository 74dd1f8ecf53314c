"""The array language as CUDA kernels, compiled by NVRTC and launched through CuPy.

`plan` says what is joined into one kernel, `group` and `moves` write the kernels, `products` calls
cuBLAS, `program` launches. The text needs no device: tests compile it for the host.
"""
