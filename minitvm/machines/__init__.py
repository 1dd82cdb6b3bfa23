"""Machines of which each is one folder: what it is, what it does, how long that takes, how programs for it are written.

No file of the compiler imports one. Each module here has an object `BACKEND` (`minitvm.backend.Backend`), which
`Target` and the back ends' registry find. `gemmini` is the example of CONTRIBUTING.md.
"""
