"""Continuous batching (Yu et al. 2022): texts enter and leave the batch while others go on.

    repeat:
        texts that wait get free slots
        read prompts, at most CHUNK tokens in all, the oldest text first
        one token of each text whose prompt has been read          all in one call

A thread runs the model, so that an event loop never waits for it. It reports what happens by `deliver(events)`, one
call for each round; an event is (answer, piece of text, whether the answer is over).
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from .... import forks
from ....errors import InputError, MinitvmError
from .answers import Answer
from .slots import CHUNK, SlotModel

Events = list[tuple[Answer, str, bool]]
STOPPED = "the server is being stopped"


class QueueFull(InputError):
    """As many requests as the server allows are waiting for a slot."""


@dataclass(eq=False, slots=True)
class _CacheSlot:
    """A slot of the caches. `chunks` are the tokens of the whole chunks of a prompt, which the caches hold."""

    number: int
    chunks: list[int] = field(default_factory=list)
    answer: Answer | None = None
    position: int = 0  # tokens of the text that the caches hold
    token: int = -1  # the next one, or -1 while the prompt is read


class Batching:
    """A thread that answers requests with a model. Use it as a context, which starts and ends the thread.

    `queue` is the number of requests that may wait for a slot.
    """

    def __init__(self, model: SlotModel, deliver: Callable[[Events], None], queue: int = 64) -> None:
        self.model, self.queue = model, queue
        self._deliver = deliver
        self._slots = [_CacheSlot(k) for k in range(model.slots)]
        self._waiting: deque[Answer] = deque()
        self._changed = forks.condition()
        self._is_closed = False
        self._thread = threading.Thread(target=self._run, name="minitvm serve", daemon=True)

    def __enter__(self) -> Batching:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self._thread.join()

    def submit(self, answer: Answer) -> None:
        """Begin an answer as soon as a slot is free. Raises `QueueFull`."""
        with self._changed:
            if self._is_closed:
                raise QueueFull(STOPPED)
            free = sum(slot.answer is None for slot in self._slots)
            if len(self._waiting) >= self.queue + free:
                raise QueueFull(f"{len(self._waiting)} requests are waiting already; try again later")
            self._waiting.append(answer)
            self._changed.notify()

    def cancel(self, answer: Answer) -> None:
        """End an answer that is not wanted any more. Its slot is free before the next round."""
        answer.is_cancelled = True
        with self._changed:
            if answer in self._waiting:
                self._waiting.remove(answer)

    def stop(self) -> None:
        """End all answers by an error, and the thread. Does not wait for it."""
        with self._changed:
            self._is_closed = True
            self._changed.notify()

    @property
    def load(self) -> tuple[int, int]:
        """The number of answers in slots, and of those that wait."""
        return sum(slot.answer is not None for slot in self._slots), len(self._waiting)

    def _run(self) -> None:
        while self._enter():
            events: Events = []
            busy = [slot for slot in self._slots if slot.answer is not None]
            try:
                self._read(busy, events)
                self._step([slot for slot in busy if slot.token >= 0 and _goes_on(slot)], events)
            except Exception as error:  # all these answers end, and the thread goes on with others
                for slot in busy:
                    self._fail(slot, error, events)
                    slot.chunks = []
            for slot in busy:
                if not _goes_on(slot):
                    slot.answer = None
            self._deliver(events)
        answers = [slot.answer for slot in self._slots if slot.answer is not None]
        for answer in (*answers, *self._waiting):
            answer.error = STOPPED
        self._deliver([(answer, "", True) for answer in (*answers, *self._waiting)])

    def _enter(self) -> bool:
        """Wait until there is work, and give slots to texts that wait. Return False when the server is stopped."""
        with self._changed:
            while not self._is_closed and not self._waiting and all(slot.answer is None for slot in self._slots):
                self._changed.wait()
            if self._is_closed:
                return False
            free = [slot for slot in self._slots if slot.answer is None]
            while free and self._waiting:
                answer = self._waiting.popleft()
                slot = max(free, key=lambda slot: _reusable(slot, answer.prompt))
                free.remove(slot)
                self._slots.remove(slot)
                self._slots.append(slot)  # the oldest text comes first
                slot.answer, slot.token = answer, -1
                slot.position = answer.reused = _reusable(slot, answer.prompt)
                slot.chunks = slot.chunks[: slot.position]
        return True

    def _read(self, busy: list[_CacheSlot], events: Events) -> None:
        """Read the next tokens of prompts.

        A prompt is always split at the same places, and only whole chunks of a prompt are reused. Legal: the keys and
        values of a chunk follow from the text up to its end, by the same program on the same sizes.
        """
        budget = CHUNK
        for slot in busy:
            answer = slot.answer
            while answer is not None and slot.token < 0 and _goes_on(slot) and budget > 0:
                chunk = answer.prompt[slot.position : slot.position + CHUNK]
                logits = self.model.read(slot.number, chunk, slot.position)
                slot.position += len(chunk)
                budget -= len(chunk)
                if len(chunk) == CHUNK:
                    slot.chunks = answer.prompt[: slot.position]
                if slot.position == len(answer.prompt):
                    self._choose(slot, logits, events)

    def _step(self, running: list[_CacheSlot], events: Events) -> None:
        """Continue all texts whose prompt has been read by one token."""
        if not running:
            return
        logits = self.model.step([(slot.number, slot.position, slot.token) for slot in running])
        for slot, row in zip(running, logits, strict=True):
            slot.position += 1
            self._choose(slot, row, events)

    def _choose(self, slot: _CacheSlot, logits: object, events: Events) -> None:
        """Choose the next token of a text, and note the text that follows."""
        answer = slot.answer
        assert answer is not None
        try:
            slot.token, piece = answer.go_on(logits)  # type: ignore[arg-type]
        except MinitvmError as error:  # the model computes no numbers for this text
            self._fail(slot, error, events)
            return
        if piece or answer.is_over:
            events.append((answer, piece, answer.is_over))

    def _fail(self, slot: _CacheSlot, error: Exception, events: Events) -> None:
        answer = slot.answer
        if answer is not None and not answer.is_over:
            answer.error = f"{type(error).__name__}: {error}"
            events.append((answer, "", True))


def _goes_on(slot: _CacheSlot) -> bool:
    answer = slot.answer
    return answer is not None and not answer.is_over and not answer.is_cancelled


def _reusable(slot: _CacheSlot, prompt: list[int]) -> int:
    """Return how many tokens of a prompt a slot's caches hold: whole chunks, but not the prompt's last token, after
    which logits are needed.
    """
    most, count = min(len(slot.chunks), len(prompt) - 1), 0
    while count + CHUNK <= most and slot.chunks[count : count + CHUNK] == prompt[count : count + CHUNK]:
        count += CHUNK
    return count
