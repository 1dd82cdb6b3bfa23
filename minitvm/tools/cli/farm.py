"""`minitvm worker ADDRESS`: do signed work for the scheduler there, one request at a time, until Ctrl-C.

Work is what `minitvm tune MODEL --workers ADDRESS` measures, and the rounds of `make fuzz WORKERS=ADDRESS`. A
scheduler is started with `dask scheduler`. minitvm on a worker refuses what is not signed with the farm's key, a file
that you copy to each board. That keeps out only who comes through minitvm. Dask's own ports take pickles, and who tunes
unpickles what comes back: without TLS, whoever reaches the scheduler, or is one of its workers, can run code on the
workers and at your desk, and forge records, without the key. Run a farm in a network of your own, or with TLS, which
lets in who has a certificate.
"""

from __future__ import annotations

import argparse
from typing import Any

from . import options as opt


def register(commands: opt.Commands) -> None:
    parser = commands.add_parser(
        "worker", help="measure for others: one of the machines of a farm",
        formatter_class=argparse.RawDescriptionHelpFormatter, description=__doc__,
    )  # fmt: skip
    parser.add_argument("address", metavar="ADDRESS", help="of the scheduler: tcp://host:8786, or tls://host:8786")
    parser.add_argument(
        "--target", default="cpu", metavar="TARGET", help="what this machine is; default: cpu, this one"
    )
    parser.add_argument("--list", action="store_true", help="only list the workers that are there, with their targets")
    add_security(parser)
    parser.set_defaults(function=worker)


def add_security(parser: argparse.ArgumentParser) -> None:
    """--key, and the files of TLS, by the names that `dask scheduler` has for them."""
    opt.add_key(parser, "the key of the farm, at least 16 bytes; default: your own key of artifacts")
    for name, what in (
        ("ca-file", "of who signed the certificates"),
        ("cert", "of this machine"),
        ("key", "of --tls-cert"),
    ):
        parser.add_argument(f"--tls-{name}", metavar="FILE", help=f"PEM, {what}; with tls:// addresses")


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
