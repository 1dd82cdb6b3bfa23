"""One answer to exercise 34."""

from __future__ import annotations

from lessons.farm import Farm


def run(jobs: dict[str, str], farm: Farm, limit: int) -> dict[str, str]:
    """The outcome of each job."""
    outcomes: dict[str, str] = {}
    waiting, running = list(jobs), {}
    deaths = dict.fromkeys(jobs, 0)
    while waiting or running:
        for board in farm.idle():
            fitting = [job for job in waiting if jobs[job] == farm.tags[board]]
            if fitting:
                waiting.remove(fitting[0])
                running[board] = fitting[0]
                farm.send(board, fitting[0])
        kind, board, *_ = farm.wait()
        if kind == "joined":
            continue
        job = running.pop(board)
        if kind == "done":
            outcomes[job] = "done"
            continue
        deaths[job] += 1
        if deaths[job] < limit:
            waiting.append(job)
        else:
            outcomes[job] = "given up"
    return outcomes
