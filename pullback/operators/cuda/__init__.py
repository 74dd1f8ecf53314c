"""Arrays on a CUDA device, through CuPy: loaded when a program first asks for the device.

`found` looks for CuPy and the devices. `namespace` is CuPy under NumPy's names, with what CuPy has
not. `kernel_overrides` gives every kernel of the package a copy that names this namespace where it
named NumPy; `overrides` are kernels that are another program on a device. `library` has the fast
paths of operators written for device arrays.
"""
