# %% [markdown]
# # A farm of different boards
#
# A schedule that is good on your laptop may be bad on a phone. So you have to measure on the devices where the network
# will run, which we call boards. There are only a few boards, they are slow, they sometimes hang, and sometimes a plug
# is pulled. In this lesson we send work to boards so that no job is lost, no board is idle while it could work, and
# only people with a key can send jobs.

# %%
from minitvm.tools.cli.lesson import open_lessons

open_lessons()

import hashlib
import textwrap

from lessons.farm import Farm
from lessons.picture import Picture
from lessons.predict import predict
from minitvm.errors import ArtifactError
from minitvm.target import Target
from minitvm.tune.farm.message import checked, packed, signed, unpacked

# %% [markdown]
# ## Boards and their tags
#
# A compiler generates code for a *target*, which describes the vectors, registers, caches and cores of a machine. The
# *tag* of a board is the text of its target. A program is measured only on boards whose tag is the same as the target
# of the program. A measurement on another board would not tell you anything about your target. Here are some of the
# words in two tags:

# %%
laptop, small = Target("cpu -cores=2 -width=512"), Target("cpu -cores=4 -width=128")
for target in (laptop, small):
    print(
        *(part for part in str(target).split() if part.split("=")[0] in ("-vector_bits", "-vector_registers", "-cores"))
    )
assert str(laptop) != str(small) and Target(str(small)) == small

# %% [markdown]
# The two tags are different, so a program for one of these targets is never measured on a board with the other tag.
#
# ## The request
#
# What do we send to a board? We do not send the schedule, because compiling on a board would be slow. We send the
# compiled program, which is called an artifact, together with the artifact of the untuned program. The board runs the
# untuned program to get the right result, so it need not know anything about the operator in advance. *Any* board with
# the right tag can therefore handle *any* request, and a lost request can simply be sent again:

# %%
request = packed({"runs": 30, "seconds": 0.1}, [b"the untuned program", b"the candidate"])
head, programs = unpacked(request)
print(len(request), "bytes:", head, programs)

# %% [markdown]
# A request contains machine code, and this code runs with all rights of the owner of the board. So each request is
# signed with a key that you copied to the board yourself. If a single bit of the request is changed, the board refuses
# it. We try two bad requests: a request that was changed on the way, and a request that was signed with another key.

# %%
key = hashlib.sha256(b"in earnest: 32 random bytes in a file").digest()
letter = signed("minitvm.tune.remote:measured", request, key)
assert checked(letter, key) == ("minitvm.tune.remote:measured", request)
forged = letter.replace(b"the candidate", b"the intruder!")
for other, lock in ((forged, key), (letter, bytes(32))):
    try:
        checked(other, lock)
    except ArtifactError as error:
        print(textwrap.fill(str(error).splitlines()[0], 100), end="\n\n")

# %% [markdown]
# Both requests were refused.
#
# ## A board may die
#
# A candidate can crash, hang, or use all memory. Therefore the program on a board that receives requests, the *worker*,
# runs each candidate in a separate process. If the candidate crashes, the worker goes on and reports the crash as the
# result. But the whole board can die as well, for example if it loses its power. Then its job has to be sent to another
# board. These are the rules:
#
# - a job is sent to an idle board with the right tag, and a board has only one job at a time;
# - if a board dies, its job goes back to the jobs that wait;
# - if *several* boards die during the same job, the job is probably the reason. Then the job is given up, and
#   `given up` is its result.
#
# Here is a small simulated farm of boards (lessons/farm.py). We arrange that two boards die while they work: the board
# that gets the third job and the board that gets the fifth job.


# %%
def dispatch(jobs: dict[str, str], farm: Farm) -> list[str]:
    """Send each job (name and tag) until it is done; returns a line for each thing that happens."""
    waiting, lines = list(jobs), []
    running: dict[str, str] = {}
    while waiting or running:
        for board in farm.idle():
            fitting = [job for job in waiting if jobs[job] == farm.tags[board]]
            if fitting:
                waiting.remove(fitting[0])
                running[board] = fitting[0]
                farm.send(board, fitting[0])
        kind, board, *_ = farm.wait()
        if kind in ("done", "died"):
            job = running.pop(board)
            lines.append(f"{board:<8} {kind:<5} {job}")
            if kind == "died":
                waiting.append(job)
    return lines


boards = {"pi-1": "pi", "pi-2": "pi", "phone": "phone"}
jobs = {f"tile {n}": "phone" if n % 3 == 0 else "pi" for n in range(9)}
farm = Farm(boards, faults=[2, 4])
happened = dispatch(jobs, farm)
predict("Nine jobs, and two boards die while they work. How many times was a job sent?", len(farm.sent))
print("\n".join(happened))
assert sorted(line.split(None, 2)[2] for line in happened if " done" in line) == sorted(jobs)

# %% [markdown]
# Two lines say `died`: the phone died during tile 0, and pi-2 died during tile 5. Both jobs were sent again, so there
# were 11 sends in all, and all nine jobs are done. (The third rule is still missing from `dispatch`. You will write it
# in the exercise.)

# %%
picture = Picture(460, 40 * len(boards) + 30)
colours = {"done": "#1f78b4", "died": "#e31a1c"}
for row, board in enumerate(boards):
    picture.words(8, 34 + 40 * row, board)
    for column in range(len(happened)):
        picture.box(70 + 34 * column, 18 + 40 * row, 32, 24, "#f2f2f2")
    for column, line in enumerate(happened):
        if line.startswith(board):
            picture.box(70 + 34 * column, 18 + 40 * row, 32, 24, colours[line.split()[1]])
            picture.words(86 + 34 * column, 34 + 40 * row, line.split()[-1], 11, "middle")
picture.words(
    8, 40 * len(boards) + 20, "time goes right; red: the board died, and its job is sent to another board", 11
)
print(picture.save("farm"))

# %% [markdown]
# ## A real farm
#
# For real boards, the library Dask distributed does this bookkeeping over network connections that are encrypted with
# TLS. Install it with `pip install 'minitvm[farm]'`. Then you start these commands:
#
#     dask scheduler                                            once, on any computer
#     minitvm worker tcp://desk:8786 --key farm.key             on each board
#     minitvm worker tcp://desk:8786 --key farm.key --list      list the workers and their targets
#     minitvm tune resnet18 --workers tcp://desk:8786 --key farm.key --target "..."
#
# `docs/tuning.md` explains each step.
#
# ## Your turn
#
# Write a function that sends jobs to a farm whose boards may die. It gives up a job that has killed several boards.
#
#     minitvm lesson 34 --start     (writes exercise_34.py, for you to fill in)
#     minitvm lesson 34 --check
