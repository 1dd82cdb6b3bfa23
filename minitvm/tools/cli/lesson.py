"""`minitvm lesson 03`: run a lesson, or check your answer to its exercise.

    minitvm lesson                   the list of lessons, and how far you are
    minitvm lesson 03 --step         run it, and wait for Enter after each piece of code
    minitvm lesson 03 --start        copy its exercise into this folder
    minitvm lesson 03 --check        grade your answer
    minitvm lesson 03 --hint         the next of three hints; --hint 2 shows the second one
    minitvm lesson 03 --solution     the solution with its explanation, once your answer has passed

A lesson is a folder `lessons/NN_name` with these files:

    lesson.py      percent cells: a notebook, a script and a text in one; its first heading `# # Title` is the title
    lesson.toml    minutes, what comes first, hints, the explanation of the solution, a summary
    exercise.py    the part that the learner completes; --start copies it into the current folder, as exercise_NN.py
    solution.py    one way to complete it
    wrong_*.py     plausible mistakes, each of which the check must catch
    schedule.py    in some lessons, its schedules for `minitvm explore`
    check.py       `check(module)`: AssertionError with a small counterexample, NotImplementedError for a stub
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import sys
import textwrap
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

from ...errors import InputError, MinitvmError, MissingExtra
from .lesson_about import about, end, head
from .lesson_progress import hints_seen, name_of, progress, remember
from .options import Commands
from .time_limit import TimeUp, time_limit

SECONDS = 30.0  # of computing, at most, for a check; right answers need two or three


def register(commands: Commands) -> None:
    parser = commands.add_parser(
        "lesson",
        help="run a lesson or check its exercise",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("number", nargs="?", help="its number, such as 03; without one, the list of all")
    parser.add_argument("--check", action="store_true", help="check your exercise_NN.py instead of running the lesson")
    parser.add_argument("--start", action="store_true", help="copy its exercise into this folder, as exercise_NN.py")
    parser.add_argument("--step", action="store_true", help="wait for Enter after each piece of code")
    parser.add_argument("--hint", nargs="?", const=0, type=int, metavar="N", help="show the next hint, or hint N")
    parser.add_argument("--solution", action="store_true", help="show the solution, once you have passed")
    parser.add_argument("--anyway", action="store_true", help="with --solution: show it even if you have not passed")
    parser.add_argument("--file", metavar="PY", help="grade this file in place of exercise_NN.py or exercise.py")
    parser.set_defaults(function=lesson)


def lessons_folder() -> Path:
    """The `lessons` folder: the checkout's, through a link, or the package's own copy."""
    return (Path(__file__).parents[2] / "lessons").resolve()


def open_lessons() -> None:
    """Make `from lessons.ledger import ...` work in a script, in a notebook, and in this command."""
    if "lessons" not in sys.modules:
        package = sys.modules["lessons"] = ModuleType("lessons")
        package.__path__ = [str(lessons_folder())]


def folders() -> list[Path]:
    """The folders of all lessons, in order."""
    return sorted(p for p in lessons_folder().iterdir() if (p / "lesson.py").is_file())


def find(number: str) -> Path:
    """The folder of a lesson by its number ("3", "03") or name ("split_and_reorder", "03_split_and_reorder")."""
    for folder in folders():
        if number in (folder.name, name_of(folder)) or (number.isdigit() and int(number) == int(number_of(folder))):
            return folder
    raise InputError(f"no lesson {number}; there are: {', '.join(f.name for f in folders())}")


def lesson(options: argparse.Namespace) -> int:
    if options.number is None:
        if options.check or options.file or options.start or options.solution or options.hint is not None:
            raise InputError("which lesson?\n  try:    minitvm lesson 00 --check")
        return list_lessons()
    folder = find(options.number)
    if options.start:
        return start(folder)
    if options.hint is not None:
        return hint(folder, options.hint)
    if options.solution:
        return solution(folder, options.anyway)
    if options.check or options.file:
        return grade(folder, Path(options.file) if options.file else exercise(folder))
    read_and_run(folder / "lesson.py", step=options.step)
    return 0


def number_of(folder: Path) -> str:
    """The number of a lesson, such as "03"."""
    return folder.name.split("_")[0]


def list_lessons() -> int:
    """Print a line for each lesson: passed, read or neither; its name, minutes and title."""
    states = {folder: progress(folder) for folder in folders()}
    for folder, state in states.items():
        mark = "passed" if state.get("passed") else "read" if state.get("read") else ""
        print(f"{mark:<7}{folder.name:<30}{about(folder).minutes:>3} min  {title(folder)}")
    if passed := sum(bool(state.get("passed")) for state in states.values()):
        print(f"\n{passed} of {len(states)} passed")
    return 0


def hint(folder: Path, wanted: int) -> int:
    """Show hint number `wanted`; 0 is the first one that was not shown yet, or the last one again."""
    number, hints = number_of(folder), about(folder).hints
    if not 0 <= wanted <= len(hints):
        raise InputError(f"lesson {number} has hints 1 to {len(hints)}, not {wanted}")
    shown = wanted or min(hints_seen(folder) + 1, len(hints))
    remember(folder, hints=max(shown, hints_seen(folder)))
    _show_text(textwrap.fill(f"**Hint {shown} of {len(hints)}.** {hints[shown - 1]}", 100))
    further = f"--hint {shown + 1}" if shown < len(hints) else "--solution"
    print(f"\nfor more: minitvm lesson {number} {further}")
    return 0


def solution(folder: Path, anyway: bool) -> int:
    """Show the solution of an exercise with its explanation if the learner's answer has passed, or `anyway`."""
    number, own = number_of(folder), exercise(folder)
    passed = progress(folder).get("passed") or (own.parent != folder and failure_of(folder, own) is None)
    if not (passed or anyway):
        print(f"You will get more out of it once your own answer has passed: minitvm lesson {number} --check")
        print(f"A hint: minitvm lesson {number} --hint")
        print(f"To see the solution now: minitvm lesson {number} --solution --anyway")
        return 1
    _show_code((folder / "solution.py").read_text(encoding="utf-8").strip("\n"))
    _show_text(about(folder).explanation)
    return 0


