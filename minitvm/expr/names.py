"""Names in generated text: valid ones, and ones that nothing else has."""

from __future__ import annotations

import re


def identifier(wish: str) -> str:
    """A name close to a wish that Python and C take, keywords apart: ASCII letters, digits and underscores."""
    stem = re.sub(r"\W", "_", wish, flags=re.ASCII) or "v"
    return f"v{stem}" if stem[0].isdigit() else stem


def fresh(wish: str, used_names: set[str]) -> str:
    """The wish, or it with the first number behind it that makes a name which is not taken; now it is."""
    name, count = wish, 0
    while name in used_names:
        count += 1
        name = f"{wish}_{count}"
    used_names.add(name)
    return name
