"""`minitvm lesson 03`: run a lesson; with --check, grade the learner's exercise.py."""

from __future__ import annotations

import argparse
import importlib.util
import runpy
import sys
import traceback
from pathlib import Path
from types import ModuleType
from typing import Any

from ..errors import InputError, MinitvmError


def register(commands: Any) -> None:
    parser = commands.add_parser("lesson", help="run a lesson or check its exercise", description=__doc__)
    parser.add_argument("number", nargs="?", help="its number, such as 03; without one, the list of all")
    parser.add_argument("--check", action="store_true", help="grade exercise.py instead of running the lesson")
    parser.add_argument("--file", metavar="PY", help="grade this file in place of exercise.py")
    parser.set_defaults(function=lesson)


def lessons_folder() -> Path:
    """The `lessons` folder of this checkout."""
    folder = Path(__file__).resolve().parents[2] / "lessons"
    if not folder.is_dir():
        raise InputError("the lessons come with a checkout of the project, and this is an installed package without it")
    return folder


def find(number: str) -> Path:
    """The folder of a lesson by its number ("3", "03") or name ("03_split_and_reorder")."""
    folders = sorted(p for p in lessons_folder().iterdir() if (p / "lesson.py").is_file())
    for folder in folders:
        if number == folder.name or (number.isdigit() and int(number) == int(folder.name.split("_")[0])):
            return folder
    raise InputError(f"no lesson {number}; there are: {', '.join(f.name for f in folders)}")


def lesson(options: argparse.Namespace) -> int:
    if options.number is None:
        for folder in sorted(p for p in lessons_folder().iterdir() if (p / "lesson.py").is_file()):
            print(f"{folder.name:<28} {title(folder)}")
        return 0
    folder = find(options.number)
    if options.check or options.file:
        return grade(folder, Path(options.file) if options.file else folder / "exercise.py")
    runpy.run_path(str(folder / "lesson.py"), run_name="__main__")
    return 0


def title(folder: Path) -> str:
    """The first Markdown heading of a lesson."""
    for line in (folder / "lesson.py").read_text(encoding="utf-8").splitlines():
        if line.startswith("# # "):
            return line[4:]
    return ""


def grade(folder: Path, answer: Path) -> int:
    """Run the lesson's checks on an answer; prints what failed, with the smallest counterexample found."""
    if not answer.is_file():
        raise InputError(f"no such file: {answer}")
    checks = load(folder / "check.py")
    try:
        checks.check(load(answer))
    except (AssertionError, NotImplementedError) as error:
        notes = "\n".join(getattr(error, "__notes__", ()))
        print(f"{folder.name}: not yet\n  {error or type(error).__name__}\n{notes}".rstrip())
        return 1
    except MinitvmError as error:
        print(f"{folder.name}: not yet\n  {error}")
        return 1
    except Exception as error:
        # A learner's mistake deserves the line in their own file, not the way through ours.
        frames = [f for f in traceback.extract_tb(error.__traceback__) if f.filename == str(answer)]
        spot = f" at {answer.name}:{frames[-1].lineno}: {frames[-1].line}" if frames else ""
        print(f"{folder.name}: not yet\n  {type(error).__name__}: {error}{spot}")
        return 1
    print(f"{folder.name}: passed")
    return 0


def load(path: Path) -> ModuleType:
    """A Python file as a fresh module."""
    name = f"minitvm_lesson_{path.parent.name}_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise InputError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # parsers of decorated functions look their source up by module
    spec.loader.exec_module(module)
    return module
