"""`minitvm worker ADDRESS`: make this machine a worker of a farm, until you press Ctrl-C.

A worker measures candidates for `minitvm tune MODEL --workers ADDRESS`, and runs rounds of `make fuzz WORKERS=ADDRESS`,
one request at a time. Start the scheduler with `dask scheduler`.

A worker refuses requests that are not signed with the key of the farm. Copy this file to each board. The key does not
protect Dask itself, which unpickles the data that it receives. Without TLS, anyone who can reach the scheduler or a
worker can run code on all machines of the farm, including yours, and forge records. Use a private network, or use TLS,
which admits only machines with a certificate.
"""

from __future__ import annotations

import argparse
from typing import Any

from . import options as opt


def register(commands: opt.Commands) -> None:
    parser = commands.add_parser(
        "worker", help="make this machine a worker of a farm for tuning",
        formatter_class=argparse.RawDescriptionHelpFormatter, description=__doc__,
    )  # fmt: skip
    parser.add_argument(
        "address", metavar="ADDRESS", help="address of the scheduler: tcp://host:8786 or tls://host:8786"
    )
    parser.add_argument("--target", default="cpu", metavar="TARGET", help="the target of this machine; default: cpu")
    parser.add_argument("--list", action="store_true", help="list the present workers with their targets, and exit")
    add_security(parser)
    parser.set_defaults(function=worker)


def add_security(parser: argparse.ArgumentParser) -> None:
    """--key, and the files of TLS, by the names that `dask scheduler` has for them."""
    opt.add_key(parser, "file with the key of the farm, at least 16 bytes; default: your key for artifacts")
    for name, what in (
        ("ca-file", "PEM file of the certificate authority"),
        ("cert", "PEM file with the certificate of this machine"),
        ("key", "PEM file with the key of --tls-cert"),
    ):
        parser.add_argument(f"--tls-{name}", metavar="FILE", help=f"{what}; for tls:// addresses")


def given(options: argparse.Namespace) -> list[str]:
    """The options of `add_security` that were given, by their names."""
    return [name for name in ("--key", "--tls-ca-file", "--tls-cert", "--tls-key")
            if getattr(options, name[2:].replace("-", "_")) is not None]  # fmt: skip


def security(options: argparse.Namespace) -> Any:
    """Dask's `Security` for the options of `add_security`; None without."""
    from ...tune.farm.worker import connection

    return connection(options.tls_ca_file, options.tls_cert, options.tls_key)


def worker(options: argparse.Namespace) -> int:
    """Be a worker, or list those that there are."""
    if options.list:
        return _list(options)
    from ...tune.farm.worker import serve

    def ready(line: str) -> None:
        print(line, flush=True)

    serve(options.address, opt.target(options.target), options.key, security(options), ready)
    return 0


def _list(options: argparse.Namespace) -> int:
    from ...tune.farm.client import Farm

    with Farm(options.address, key=options.key, security=security(options)) as farm:
        for name, tags in sorted(farm.all_workers().items()):
            print(f"{name:<28} {'; '.join(tags)}")
        for name, version in sorted(farm.other_versions().items()):
            print(f"{name:<28} gets no work, because it is of another version: {version}")
    return 0
