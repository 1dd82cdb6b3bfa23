"""The server as an ASGI application: OpenAI's `/v1/models`, `/v1/completions` and `/v1/chat/completions`."""

from __future__ import annotations

import asyncio
import json
import time
import uuid
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from typing import Any

from ....errors import InputError, MinitvmError, missing_extra
from ..conversation import tokens_of
from ..tokenizer import check_tokens
from .answers import Answer, StopText
from .batching import Batching, Events, QueueFull
from .fields import Fields, RequestError, checked, parsed
from .slots import SlotModel

_OBJECTS = {"chat": "chat.completion", "text": "text_completion"}
_HOSTS = ["127.0.0.1", "localhost"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerLimits:
    """Limits of a server: bytes of a request's body, and requests that wait for a slot."""

    body: int = 1 << 20
    queue: int = 64


def application(model: SlotModel, name: str, limits: ServerLimits = ServerLimits()) -> Any:
    """Return the ASGI application that answers with a model, which clients call by a `name`.

    The thread that runs the model lives as long as the application (its lifespan). `application.state.batching` is its
    `Batching` then. Raises `MissingExtra` without the package `starlette`.
    """
    try:
        from starlette.applications import Starlette
        from starlette.exceptions import HTTPException
        from starlette.middleware import Middleware
        from starlette.middleware.trustedhost import TrustedHostMiddleware
        from starlette.requests import ClientDisconnect, Request
        from starlette.responses import Response
        from starlette.routing import Route
    except ImportError:
        raise missing_extra("starlette", "serve") from None
    entry = {"id": name, "object": "model", "created": int(time.time()), "owned_by": "minitvm"}

    def reply(content: Any, status: int = 200, headers: Mapping[str, str] = {}) -> Any:
        # In ASCII: a text of the client may contain half of a pair of UTF-16, which UTF-8 has no bytes for.
        return Response(json.dumps(content), status, headers, media_type="application/json")

    async def models(request: Any) -> Any:  # noqa: ARG001
        return reply({"object": "list", "data": [entry]})

    async def one_model(request: Any) -> Any:
        if request.path_params["name"] != name:
            text = f"the model {request.path_params['name']!r} does not exist; this server has {name!r}"
            raise RequestError(text, "model", status=404, code="model_not_found")
        return reply(entry)

    async def refused(request: Any, error: Exception) -> Any:  # noqa: ARG001
        status, headers = 500, {}
        if isinstance(error, HTTPException):
            status, text, param, code = error.status_code, str(error.detail), None, None
            headers = dict(error.headers or {})
        elif isinstance(error, RequestError):
            status, text, param, code = error.status, str(error), error.param, error.code
        elif isinstance(error, QueueFull):
            status, text, param, code, headers = 429, str(error), None, "rate_limit_exceeded", {"retry-after": "1"}
        else:
            text, param, code = f"{type(error).__name__}: {error}", None, None
        return reply(_error(text, status, param, code), status, headers)

    @asynccontextmanager
    async def lifespan(app: Any) -> AsyncIterator[None]:
        loop = asyncio.get_running_loop()

        def deliver(events: Events) -> None:
            with suppress(RuntimeError):  # the loop has ended, so nobody reads the answers
                loop.call_soon_threadsafe(_deliver, events)

        with Batching(model, deliver, limits.queue) as app.state.batching:
            yield

    def _deliver(events: Events) -> None:
        for answer, piece, is_over in events:
            if (queue := queues.get(answer)) is not None:
                queue.put_nowait(piece)
                if is_over:
                    queue.put_nowait(None)

    queues: dict[Answer, asyncio.Queue[str | None]] = {}

    def endpoint(kind: str) -> Any:
        async def respond(scope: Any, receive: Any, send: Any) -> None:
            try:
                body = await _body(Request(scope, receive), limits.body)
            except ClientDisconnect:
                return
            fields = checked(parsed(body), kind, name)
            answer = await asyncio.to_thread(_answer, model, fields)
            queue = queues[answer] = asyncio.Queue()
            watcher = asyncio.create_task(_watch(receive, queue))
            try:
                app.state.batching.submit(answer)
                await _Reply(kind, name, fields, answer, queue).send(send)
            finally:
                app.state.batching.cancel(answer)
                del queues[answer]
                watcher.cancel()

        return respond

    errors = {HTTPException: refused, RequestError: refused, QueueFull: refused, Exception: refused}
    routes = [
        Route("/v1/models", models), Route("/v1/models/{name:path}", one_model),
        Route("/v1/completions", _Post(endpoint("text")), methods=["POST"]),
        Route("/v1/chat/completions", _Post(endpoint("chat")), methods=["POST"]),
    ]  # fmt: skip
    # A page in a browser reaches the server too: by a name that leads to 127.0.0.1, for example.
    guard = Middleware(TrustedHostMiddleware, allowed_hosts=_HOSTS)
    app = Starlette(routes=routes, middleware=[guard], exception_handlers=errors, lifespan=lifespan)
    return app


class _Post:
    """An endpoint as an ASGI application. `Route` passes it all methods that the route allows."""

    def __init__(self, respond: Any) -> None:
        self.respond = respond

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self.respond(scope, receive, send)


async def _body(request: Any, most: int) -> bytes:
    """Return the body of a request. Raises `RequestError` for one that is too large, or is not JSON.

    A page in a browser can send other types to any server without asking it, but not JSON.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise RequestError(f"the content type must be application/json, not {kind!r}", status=415)
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        if size > most:
            raise RequestError(f"the body has more than {most} bytes", status=413)
        parts.append(part)
    return b"".join(parts)


async def _watch(receive: Any, queue: asyncio.Queue[str | None]) -> None:
    """Put None into a queue when the client has left."""
    while (await receive())["type"] != "http.disconnect":
        pass
    queue.put_nowait(None)


def _answer(model: SlotModel, fields: Fields) -> Answer:
    """Return the answer that a client wants, which has not begun. Raises `RequestError` if there is no room for it."""
    param = "prompt" if fields.messages is None else "messages"
    try:
        if fields.messages is not None:
            prompt = tokens_of(model, fields.messages)
        elif isinstance(fields.prompt, str):
            prompt = model.tokenizer.encode(fields.prompt)
        else:
            prompt = fields.prompt
        check_tokens(prompt, model.vocabulary)
        if not prompt:
            raise InputError("a text has at least one token")
    except MinitvmError as error:
        raise RequestError(str(error), param) from None
    room = model.context - len(prompt)
    if room < (fields.count or 1):
        text = f"the context is {model.context} tokens, and the request needs {len(prompt) + (fields.count or 1)}: "
        text += f"{len(prompt)} of {param}, and {fields.count or 1} of the answer"
        raise RequestError(text, param, code="context_length_exceeded")
    tokenizer = model.tokenizer
    count = room if fields.count is None else fields.count
    choose = fields.sampling.chooser()
    return Answer(prompt, count, choose, tokenizer.ends, tokenizer.decoder(), StopText(fields.stops))


class _Reply:
    """The response to a request: one JSON object, or server-sent events with a piece of the answer each."""

    def __init__(
        self, kind: str, model: str, fields: Fields, answer: Answer, queue: asyncio.Queue[str | None]
    ) -> None:  # fmt: skip
        self.kind, self.fields, self.answer, self.queue = kind, fields, answer, queue
        name = _OBJECTS[kind] + (".chunk" if kind == "chat" and fields.streams else "")
        identity = f"{'chatcmpl' if kind == 'chat' else 'cmpl'}-{uuid.uuid4().hex}"
        self.head = {"id": identity, "object": name, "created": int(time.time()), "model": model}

    async def send(self, send: Any) -> None:
        """Send the response. If the client leaves, it ends early. Raises `RequestError` for an error before it
        begins.
        """
        pieces = self.pieces()
        if not self.fields.streams:
            async for _ in pieces:
                pass
            if self.answer.error:
                raise self.refusal()
            if self.answer.reason:
                body = json.dumps(self.whole()).encode()
                headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
                await send({"type": "http.response.start", "status": 200, "headers": headers})
                await send({"type": "http.response.body", "body": body})
            return
        first = await anext(pieces, None)
        if self.answer.error and not self.answer.pieces:
            raise self.refusal()
        headers = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-cache")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        async for event in self.events(first, pieces):
            await send({"type": "http.response.body", "body": f"data: {event}\n\n".encode(), "more_body": True})
            await asyncio.sleep(0)  # many pieces may wait here; only the loop can see that the client has left
        await send({"type": "http.response.body", "body": b""})

    def refusal(self) -> Exception:
        return RequestError(self.answer.error, status=500)

    async def pieces(self) -> AsyncIterator[str]:
        """Yield the pieces of the answer, until it is over or the client leaves."""
        while (piece := await self.queue.get()) is not None:
            yield piece

    async def events(self, first: str | None, pieces: AsyncIterator[str]) -> AsyncIterator[str]:
        role = {"role": "assistant", "content": ""}
        if self.kind == "chat":
            yield self.chunk([{"index": 0, "delta": role, "logprobs": None, "finish_reason": None}])
        if first:
            yield self.choice(first)
        async for piece in pieces:
            if piece:
                yield self.choice(piece)
        if self.answer.error:
            yield json.dumps(_error(self.answer.error, 500))
            return
        if not self.answer.reason:  # the client has left
            return
        yield self.choice("", self.answer.reason)
        if self.fields.streams_usage:
            yield self.chunk([], usage=self.usage())
        yield "[DONE]"

    def choice(self, piece: str, reason: str | None = None) -> str:
        content = {"delta": {"content": piece} if piece else {}} if self.kind == "chat" else {"text": piece}
        return self.chunk([{"index": 0, **content, "logprobs": None, "finish_reason": reason}])

    def chunk(self, choices: list[Any], **more: Any) -> str:
        if self.fields.streams_usage and not more:
            more = {"usage": None}
        return json.dumps({**self.head, "choices": choices, **more})

    def whole(self) -> dict[str, Any]:
        text: dict[str, Any] = {"text": self.answer.text}
        if self.kind == "chat":
            text = {"message": {"role": "assistant", "content": self.answer.text, "refusal": None}}
        choice = {"index": 0, **text, "logprobs": None, "finish_reason": self.answer.reason}
        return {**self.head, "choices": [choice], "usage": self.usage()}

    def usage(self) -> dict[str, Any]:
        """Return the numbers of tokens. The token that ends an answer is not counted."""
        prompt, tokens = len(self.answer.prompt), self.answer.tokens
        return {
            "prompt_tokens": prompt, "completion_tokens": tokens, "total_tokens": prompt + tokens,
            "prompt_tokens_details": {"cached_tokens": self.answer.reused},
        }  # fmt: skip


def _error(text: str, status: int, param: str | None = None, code: str | None = None) -> Mapping[str, Any]:
    """Return the body of an error, in OpenAI's form."""
    kinds = {429: "rate_limit_error"}
    kind = kinds.get(status, "invalid_request_error" if status < 500 else "server_error")
    return {"error": {"message": text, "type": kind, "param": param, "code": code}}