def exercise(folder: Path) -> Path:
    """The learner's answer: `exercise_NN.py` in the current folder, as --start makes it, or the lesson's own file."""
    own = Path(f"exercise_{number_of(folder)}.py")
    return own if own.is_file() else folder / "exercise.py"


def start(folder: Path) -> int:
    """Copy a lesson's exercise into the current folder, with the files that it tells you to use; overwrite nothing."""
    number = number_of(folder)
    own = {"lesson.py", "exercise.py", "solution.py", "check.py", "schedule.py"}
    extras = [path for path in sorted(folder.glob("*.py")) if path.name not in own and not path.match("wrong_*.py")]
    copies = {Path(f"exercise_{number}.py"): folder / "exercise.py", **{Path(path.name): path for path in extras}}
    for copy in copies:
        if copy.exists():
            text = f"{copy} is there already: nothing was changed\n  try:    minitvm lesson {number} --check"
            raise InputError(text)
    for copy, source in copies.items():
        with copy.open("x", encoding="utf-8") as file:
            file.write(source.read_text(encoding="utf-8"))
    exercise_file, *others = map(str, copies)
    beside = f" ({', '.join(others)} came with it)" if others else ""
    print(f"{exercise_file} is yours to fill in; its text describes the task{beside}")
    print(f"then: minitvm lesson {number} --check")
    return 0


def cells(text: str) -> list[tuple[int, bool, str]]:
    """The cells of a file in percent format: (first line number, is it Markdown?, source with its comment signs)."""
    cells: list[tuple[int, bool, str]] = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.startswith("# %%"):
            cells.append((number + 1, "[markdown]" in line, ""))
        elif cells:
            first, is_markdown, body = cells[-1]
            cells[-1] = (first, is_markdown, body + line + "\n")
    return cells


