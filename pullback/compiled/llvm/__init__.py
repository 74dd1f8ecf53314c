"""The array language as machine code, by way of LLVM."""
