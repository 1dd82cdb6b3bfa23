"""Measure the winners once more at the end, in turn with the untuned program; in the network if there is one.

An operator that runs alone finds its arguments in other caches than it does in a network, and no later operator needs
its results there. So two builds of the network run in turn where candidates run (on this machine, on a farm, on a
device), with time stamps between their operators: one with the schedules that won and one without records. The result
decides which schedules later builds use. If the network as a whole became slower in both halves of the runs, they use
none of them: one operator gained what others lost.

A single function has no network, and some networks cannot be run here: a target that counts cycles gives the same
counts in any network, and some inputs cannot be made up. Then each winner runs in turn with the untuned program. Until
then it was only compared with the previous best, so a candidate may have won because it was lucky in its pair.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..records.record import OK, REFUSED
from .builds import Build, Network, in_turn, without_gains_of_some
from .measure import MeasuredInNetwork, Measuring
from .search import Search


def confirm(searches: Sequence[Search], network: Network | None, runner: Measuring) -> str:
    """Run the winners in turn with the untuned programs, and record the results.

    Return the reason why this was not done in the network; "" if it was, or if there is no network.
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
    """Measure the operators of these searches in the network: with the schedules that won, and without records."""
    names = {name: search.task.key for search in contenders for name in search.task.operators}
    builds = [Build(network.built(records), names) for records in (contenders[0].database.url, None)]
    return in_turn(builds, network.target, runner)