def read_and_run(path: Path, step: bool = False) -> None:
    """Show a lesson as in a notebook, cell by cell: text, code, and the output of the code as soon as it is there.

    Its head and its end come from `lesson.toml`. With `step` it waits for Enter after each piece of code. Run as a
    script, a lesson prints only the outputs.
    """
    facts = about(path.parent)
    open_lessons()
    questions: Any = importlib.import_module("lessons.predict")
    name = f"minitvm_lesson_{path.parent.name}_lesson"
    module = ModuleType(name)
    module.__file__ = str(path)
    sys.modules[name] = module  # parsers of decorated functions look their source up by module
    parts = cells(path.read_text(encoding="utf-8"))
    for at, (first, is_markdown, body) in enumerate(parts):
        if is_markdown:
            text = "\n".join(line.removeprefix("#").removeprefix(" ") for line in body.strip("\n").splitlines())
            _show_text(text if at else with_head(text, head(facts)))
        else:
            _show_code(body.strip("\n"))
            questions.ASKING = step
            try:
                # Blank lines at the beginning preserve the line numbers of the file.
                exec(compile("\n" * (first - 1) + body, str(path), "exec"), module.__dict__)
            finally:
                questions.ASKING = False  # a lesson that runs as a script in this process asks nothing
        print(flush=True)
        if step and not is_markdown and at + 1 < len(parts) and not _goes_on():
            return
    _show_text(end(facts))
    remember(path.parent, read=True)


def with_head(text: str, line: str) -> str:
    """The first text of a lesson with a line below its title."""
    heading, _, rest = text.partition("\n")
    return f"{heading}\n\n{line}\n{rest}"


def _goes_on() -> bool:
    """Whether the reader presses Enter; `q` ends the lesson, as does the end of the input."""
    try:
        return input("-- Enter goes on, q ends --\n").strip() != "q"
    except EOFError:
        return False


def _show_text(text: str) -> None:
    if not sys.stdout.isatty():
        print(text)
        return
    from rich.console import Console
    from rich.markdown import Markdown

    console = Console()
    console.print(Markdown(text), width=min(console.width, 100))


def _show_code(code: str) -> None:
    """The code with a bar at its left, to distinguish it from its output."""
    if not sys.stdout.isatty():
        print("\n".join(f"  | {line}".rstrip() for line in code.splitlines()), end="\n\n", flush=True)
        return
    from rich.console import Console
    from rich.syntax import Syntax

    syntax = Syntax("", "python", theme="ansi_dark", background_color="default")
    lines = syntax.highlight(code).split("\n")
    console = Console()
    for line in lines[:-1] if not lines[-1].plain else lines:
        console.print("[dim]  │[/dim] ", line, sep="", soft_wrap=True)
    console.print()


def title(folder: Path) -> str:
    """The first Markdown heading of a lesson."""
    for line in (folder / "lesson.py").read_text(encoding="utf-8").splitlines():
        if line.startswith("# # "):
            return line[4:]
    return ""


def grade(folder: Path, answer: Path) -> int:
    """Run the lesson's checks on an answer; prints the failure, with the smallest counterexample found."""
    if not answer.is_file():
        raise InputError(f"no such file: {answer}")
    failure = failure_of(folder, answer)
    if failure is None:
        print(f"{folder.name}: passed")
        if answer.resolve() != folder / "solution.py":
            remember(folder, passed=True)
            print(f"the solution, with its explanation: minitvm lesson {number_of(folder)} --solution")
        following = next((f for f in folders() if f.name > folder.name), None)
        if following is not None:
            print(f"next: minitvm lesson {number_of(following)}, {title(following)}")
        return 0
    print(f"{folder.name}: not yet")
    print("\n".join(f"  {line}".rstrip() for line in failure.splitlines()))
    return 1


