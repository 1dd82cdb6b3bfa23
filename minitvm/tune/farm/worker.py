"""The board's side of a farm: Dask calls `work`, and `serve` is the program `minitvm worker`.

A Dask nanny starts the worker's process, and starts it again if it ends. The worker has one thread, so it does one
request at a time. A request may start further processes, as the tuner's measurements do.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
import sys
from collections.abc import Callable
from typing import Any

from ...errors import ArtifactError, ExecutionError, InputError, MinitvmError, missing_extra, report
from ...runtime.artifact import sign
from ...scratch import Scratch
from ...target import Target
from ...workers.process import function
from .message import checked, version

KEY = "MINITVM_FARM_KEY"  # the environment variable by which a nanny names the key's file to its worker
ANYONE = "minitvm"  # a resource that all workers have, whatever their target
TIMEOUT = 10  # seconds for a scheduler to answer
_OURS = ("minitvm", "tests")  # packages whose functions may be asked for


def work(request: bytes) -> bytes:
    """Do a signed request; return 0 and the result, or 1 and the text of a `MinitvmError`.

    Dask finds this function by its name in the worker's own installation.
    """
    try:
        key = worker_key()
        name, argument = checked(request, key)
    except MinitvmError as error:
        print(error, file=sys.stderr)  # at the board too
        return b"\1" + str(error).encode()
    try:
        reply = b"\0" + _named(name)(argument)
    except MinitvmError as error:
        reply = b"\1" + str(error).encode()
    return reply


def worker_key() -> bytes:
    """Return the key of this worker: from the file that MINITVM_FARM_KEY names, else the user's own key.

    Raises `ArtifactError` if there is none.
    """
    path = os.environ.get(KEY)
    key = sign.key_bytes(path) if path else sign.user_key()
    if key is None:
        raise ArtifactError(
            report(
                f"this worker has no key, so it could not tell whose work it does ({sign.key_path()} is missing)",
                tries=["minitvm worker --key FILE, with the key of who sends work"],
            )
        )
    return key


def _named(name: str) -> Callable[[bytes], bytes]:
    if name.partition(".")[0] not in _OURS:
        raise InputError(f"{name} is not work for a worker: wanted a function of {' or '.join(_OURS)}")
    try:
        return function(name)
    except (ImportError, AttributeError) as error:
        where = f"{socket.gethostname()} has no {name} ({error})"
        raise InputError(f"{where}: start its worker in a checkout of the same version") from None


def serve(address: str, target: Target, key: str | None, security: Any, ready: Callable[[str], None]) -> None:
    """Run a worker of the scheduler at `address` until SIGINT or SIGTERM; call `ready` with a line when it is
    connected.

    `key` is the path of a key file (None: the user's key), and `security` is as in `connection`. Raises `MissingExtra`
    if Dask is not installed, `ArtifactError` if there is no key, `InputError` if the scheduler cannot be reached, and
    `ExecutionError` when the scheduler is gone.
    """
    if key is not None:
        os.environ[KEY] = os.path.abspath(key)
    worker_key()
    os.environ.setdefault(
        "DASK_LOGGING__DISTRIBUTED", "critical"
    )  # read when Dask is imported, by the nanny's child too
    distributed()
    with Scratch("minitvm-worker-") as folder:
        asyncio.run(_serve(address, target, security, str(folder), ready))


async def _serve(address: str, target: Target, security: Any, folder: str, ready: Callable[[str], None]) -> None:
    dask = distributed()
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await _reached(address, security)
    nanny = dask.Nanny(
        address, nthreads=1, resources={str(target): 1, ANYONE: 1, version(): 1}, security=security, memory_limit=0,
        name=f"{socket.gethostname()}-{os.getpid()}", local_directory=folder, dashboard_address=None,
    )  # fmt: skip
    async with nanny:
        ready(f"ready: {nanny.name} at {address} for {target} ({version()})")
        ended = asyncio.create_task(nanny.finished())
        await asyncio.wait([ended, asyncio.create_task(stop.wait())], return_when=asyncio.FIRST_COMPLETED)
        if not stop.is_set():
            raise ExecutionError(f"the scheduler at {address} is gone, or has dismissed this worker")


async def _reached(address: str, security: Any) -> None:
    """Raise `InputError` unless a scheduler answers at the address."""
    from distributed.comm import connect

    arguments = {} if security is None else security.get_connection_args("worker")
    try:
        connection = await asyncio.wait_for(connect(address, timeout=TIMEOUT, **arguments), TIMEOUT + 1)
    except Exception as error:  # Dask's errors for this have no class in common
        raise unreachable(address, error) from None
    await connection.close()


def unreachable(address: str, error: BaseException) -> InputError:
    """Return the error for a scheduler that does not answer."""
    reason = (str(error.__cause__ or error) or type(error).__name__).splitlines()[0].rpartition(">: ")[2]
    return InputError(
        report(
            f"no scheduler answers at {address}",
            wanted="the address of a running `dask scheduler`, such as tcp://host:8786",
            found=reason,
            tries=["tls://..., with --tls-ca-file, --tls-cert and --tls-key, if the scheduler has certificates"],
        )
    )


def connection(ca: str | None, certificate: str | None, key: str | None) -> Any:
    """Return Dask's `Security` for certificate files; None if no file is given (then Dask's own configuration applies).

    Raises `InputError` if only some of the three are given, or if a file does not exist.
    """
    files = {"--tls-ca-file": ca, "--tls-cert": certificate, "--tls-key": key}
    if not any(files.values()):
        return None
    for name, path in files.items():
        if path is None:
            raise InputError(f"{name} is missing: TLS needs {', '.join(files)}")
        if not os.path.isfile(path):
            raise InputError(f"{name} {path}: no such file")
    both = {f"tls_{role}_{part}": path for role in ("client", "worker", "scheduler")
            for part, path in (("cert", certificate), ("key", key))}  # fmt: skip
    return distributed().Security(tls_ca_file=ca, require_encryption=True, **both)


def distributed() -> Any:
    """Import and return the library `distributed`. Raises `MissingExtra` if it is not installed."""
    try:
        import distributed
    except ImportError:
        raise missing_extra("Dask distributed", "farm") from None
    # We print one message for an error; Dask would also print a traceback.
    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    return distributed


__all__ = ["connection", "distributed", "serve", "unreachable", "work"]
