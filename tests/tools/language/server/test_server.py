"""The server with a small model, and OpenAI's own client: conversations at once, limits, and clients that leave."""

from __future__ import annotations

import asyncio
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import openai
import pytest
import uvicorn

from minitvm.errors import InputError
from minitvm.tools.cli import main
from minitvm.tools.language.server import Batching, ServerLimits, SlotModel, application, batching
from minitvm.tools.language.server.answers import Answer, StopText
from tests.frontends.gguf.models import write_model
from tests.tools.language import vocabularies as v

SLOTS, NAME = 3, "small"
SIZES = {"vocabulary": 262, "context": 96, "depth": 1}


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("server") / "small.gguf"
    write_model(place, kind="Q8_0", words=v.of_bytes([("a", "b"), ("l", "l"), ("Ġ", "a")]), **SIZES)
    return place


@pytest.fixture(scope="module")
def model(path: Path) -> SlotModel:
    return SlotModel(path, slots=SLOTS, threads=1)


@pytest.fixture(scope="module")
def app(model: SlotModel) -> Any:
    return application(model, NAME, ServerLimits(body=4000, queue=40))


@pytest.fixture(scope="module")
def port(app: Any) -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="on", ws="none"))
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            until(lambda: server.started)
            yield listener.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join()


@pytest.fixture(scope="module")
def client(port: int) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="none", max_retries=0) as client:
        yield client


