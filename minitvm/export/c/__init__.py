"""C11: kernels as functions of plain C and of the vector extensions of GCC and Clang."""
