"""Lessons as executed notebooks: each cell runs in this process, and its output and its pictures are kept."""

from __future__ import annotations

import ast
import io
import os
import re
import sys
import tempfile
import textwrap
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

from minitvm.tools.cli.lesson_about import About, about, end, head

if TYPE_CHECKING:
    from nbformat import NotebookNode

LESSONS = Path(__file__).resolve().parent.parent.parent / "lessons"
_EXPLORED = """## The schedules, step by step

Choose a step to see the program after it, the lines that changed, and its cost before and after.

<iframe class="explored" src="{page}" title="The schedules of this lesson, step by step" loading="lazy"></iframe>

<a href="{page}">The same in a page of its own</a>; `minitvm explore` makes such a page for your schedule."""
LONGEST = 400  # lines of one output; a longer one is cut where a line ends


def lessons() -> list[Path]:
    """The folders of all lessons, in order."""
    return sorted(path for path in LESSONS.iterdir() if (path / "lesson.py").is_file())


def lesson(folder: Path, prose: Callable[[str], str], executed: bool = True, explored: str = "") -> str:
    """The notebook of a lesson as JSON, with what its cells print and draw if it is `executed`.

    `prose` changes the text of a cell of Markdown. `explored` is the address of the explorer's page of the lesson's
    schedules, which is shown at the end.
    """
    import jupytext
    import nbformat
    from nbformat import v4

    notebook = jupytext.reads((folder / "lesson.py").read_text(encoding="utf-8"), fmt="py:percent")
    number = folder.name.split("_")[0]
    title, _, rest = notebook.cells[0].source.partition("\n")
    facts = about(folder)
    notebook.cells[0].source = f"# {number}. {title.removeprefix('# ')}\n\n{opening(folder, facts)}\n{rest}"
    if explored:
        notebook.cells.append(v4.new_markdown_cell(_EXPLORED.format(page=explored)))
    notebook.cells.append(v4.new_markdown_cell(closing(facts)))
    for cell in notebook.cells:
        if cell.cell_type == "markdown":
            cell.source = prose(cell.source)
        elif "open_lessons()" in cell.source:
            cell.metadata["tags"] = ["hide-input"]
    _ask_first(notebook)
    notebook.metadata["kernelspec"] = {"name": "python3", "display_name": "Python 3", "language": "python"}
    if executed:
        with tempfile.TemporaryDirectory(prefix="minitvm-pictures-") as pictures, _environment(Path(pictures)):
            _run(notebook, folder, Path(pictures))
    for k, cell in enumerate(notebook.cells):
        cell["id"] = f"cell-{k}"  # the same each time
    return str(nbformat.writes(notebook))


def opening(folder: Path, facts: About) -> str:
    """The head of a lesson's page: minutes, what comes first, its words, and how to get it as a notebook."""
    lines = [head(facts)]
    if facts.needs:
        names = {path.name.split("_")[0]: path.name for path in lessons()}
        first = ", ".join(f"[{number}](../{names[number]}/lesson.py)" for number in facts.needs)
        lines.append(f"Before this one: {first}.")
    words = ", ".join(f'<a href="../glossary.html#{slug(term)}">{term}</a>' for term in facts.terms)
    lines.append(f"Words: {words}.")
    number = folder.name.split("_")[0]
    download = f"{{download}}`This lesson as a notebook <{folder.name}.ipynb>`, or `minitvm lesson {number}`"
    return "\n".join([lines[0], "", " ".join([*lines[1:], f"{download} in a terminal."]), ""])


def closing(facts: About) -> str:
    """The end of a lesson's page: hints, each folded, the explanation of the solution, and the summary."""
    parts = ["## Hints", ""]
    for number, hint in enumerate(facts.hints, 1):
        parts += [f":::{{dropdown}} Hint {number} of {len(facts.hints)}", hint, ":::", ""]
    parts += [":::{dropdown} Why the solution is right (after yours has passed)", facts.explanation, ":::", ""]
    return "\n".join([*parts, end(facts)])


