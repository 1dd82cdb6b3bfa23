"""What won is measured once more at the end, beside the untuned program: in the network where there is one.

Alone, an operator finds its arguments in other caches than in a network, and nobody waits for what it leaves in them.
So a build with the schedules that won and one without records run in turn, where candidates run (on this machine, on a
farm, on a device), with time stamps between their operators. That decides what later builds take. Where the network as
a whole became slower in both halves of the runs, nothing is taken: what one operator gained, others lost.

A function has no network, and some networks cannot be run here: cycles that are counted are the same everywhere, and
not every input can be made up. There each winner runs in turn with the untuned program itself. Until then it was
compared with the best before it, and the one of many that was lucky in its pair may have won.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..records.record import OK, REFUSED
from .builds import Build, Network, in_turn, without_gains_of_some
from .measure import MeasuredInNetwork, Measuring
from .search import Search


def confirm(searches: Sequence[Search], network: Network | None, runner: Measuring) -> str:
    """Run what won beside the untuned programs, and record what came of it.

    Returns why that was not done in the network, "" if it was or if there is none.
    """
    contenders = [search for search in searches if search.is_to_settle]
    if not contenders:
        return ""
    answer = MeasuredInNetwork(REFUSED)
    if network is not None and network.is_timed:
        answer = in_network(contenders, network, runner)
    if answer.outcome == OK:
        own, other = answer.groups
        beside = without_gains_of_some(own, other)
        for search in contenders:
            search.settle(own[search.task.key], beside[search.task.key])
    elif answer.outcome == REFUSED:
        for search in contenders:
            search.settle_alone()
    else:  # it crashed or hung with these schedules: no build should take them
        for search in contenders:
            search.settle([search.baseline] * 2, [search.baseline] * 2, answer.message)
    return answer.message


def in_network(contenders: Sequence[Search], network: Network, runner: Measuring) -> MeasuredInNetwork:
    """What the operators of these searches take in the network, with what won and without schedules of records."""
    names = {name: search.task.key for search in contenders for name in search.task.operators}
    builds = [Build(network.built(records), names) for records in (contenders[0].database.url, None)]
    return in_turn(builds, network.target, runner)
