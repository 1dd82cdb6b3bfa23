"""The entry of a schedule primitive as Markdown, made from the text that `minitvm explain` prints."""

from __future__ import annotations

import re


def entry(document: str) -> str:
    """Return a primitive's documentation: its signature, purpose and example as text, and the rest as Markdown."""
    example = re.search(r"^(?:before|call):(?:.*\n?)(?:(?:after:|call:.*| .*|)(?:\n|\Z))*", document, re.MULTILINE)
    summary = re.match(r"[^\n]*\n\n(?:[^\n]+(?:\n|\Z))*", document)
    assert summary is not None  # each primitive has a docstring
    end = example.end() if example else summary.end()
    return f"```text\n{document[:end].rstrip()}\n```\n\n{prose(document[end:])}".rstrip("\n") + "\n"


def prose(text: str) -> str:
    """Return a part of the documentation as Markdown: requirements as a list, and programs as code."""
    parts = []
    for part in re.split(r"\n{2,}", text.strip("\n")):
        title, _, conditions = part.partition("\n")
        if title == "Legal when:":
            named = re.sub(r"\n {3,}refused: ", "\n  - refused: ", conditions)
            named = re.sub(r"\n {3,}", " ", named)
            parts.append("Legal when:\n\n" + re.sub(r"(?m)^  (\w+): ", r"- **\1**: ", escaped(named)))
        elif part.startswith("    "):
            parts.append(f"```python\n{dedented(part)}\n```")
        else:
            parts.append(escaped(part))
    return "\n\n".join(parts)


def escaped(text: str) -> str:
    """Return text without special characters of Markdown; code between backticks does not change."""
    special = r"(\*|\b_|_\b|<(?=\w)|\[)"
    parts = text.split("`")
    return "`".join(re.sub(special, r"\\\1", part) if k % 2 == 0 else part for k, part in enumerate(parts))


def dedented(text: str) -> str:
    """Return a program of a docstring without the indentation of its lines."""
    return "\n".join(line.removeprefix("    ") for line in text.rstrip().split("\n"))
