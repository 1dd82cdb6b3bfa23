"""Lets the learner's dispatcher run farms in which boards die, and looks at all that was sent."""

from __future__ import annotations

from types import ModuleType

from hypothesis import strategies as st

from lessons.farm import Event, Farm, Misuse
from lessons.grading import attempt, cases, require


class Watched(Farm):
    """A farm that notes when a board is idle although work for it waits, and that does not go on for ever."""

    def __init__(self, jobs: dict[str, str], limit: int, faults: list[int], deadly: list[str]) -> None:
        super().__init__({"x": "pi", "y": "pi", "z": "phone"}, faults, deadly)
        self.jobs, self.limit, self.ended = jobs, limit, dict[str, str]()
        self.deaths = dict.fromkeys(jobs, 0)
        self.log: list[str] = []

    def send(self, board: str, job: str) -> None:
        self.log.append(f"  send {job} to {board}")
        if job not in self.jobs:
            raise Misuse(f"{job!r} is no job")
        if self.jobs[job] != self.tags.get(board, self.jobs[job]):
            raise Misuse(f"{job} needs a {self.jobs[job]}, and {board} is a {self.tags[board]}")
        if job in self.work.values():
            raise Misuse(f"{job} is at work elsewhere")
        if job in self.ended:
            raise Misuse(f"{job} was {self.ended[job]} before")
        super().send(board, job)

    def wait(self) -> Event:
        waiting = [job for job in self.jobs if job not in self.ended and job not in self.work.values()]
        for board in self.idle():
            fitting = [job for job in waiting if self.jobs[job] == self.tags[board]]
            if fitting:
                raise Misuse(f"{board} is idle while {fitting[0]} waits")
        before = dict(self.work)
        event = super().wait()
        self.log.append(f"  {event[1]} {event[0]}")
        if event[0] == "done":
            self.ended[event[2]] = "done"
        if event[0] == "died":
            job = before[event[1]]
            self.deaths[job] += 1
            if self.deaths[job] == self.limit:
                self.ended[job] = "given up"
        return event


def check(module: ModuleType) -> None:
    """Raises AssertionError with a small farm that is led badly."""
    tags = st.lists(st.sampled_from(["pi", "phone"]), max_size=6)
    deaths = st.lists(st.integers(0, 9), unique=True, max_size=4)

    @cases(300, tag=tags, faults=deaths, deadly=st.sets(st.integers(0, 5), max_size=2), limit=st.integers(1, 3))
    def loses_nothing(tag: list[str], faults: list[int], deadly: set[int], limit: int) -> None:
        jobs = {f"job {'abcdef'[n]}": one for n, one in enumerate(tag)}
        killers = [job for n, job in enumerate(jobs) if n in deadly]
        farm = Watched(jobs, limit, faults, killers)
        case = f"run({jobs}, farm, {limit})"
        boards = "the boards x and y are pis, z is a phone"
        try:
            found = attempt(case, module.run, dict(jobs), farm, limit)
        except Misuse as error:
            text = str(error).splitlines()[0]
            raise AssertionError("\n".join([case, boards, *farm.log[-16:], text])) from None
        story = "\n".join([case, boards, *farm.log[-16:], f"returned {found}"])
        for job in jobs:
            sends = sum(1 for _, sent in farm.sent if sent == job)
            deaths = f"it was sent {sends} times, and {farm.deaths[job]} boards died"
            require(job in farm.ended, f"{story}\n{job} is neither done nor given up: {deaths}")
        require(found == farm.ended, f"{story}\nwanted   { {job: farm.ended[job] for job in jobs} }")
