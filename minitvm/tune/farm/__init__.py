"""A farm: machines that do signed work for each other. Dask distributed moves the bytes; it needs the extra `farm`.

    dask scheduler                                             # one, anywhere
    minitvm worker tcp://scheduler:8786 --key farm.key         # on each board
    minitvm tune resnet18 --workers tcp://scheduler:8786 --key farm.key --target "..."

message.py   a request as bytes: the name of a function, its argument, and a signature over both
worker.py    on a board: what Dask calls there, and the program `minitvm worker`
client.py    at the user: sends requests to the workers of one target, and sends them again where a worker died

A worker has the text of its target as a tag (a Dask resource), and does one request at a time. Dask pickles only the
name `minitvm.tune.farm.worker:work` and bytes; minitvm sends none of its own functions or objects as pickles. But
Dask's ports accept any pickle from anybody who can reach them, and a client unpickles the replies. So the key does not
protect against people who can reach the scheduler. TLS does.
"""

from __future__ import annotations

__all__ = ["client", "worker"]
