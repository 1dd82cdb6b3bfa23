"""Exercise 33: a plane through a few points that does not trust them too much.

`x` and `y` are NumPy arrays of floats. `x` has a row for each point and a column for each feature, and `y` has a number
for each point. Write

    plane(x, y, penalty) -> (constant, weights)

It returns the number c and the vector w, with one weight for each feature, for which

    sum over the points of (y - c - x w)^2   +   penalty * sum of w^2

is as small as possible. The penalty is greater than 0. There is no penalty for the constant: if you add the same number
to all of `y`, only the constant changes. There may be fewer points than features, and there may be only one point. Do
not change `x` and `y`.

    plane(np.array([[0.0], [2.0]]), np.array([1.0, 5.0]), 2.0)   ->   (2.0, array([1.]))
        without the penalty: (1.0, array([2.])), through both points

Here is a hint: subtract the mean of each column from x, and the mean of y from y. For these data the best constant is
0, and you only have to solve a system of equations.

Check it with: minitvm lesson 33 --check
"""

from __future__ import annotations

import numpy as np


def plane(x: np.ndarray, y: np.ndarray, penalty: float) -> tuple[float, np.ndarray]:
    """The constant, and the weight of each feature."""
    raise NotImplementedError("plane(x, y, penalty): the text at the top describes the task")
