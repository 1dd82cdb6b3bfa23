"""Tools around the compiler: the command line, the profiler, networks to measure.

cli        the command `minitvm`
profile    where a program's time goes, beside the machine's bounds
models     the networks that everybody measures
"""
