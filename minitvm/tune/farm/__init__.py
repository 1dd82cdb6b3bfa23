"""A farm: machines that do signed work for each other. Dask distributed moves the bytes; it needs the extra `farm`.

    dask scheduler                                             # one, anywhere
    minitvm worker tcp://scheduler:8786 --key farm.key         # on each board
    minitvm tune resnet18 --workers tcp://scheduler:8786 --key farm.key --target "..."

message.py   a request as bytes: the name of a function, its argument, and a signature over both
worker.py    on a board: what Dask calls there, and the program `minitvm worker`
client.py    at the user: sends requests to the workers of one target, and sends them again where a worker died

A worker is tagged with the text of its target, as a resource of Dask's, and does one request at a time. Dask pickles
one name, `minitvm.tune.farm.worker:work`, and bytes; no function or object of ours travels as a pickle. But Dask's
ports take any pickle, from anybody who reaches them, and a client unpickles replies: the key is no protection against
who can speak to the scheduler. TLS is.
"""

from __future__ import annotations

__all__ = ["client", "worker"]
