"""Wrong: the barriers are as few as can be, but as early as can be."""


def races(a, b):
    return "write" in (a[0], b[0]) and any(x == y and i != j for i, x in enumerate(a[1]) for j, y in enumerate(b[1]))


def barriers(stages):
    placed, later = [], []
    for number in range(len(stages) - 1, -1, -1):
        if any(races(stages[number], s) for s in later):
            placed.append(number + 1)
            later = []
        later.append(stages[number])
    return placed[::-1]
