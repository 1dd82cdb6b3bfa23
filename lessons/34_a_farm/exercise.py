"""Exercise 34: work for boards that may die.

`jobs` maps each job to the tag that it needs. A job is a string. `farm` is a `lessons.farm.Farm`:

    farm.tags               the tag of each board, by the board's name
    farm.idle()             the boards that are alive and have no job
    farm.send(board, job)   gives an idle board a job
    farm.wait()             the next event: ("done", board, job), ("died", board), or ("joined", board)

Write

    run(jobs, farm, limit) -> dict

It returns the outcome of each job: "done", or "given up" if `limit` boards died while they ran this job. Send a job
only to a board with its tag, and only if the job is not done, not given up, and not running on another board. There is
at least one board for each tag, and a board that died joins again later. No board may be idle while a job that it could
do is waiting. So send first, and then wait. After all jobs have ended, you may still wait for boards that will join
again, but you need not. Do not change `jobs`.

    run({"a": "pi", "b": "pi"}, Farm({"x": "pi"}, faults=[0]), 3)            ->   {"a": "done", "b": "done"}
    run({"a": "pi", "b": "pi"}, Farm({"x": "pi"}, deadly=["a"]), 2)          ->   {"a": "given up", "b": "done"}

Check it with: minitvm lesson 34 --check
"""

from __future__ import annotations

from lessons.farm import Farm


def run(jobs: dict[str, str], farm: Farm, limit: int) -> dict[str, str]:
    """The outcome of each job."""
    raise NotImplementedError("run(jobs, farm, limit): the text at the top describes the task")
