"""Write OpenCL C: kernels, expressions, types, and the functions that a kernel's source defines."""