def slug(term: str) -> str:
    """The anchor of a word in the glossary."""
    return "term-" + term.replace(" ", "-")


def glossary(page: str) -> str:
    """The glossary with an anchor at each of its words, which lessons link to."""
    return re.sub(
        r"(?m)^\| ([\w -]+) \|(?! meaning \|)", lambda row: f'| <span id="{slug(row[1])}">{row[1]}</span> |', page
    )


@contextmanager
def _environment(pictures: Path) -> Iterator[None]:
    """A lesson runs in an empty folder, with the path and the variables of a program of its own."""
    before, folder, path = dict(os.environ), Path.cwd(), list(sys.path)
    os.environ["MINITVM_PICTURES"] = str(pictures)
    try:
        with tempfile.TemporaryDirectory(prefix="minitvm-lesson-") as empty:
            os.chdir(empty)
            yield
            os.chdir(folder)
    finally:
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(before)
        sys.path[:] = path


def _run(notebook: NotebookNode, folder: Path, pictures: Path) -> None:
    from nbformat import v4

    names: dict[str, Any] = {"__name__": "__main__", "__file__": str(folder / "lesson.py")}
    shown: set[Path] = set()
    count = 0
    for cell in notebook.cells:
        if cell.cell_type != "code":
            continue
        count += 1
        cell.execution_count = count
        printed = io.StringIO()
        value = None
        try:
            with redirect_stdout(printed):
                value = _execute(cell.source, names, f"{folder.name}, cell {count}")
        except Exception:
            raise SystemExit(f"{folder.name}, cell {count}:\n{cell.source}\n{traceback.format_exc()}") from None
        text = re.sub(rf"^.*{re.escape(str(pictures))}.*\n", "", printed.getvalue(), flags=re.MULTILINE)
        for question in questions(cell.source):  # a note above the cell has it
            text = text.replace(f"{textwrap.fill(f'Predict first: {question}', 110)}\n", "")
        lines = text.split("\n")
        if len(lines) > LONGEST:
            text = "\n".join([*lines[:LONGEST], f"... and {len(lines) - LONGEST} lines more", ""])
        if text:
            cell.outputs.append(v4.new_output("stream", name="stdout", text=text))
        drawn = [path.read_text(encoding="utf-8") for path in sorted(set(pictures.glob("*.svg")) - shown)]
        shown |= set(pictures.glob("*.svg"))
        if hasattr(value, "_repr_svg_"):
            drawn.append(value._repr_svg_())
        elif hasattr(value, "_repr_html_"):
            cell.outputs.append(v4.new_output("display_data", {"text/html": value._repr_html_()}))
        cell.outputs += [v4.new_output("display_data", {"image/svg+xml": svg}) for svg in drawn]


def questions(source: str) -> list[str]:
    """The questions that a cell asks with `predict("...", answer)`."""
    calls = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call))
    return [
        str(call.args[0].value)
        for call in calls
        if isinstance(call.func, ast.Name) and call.func.id == "predict" and isinstance(call.args[0], ast.Constant)
    ]


def _ask_first(notebook: NotebookNode) -> None:
    """Put a note above each cell that asks a question, so that the reader guesses before the number is in view."""
    from nbformat import v4

    for at in range(len(notebook.cells) - 1, -1, -1):
        if notebook.cells[at].cell_type == "code":
            for question in reversed(questions(notebook.cells[at].source)):
                note = f":::{{admonition}} Predict first\n:class: tip\n{question}\n:::"
                notebook.cells.insert(at, v4.new_markdown_cell(note))


def _execute(source: str, names: dict[str, Any], where: str) -> Any:
    """Run a cell; the value of its last line if that is an expression, as a notebook shows it."""
    import linecache

    tree = ast.parse(source)
    # Tracebacks and `inspect.getsource` read the cell.
    linecache.cache[where] = (len(source), None, source.splitlines(keepends=True), where)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, where, "exec"), names)
    return eval(compile(ast.Expression(last.value), where, "eval"), names) if isinstance(last, ast.Expr) else None
