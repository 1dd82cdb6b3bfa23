"""A farm of boards to play with: who has which job, who dies, who comes. Nothing runs; time is a counter.

farm = Farm({"pi-1": "pi", "pi-2": "pi", "phone": "phone"}, faults=[3])
farm.send("pi-1", "job a")
farm.wait()          # ("done", "pi-1", "job a") or ("died", "pi-1") or ("joined", "pi-1")
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

Event = tuple[str, ...]


class Misuse(Exception):
    """What cannot be asked of a board; the text says why."""


class Farm:
    """Boards, by name, each with its tag. `faults` are the numbers of sends (from 0) during which the board dies.

    Jobs in `deadly` kill each board that tries them. A board that died joins again after the next event of another one,
    or at once where no other has work.
    """

    def __init__(self, tags: Mapping[str, str], faults: Sequence[int] = (), deadly: Sequence[str] = ()) -> None:
        self.tags, self.faults, self.deadly = dict(tags), set(faults), set(deadly)
        self.work: dict[str, str] = {}  # what each busy board does
        self.dead: list[str] = []
        self.sent: list[tuple[str, str]] = []
        self._doomed: set[str] = set()
        self._events: list[Event] = []

    def idle(self) -> list[str]:
        """The boards that are there and have no work."""
        return [name for name in self.tags if name not in self.work and name not in self.dead]

    def send(self, board: str, job: str) -> None:
        """Give a job to an idle board."""
        if board not in self.tags:
            raise Misuse(f"there is no board {board!r}")
        if board in self.dead:
            raise Misuse(f"{board} got {job!r}, and it is dead")
        if board in self.work:
            raise Misuse(f"{board} got {job!r} while it did {self.work[board]!r}: one measurement at a time")
        if len(self.sent) in self.faults or job in self.deadly:
            self._doomed.add(board)
        self.sent.append((board, job))
        self.work[board] = job

    def wait(self) -> Event:
        """The next event: ("done", board, job), ("died", board), or ("joined", board)."""
        if self._events:
            return self._events.pop(0)
        if not self.work:
            if not self.dead:
                raise Misuse("nobody has work, so nothing will ever happen: waiting for ever")
            return self._joined()
        board = next(iter(self.work))
        job = self.work.pop(board)
        if self.dead:
            self._events.append(self._joined())
        if board in self._doomed:
            self._doomed.remove(board)
            self.dead.append(board)
            return "died", board
        return "done", board, job

    def _joined(self) -> Event:
        return "joined", self.dead.pop(0)
