"""A network as WebAssembly: `export` writes a folder that a browser, or node, loads.

    net.wasm            kernels and steps (`compile`, `program`), for engines with relaxed SIMD
    net.plain.wasm      the same for engines without it
    net.weights.bin     the constants, one after the other, each at a multiple of 64 bytes
    net.js              an ES module that loads and runs them
    index.html          a page that runs the network
    package.json        the word for node that net.js is a module

Multiply-adds of relaxed SIMD round once where the machine has such an instruction. There the outputs are, bit by bit,
those of the same executable on a CPU with FMA. Elsewhere they differ by rounding.
"""

from .folder import export

TARGET = "cpu -arch=wasm"  # the target to lower for

__all__ = ["TARGET", "export"]
