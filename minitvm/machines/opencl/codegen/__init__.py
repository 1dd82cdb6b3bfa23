"""OpenCL C: kernels, expressions, types, and the functions that a program brings along."""
