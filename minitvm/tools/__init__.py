"""Tools around the compiler: the command line, the profiler, networks to measure, a gallery of refusals.

cli        the command `minitvm`
profile    where a program's time goes, beside the machine's bounds
models     the networks that everybody measures
gallery    a bad call for each requirement of each schedule primitive
"""
