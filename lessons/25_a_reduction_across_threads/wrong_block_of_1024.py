"""Wrong: the tree is made for at most 1024 threads."""


def levels(n):
    tree = []
    for step in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512):
        if step < n:
            tree.append([(to, to + step) for to in range(0, n - step, 2 * step)])
    return tree
