"""A network as C11: `export` writes a folder with its kernels and steps, which a C compiler and `make` build.

    net.h, net.c        the interface, and the program, which needs no library but C's mathematics
    net_weights.*       the constants: a file of bytes, an assembly file that includes it, or C text
    net.hpp             a class for C++17, and example.cpp, which uses it
    check.c, check/     a test: inputs, and the outputs that minitvm computes from them
    Makefile, CMakeLists.txt

Kernels are functions of plain C and of the vector extensions of GCC and Clang (`kernels`).
"""

from .project import export, sized_project

__all__ = ["export", "sized_project"]