def until(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds; a minute is enough on every machine."""
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.005)


def answer(client: openai.OpenAI, text: str, streams: bool = False, **options: Any) -> tuple[str, str]:
    """The text of an answer, and why it ends."""
    messages: Any = [{"role": "user", "content": text}]
    options = {"model": NAME, "messages": messages, "max_tokens": 20, **options}
    if not streams:
        choice = client.chat.completions.create(**options).choices[0]
        return choice.message.content, choice.finish_reason
    pieces, reason = [], ""
    for chunk in client.chat.completions.create(**options, stream=True):
        pieces.append(chunk.choices[0].delta.content or "")
        reason = chunk.choices[0].finish_reason or reason
    return "".join(pieces), reason


def test_conversations_at_once_are_those_alone(client: openai.OpenAI) -> None:
    """There are more of them than slots; they are greedy or drawn, with and without streaming, of all lengths."""
    requests: list[dict[str, Any]] = [
        {"text": "ab" * (k % 5 + 1), "temperature": (0, 0.7, 1.5)[k % 3], "seed": k, "top_p": (1, 0.9)[k % 2],
         "max_tokens": 3 + 5 * k % 30}
        for k in range(20)
    ]  # fmt: skip
    alone = [answer(client, **request) for request in requests]
    assert len(set(alone)) > 10, "the answers differ, so that none may be another one's"
    with ThreadPoolExecutor(len(requests)) as pool:
        together = list(pool.map(lambda k: answer(client, streams=k % 4 < 2, **requests[k]), range(len(requests))))
    assert together == alone


def greedy(model: SlotModel, text: str, count: int) -> list[int]:
    """The likeliest tokens after a text."""
    tokens = model.tokenizer.encode(text)
    begin = len(tokens)
    logits = model.read(0, tokens, 0)
    while len(tokens) < begin + count:
        tokens.append(int(logits.argmax()))
        logits = model.step([(0, len(tokens) - 1, tokens[-1])])[0]
    return tokens[begin:]


def test_a_completion_and_its_usage(client: openai.OpenAI, model: SlotModel) -> None:
    done = client.completions.create(model=NAME, prompt="ab", temperature=0, max_tokens=12)
    assert done.choices[0].text == model.tokenizer.decode(greedy(model, "ab", 12))
    assert done.choices[0].finish_reason == "length"
    usage: Any = done.usage
    tokens = model.tokenizer.encode("ab")
    assert (usage.prompt_tokens, usage.completion_tokens, usage.total_tokens) == (len(tokens), 12, len(tokens) + 12)
    again = client.completions.create(model=NAME, prompt=tokens, temperature=0)  # type: ignore[arg-type]
    assert again.choices[0].text == model.tokenizer.decode(greedy(model, "ab", 16))
    assert again.usage is not None and again.usage.completion_tokens == 16


def test_an_answer_ends_before_a_stop_string_and_at_an_end(
    client: openai.OpenAI, model: SlotModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    options: dict[str, Any] = {"model": NAME, "prompt": "ab", "temperature": 0, "max_tokens": 12}
    tokens = greedy(model, "ab", 12)
    whole = model.tokenizer.decode(tokens)
    stop = whole[3:5]
    choice = client.completions.create(**options, stop=stop).choices[0]
    assert (choice.text, choice.finish_reason) == (whole.partition(stop)[0], "stop")
    pieces = [c.choices[0].text for c in client.completions.create(**options, stop=[stop], stream=True)]
    assert "".join(pieces) == whole.partition(stop)[0]
    monkeypatch.setattr(model.tokenizer, "ends", frozenset({tokens[2]}))
    choice = client.completions.create(**options).choices[0]
    expected = model.tokenizer.decode(tokens[: tokens.index(tokens[2])])
    assert (choice.text, choice.finish_reason) == (expected, "stop")


def test_a_stream(client: openai.OpenAI) -> None:
    options: dict[str, Any] = {"model": NAME, "messages": [{"role": "user", "content": "a"}], "max_tokens": 5}
    chunks = list(client.chat.completions.create(**options, stream=True, stream_options={"include_usage": True}))
    assert chunks[0].choices[0].delta.role == "assistant"
    assert [c.choices[0].finish_reason for c in chunks[:-1]] == [None] * (len(chunks) - 2) + ["length"]
    assert chunks[-1].choices == []
    assert chunks[-1].usage is not None and chunks[-1].usage.completion_tokens == 5
    assert len({c.id for c in chunks}) == 1


def test_models(client: openai.OpenAI) -> None:
    assert [entry.id for entry in client.models.list()] == [NAME]
    assert client.models.retrieve(NAME).owned_by == "minitvm"
    with pytest.raises(openai.NotFoundError, match="the model 'gpt' does not exist"):
        client.models.retrieve("gpt")
    with pytest.raises(openai.NotFoundError, match="the model 'gpt' does not exist; this server has 'small'"):
        answer(client, "a", model="gpt")


@pytest.mark.parametrize(
    ("options", "text", "code"),
    [
        ({"text": "a" * 200}, "the context is 96 tokens, and the request needs", "context_length_exceeded"),
        ({"text": "a", "max_tokens": 96}, "of messages, and 96 of the answer", "context_length_exceeded"),
        ({"text": "a", "n": 2}, "n is not supported, except as 1", "unsupported_value"),
        ({"text": "\udcff"}, "not valid UTF-8", None),
    ],
)
def test_requests_that_are_refused(client: openai.OpenAI, options: Any, text: str, code: str | None) -> None:
    with pytest.raises(openai.BadRequestError, match=text) as caught:
        answer(client, **options) if "\udcff" not in options["text"] else surrogate(client)
    assert caught.value.code == code


def surrogate(client: openai.OpenAI) -> None:
    """The client cannot send half of a pair of UTF-16, which JSON can."""
    body = b'{"model": "small", "prompt": "\\udcff"}'
    client.post("/completions", cast_to=object, content=body, options={"headers": {"content-type": "application/json"}})


def sent(port: int, method: str, place: str, body: Any = b"", **headers: str) -> tuple[int, Any]:
    """The status of a response, and its body."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, place, body, {"content-type": "application/json", **names})
        response = connection.getresponse()
        text = response.read()
        return response.status, json.loads(text) if text.startswith(b"{") else text
    finally:
        connection.close()


def test_requests_that_no_client_sends(port: int) -> None:
    place = "/v1/completions"
    assert sent(port, "GET", place)[0] == 405
    assert sent(port, "POST", "/v1/embeddings")[0] == 404
    for body, headers, status, text in (
        (b"{", {}, 400, "the body is not valid JSON"),
        (b"[]", {}, 400, "the body is not a JSON object"),
        (b"{}", {"content_type": "text/plain"}, 415, "must be application/json, not 'text/plain'"),
        (b" " * 5000, {}, 413, "the body has more than 4000 bytes"),
        (iter([b" " * 3000] * 2), {}, 413, "the body has more than 4000 bytes"),
        (b'{"model": "small", "prompt": [262]}', {}, 400, "wanted tokens from 0 to 261, found 262"),
        (b'{"model": "small", "prompt": []}', {}, 400, "a text has at least one token"),
        (b'{"\\ud800": 1}', {}, 400, "there is no option"),  # half of a pair of UTF-16, which has no bytes in UTF-8
        (b'{"model": "small", "prompt": "a", "stream": true, "stream_options": {"\\ud800": 1}}', {}, 400, "no option"),
    ):
        found = sent(port, "POST", place, body, **headers)
        assert (found[0], found[1]["error"]["type"]) == (status, "invalid_request_error")
        assert text in found[1]["error"]["message"]
    assert sent(port, "GET", "/v1/models", host="example.com")[0] == 400


@pytest.mark.parametrize("streams", [True, False])
def test_a_client_that_leaves_frees_its_slot(
    app: Any, port: int, client: openai.OpenAI, model: SlotModel, streams: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    entered, step = threading.Event(), model.step
    monkeypatch.setattr(model, "step", lambda rows: (entered.set(), time.sleep(0.05), step(rows))[2])
    body = {"model": NAME, "prompt": "ab", "max_tokens": 90, "temperature": 0, "stream": streams}
    text = json.dumps(body).encode()
    head = b"POST /v1/completions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(head + b"Content-Length: %d\r\n\r\n%s" % (len(text), text))
        assert entered.wait(60)
        assert app.state.batching.load[0] == 1
    until(lambda: app.state.batching.load == (0, 0))
    monkeypatch.undo()
    assert answer(client, "ab")[1]


def test_a_stream_of_pieces_that_waited_lets_the_loop_run(model: SlotModel) -> None:
    """Otherwise the loop would see only after the last piece that a client has left."""
    app = application(model, NAME)
    body = json.dumps({"model": NAME, "prompt": [5], "max_tokens": 60, "stream": True, "seed": 1, "temperature": 2})
    scope = {"type": "http", "method": "POST", "path": "/v1/completions", "query_string": b"", "root_path": "",
             "headers": [(b"host", b"localhost"), (b"content-type", b"application/json")]}  # fmt: skip
    messages, sent_before = [{"type": "http.request", "body": body.encode()}], list[int]()
    sent_messages: list[Any] = []

    async def receive() -> Any:
        return messages.pop() if messages else await asyncio.Event().wait()

    async def send(message: Any) -> None:
        sent_messages.append(message)
        if len(sent_messages) == 1:
            while app.state.batching.load != (0, 0):
                await asyncio.sleep(0.01)
        elif len(sent_messages) == 2:
            asyncio.get_running_loop().call_soon(lambda: sent_before.append(len(sent_messages)))

    async def talk() -> None:
        async with app.router.lifespan_context(app):
            await app(scope, receive, send)

    asyncio.run(talk())
    assert sent_before[0] == 2 and len(sent_messages) > 20


def test_a_queue_is_full(model: SlotModel) -> None:
    """Without the thread, nothing leaves the queue."""
    batch = Batching(model, lambda _: None, queue=2)
    waiting = [_answer(model, [3]) for _ in range(SLOTS + 2)]
    for item in waiting:
        batch.submit(item)
    with pytest.raises(InputError, match="5 requests are waiting already; try again later"):
        batch.submit(_answer(model, [3]))
    batch.cancel(waiting[0])
    batch.submit(_answer(model, [3]))
    batch.stop()
    with pytest.raises(InputError, match="the server is being stopped"):
        batch.submit(_answer(model, [3]))


def test_a_full_queue_is_status_429(app: Any, client: openai.OpenAI, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app.state.batching, "queue", -SLOTS)
    with pytest.raises(openai.RateLimitError, match="0 requests are waiting already"):
        answer(client, "a")


def _answer(model: SlotModel, prompt: list[int], count: int = 6) -> Answer:
    tokenizer = model.tokenizer
    return Answer(prompt, count, lambda x: int(x.argmax()), frozenset(), tokenizer.decoder(), StopText(()))


def run_all(model: SlotModel, answers: list[Answer]) -> list[str]:
    """The texts of answers, each of which begins after the one before has ended."""
    ended = threading.Event()

    def deliver(events: Any) -> None:
        if any(is_over for _, _, is_over in events):
            ended.set()

    with Batching(model, deliver) as batch:
        for item in answers:
            ended.clear()
            batch.submit(item)
            assert ended.wait(60)
    return [item.text for item in answers]


def test_whole_chunks_of_a_prompt_are_reused(model: SlotModel, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batching, "CHUNK", 8)
    system = [int(t) for t in range(10, 30)]
    prompts = [system, [*system, 40, 41], [9, *system], system[:17], system[:16], [*system, 40, 41, 42, 43, 44]]
    apart = [run_all(model, [_answer(model, prompt)])[0] for prompt in prompts]
    answers = [_answer(model, prompt) for prompt in prompts]
    assert run_all(model, answers) == apart
    assert [item.reused for item in answers] == [0, 16, 0, 16, 8, 16]


def test_an_error_of_one_answer_ends_only_this_one(model: SlotModel, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(_: Any) -> int:
        raise InputError("the model computes no numbers")

    answers = [_answer(model, [3, 4]) for _ in range(3)]
    answers[1].choose = fails
    expected = run_all(model, [_answer(model, [3, 4])])[0]
    assert run_all(model, answers) == [expected, "", expected]
    assert answers[1].error == "InputError: the model computes no numbers"
    step = model.step
    failing = iter([True])
    monkeypatch.setattr(model, "step", lambda rows: 1 / 0 if next(failing, False) else step(rows))
    answers = [_answer(model, [3, 4]) for _ in range(2)]
    assert run_all(model, answers)[1] == expected
    assert answers[0].error == "ZeroDivisionError: division by zero"


def test_the_command_ends_by_ctrl_c(path: Path) -> None:
    """A stream that is not complete ends with an error."""
    command = [sys.executable, "-m", "minitvm", "serve", str(path), "--port", "0", "--threads", "1", "--slots", "3"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=dict(os.environ)) as process:
        assert process.stderr is not None
        try:
            line = next(line for line in process.stderr if "Ctrl-C ends" in line)
            url = line.partition(" ")[0]
            with openai.OpenAI(base_url=url, api_key="none", max_retries=0) as client:
                assert answer(client, "ab", model="small", temperature=0)[1] in ("stop", "length")
        finally:
            process.send_signal(signal.SIGINT)
        rest = process.stderr.read()
        assert (process.wait(60), rest) == (0, "")


EARLY = """
import os, signal
from minitvm.tools.language.server import application, serve

class Model:
    @property
    def slots(self):
        os.kill(os.getpid(), signal.SIGINT)
        return 1

serve(application(Model(), "m"), 0)
"""


def test_ctrl_c_while_the_application_begins() -> None:
    process = subprocess.run([sys.executable, "-c", EARLY], capture_output=True, text=True)
    assert (process.returncode, process.stderr) == (0, "")


def test_mistakes_of_the_command(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], model: SlotModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    from minitvm.tools.language import server

    monkeypatch.setattr(server, "SlotModel", lambda *_, **__: model)
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        for arguments, text in (
            ([str(path), "--port", port], f"cannot listen on port {port}"),
            ([str(path), "--port", "70000"], "wanted a port from 0 to 65535, found 70000"),
            ([str(path), "--queue", "-1"], "--queue -1: wanted a number from 0"),
        ):
            assert main(["serve", *arguments]) == 2
            assert text in capsys.readouterr().err
    monkeypatch.undo()
    assert main(["serve", str(tmp_path / "no.gguf")]) == 2
    assert "no.gguf: no such file" in capsys.readouterr().err
