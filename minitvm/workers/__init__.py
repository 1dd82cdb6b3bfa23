"""Work in other processes, which Numba's lock or Python's would serialise.

worker_pool.py   `run` a `Task` on many requests; the processes stay for the life of this one
process.py       the program of a worker
cores.py         the available cores
"""
