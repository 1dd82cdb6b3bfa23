"""Machines, each in a folder: what it is, what it does, how long that takes, how programs for it are written.

    cpu  cuda  opencl  vta  gemmini     machines: each has an object `BACKEND` (`minitvm.backend.Backend`), which
                                        `Target` and the back ends' registry find
    simd                                what all machines with vectors share
    gpu                                 what machines with a grid of threads share
    scratchpad                          what accelerators with scratchpads share

The spine imports none of them. `gemmini` is the example of docs/howto/accelerator.md.
"""
