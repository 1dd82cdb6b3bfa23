"""Wrong: knows only what this instruction's own module has waited for itself."""

from __future__ import annotations

Instruction = tuple[str, set[str], set[str]]

NEIGHBOURS = {"load": ["compute"], "compute": ["load", "store"], "store": ["compute"]}


def conflict(a: Instruction, b: Instruction) -> bool:
    """Whether two instructions touch one place, and one of them writes it."""
    return bool(a[2] & (b[1] | b[2]) or a[1] & b[2])


def tokens(program: list[Instruction]) -> list[tuple[int, int]]:
    """The pairs (instruction that pushes, instruction that pops)."""
    pairs: list[tuple[int, int]] = []
    before: list[set[int]] = []  # for each instruction, those that have ended when it begins
    for number, one in enumerate(program):
        known: set[int] = set()
        for earlier in range(number):
            if program[earlier][0] == one[0]:
                known |= before[earlier] | {earlier}
        wanted = []
        for neighbour in NEIGHBOURS[one[0]]:
            found = [i for i in range(number) if program[i][0] == neighbour and conflict(program[i], one)]
            if found and found[-1] not in known:
                wanted.append(found[-1])
        for a in wanted:
            if not any(a in before[b] for b in wanted):
                pairs.append((a, number))
                known |= {a}
        before.append(known)
    return pairs
