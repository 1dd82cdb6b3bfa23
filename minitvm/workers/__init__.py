"""Work in other processes: what Numba's lock or Python's would do one after the other.

pool.py      `run` a `Task` on many requests; the processes stay for the life of this one
process.py   what such a process does
cores.py     the cores that there are to work on
"""