def failure_of(folder: Path, answer: Path, seconds: float = SECONDS) -> str | None:
    """The fault of an answer, in words; None if it passes. `seconds` is the limit of its computing time."""
    open_lessons()
    _refuse_another_exercise(folder, answer)
    answer = answer.resolve()  # as in tracebacks
    checks = load(folder / "check.py")
    try:
        with time_limit(seconds):
            checks.check(load(answer))
    except TimeUp as error:
        own = _own_line(error, answer)
        return f"no end after {seconds:g} seconds of computing{own and ', last at'}{own}\na loop that never ends?"
    except MissingExtra:
        raise
    except ModuleNotFoundError as error:
        raise InputError(_with_spot(error, answer)) from None
    except (Exception, SystemExit) as error:
        return _in_words(error, answer)
    return None


def _refuse_another_exercise(folder: Path, answer: Path) -> None:
    """Raise `InputError` if a file has the text of another lesson's exercise. Lessons may have got new numbers."""
    task = _task(answer)
    if task and task != _task(folder / "exercise.py"):
        for other in folders():
            if task == _task(other / "exercise.py"):
                raise InputError(
                    f"{answer.name} is an answer to the exercise of lesson {number_of(other)}, {task}\n"
                    f"  try:    minitvm lesson {number_of(other)} --file {answer}"
                )


def _task(path: Path) -> str:
    """The title in the first line of an exercise, without its number; "" for any other text."""
    first = path.read_text(encoding="utf-8", errors="replace").partition("\n")[0]
    return first.partition(": ")[2] if first.startswith('"""Exercise ') else ""


def reasons_of(folder: Path, answer: Path, seconds: float = SECONDS) -> tuple[dict[str, str | None], str]:
    """The verdict on each property that a check tries, and what else is wrong with an answer.

    The dictionary has the name of each property and its counterexample, or None if the property holds. The text says
    what else is wrong, such as a syntax error; it is empty if a property fails, which says enough.
    """
    open_lessons()
    from lessons.grading import every_case

    with every_case() as verdicts:
        try:
            failure = failure_of(folder, answer, seconds)
        except (InputError, MissingExtra) as error:
            failure = str(error)
    answer = answer.resolve()
    tests = {name: None if error is None else _in_words(error, answer) for name, error in verdicts.items()}
    return tests, "" if any(tests.values()) else failure or ""


def _in_words(error: BaseException, answer: Path) -> str:
    if isinstance(error, AssertionError | MinitvmError):
        return str(error) or _with_spot(error, answer)
    if isinstance(error, NotImplementedError):
        return f"still to be written: {error}" if str(error) else _with_spot(error, answer)
    if isinstance(error, AttributeError) and isinstance(error.obj, ModuleType) and error.obj.__file__ == str(answer):
        return f"{answer.name} has no {error.name}"
    return _with_spot(error, answer)


def _with_spot(error: BaseException, answer: Path) -> str:
    # For a learner's mistake, show the line in their own file, not the calls inside this package.
    if isinstance(error, SyntaxError):
        return f"{answer.name}:{error.lineno}: {error.msg}: {(error.text or '').strip()}"
    # Python quotes the text of a KeyError, whose lines would run into each other.
    said = error.args[0] if isinstance(error, KeyError) and error.args else error
    return f"{type(error).__name__}: {said}{_own_line(error, answer)}"


def _own_line(error: BaseException, answer: Path) -> str:
    own = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == str(answer)]
    return f"\n{answer.name}:{own[-1].lineno}: {own[-1].line}" if own else ""


def load(path: Path) -> ModuleType:
    """A Python file as a fresh module."""
    name = f"minitvm_lesson_{path.resolve().parent.name}_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise InputError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # parsers of decorated functions look their source up by module
    spec.loader.exec_module(module)
    return module
