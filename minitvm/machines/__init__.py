"""Machines of which each is one folder: what it is, what it does, how long that takes, how programs for it are written.

Nothing elsewhere names them. Each module here has an object `BACKEND` (`minitvm.backend.Backend`), which `Target` and
the back ends' registry find. `gemmini` is the example of CONTRIBUTING.md.
"""
