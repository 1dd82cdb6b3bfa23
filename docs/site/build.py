"""Build the site: `make site`, or `python docs/site/build.py OUT [--lessons 00,03]`.

The site is the project's own pages, its lessons as executed notebooks, and its public names. Nothing is written twice:
this program copies the pages into a folder for Sphinx and changes only their links. A link to a page of the site stays;
one to another file of the project becomes its name. A warning of Sphinx is an error.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from functools import partial
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path[:0] = [str(ROOT), str(HERE), str(HERE.parent)]

import entries  # noqa: E402
import notebooks  # noqa: E402

from minitvm.target import Target  # noqa: E402
from minitvm.tools.cli.explore import static_page  # noqa: E402

# The parts of the site with their pages in order; a page is a path of the project. The lessons are a part of their own.
PARTS: dict[str, tuple[str, ...]] = {
    "Use": (
        "docs/using.md", "docs/torch.md", "docs/tflite.md", "docs/language-models.md", "docs/cuda.md",
        "docs/opencl.md", "docs/accel.md", "docs/tuning.md", "docs/artifacts.md", "docs/deploy.md", "docs/browser.md",
        "docs/environment.md", "docs/benchmarks.md",
    ),
    "Understand": (
        "docs/levels.md", "docs/book.md", "docs/architecture.md", "docs/semantics.md", "docs/oracle.md",
        "docs/glossary.md",
    ),
    "Extend": (
        "CONTRIBUTING.md", "docs/howto/operator.md", "docs/howto/kernel.md", "docs/howto/primitive.md",
        "docs/howto/rule.md", "docs/howto/pass.md", "docs/howto/instruction.md", "docs/howto/language.md",
        "docs/howto/back_end.md", "docs/howto/accelerator.md", "docs/howto/engine.md",
        "docs/howto/mode.md",
    ),
    "Teach": ("docs/course.md",),
    "Look up": (
        "docs/primitives.md", "docs/api.md", "docs/devices.md", "docs/coverage.md", "docs/tvm.md", "CHANGELOG.md",
    ),
}  # fmt: skip
# The public names of the reference, by their modules.
API = {
    "minitvm": ("build", "lower", "from_tflite", "from_torch", "quantize"),
    "minitvm.graph": ("GraphBuilder", "Graph"),
    "minitvm.te": ("placeholder", "compute", "reduce_axis", "create_prim_func"),
    "minitvm.tir": ("Schedule", "PrimFunc", "IRModule"),
    "minitvm.reference": ("check", "Verdict"),
    "minitvm.runtime": ("GraphModule", "Function", "load"),
    "minitvm.target": ("Target",),
    "minitvm.tune": ("tune", "tune_func"),
    "minitvm.errors": ("MinitvmError", "ScheduleError", "InputError", "Unsupported"),
}
# The course's slides, each a presentation in the site's folder `slides`.
SLIDES = tuple(sorted((ROOT / "docs" / "course" / "slides").glob("*.md")))
_LINK = re.compile(r"(!?)\[((?:[^\[\]]|\[[^\]]*\])*)\]\(([^)\s]+)\)")
_FENCE = re.compile(r"^(?:```.*?^```|    .*?$)", re.DOTALL | re.MULTILINE)


def place(page: str) -> str:
    """Where a page of the project is in the site: `docs/howto/pass.md` is howto/pass.md, README.md is index.md."""
    return {"README.md": "index.md", "lessons/README.md": "lessons/index.md"}.get(page, page.removeprefix("docs/"))


def pages() -> dict[str, str]:
    """Each page of the project that the site has, and its place; a lesson's is a notebook."""
    listed = ["README.md", "lessons/README.md", *(page for part in PARTS.values() for page in part)]
    lessons = {f"lessons/{folder.name}/lesson.py": f"lessons/{folder.name}.ipynb" for folder in notebooks.lessons()}
    return {page: place(page) for page in listed if page != "docs/api.md"} | lessons


def linked(text: str, page: str, places: dict[str, str], images: set[Path]) -> str:
    """A page whose links lead to places of the site; `images` gets the pictures that it shows."""
    here, there = (ROOT / page).parent, Path(places[page]).parent

    def link(match: re.Match[str]) -> str:
        mark, words, address = match.groups()
        path, _, anchor = address.partition("#")
        if address.startswith("https://"):
            return "" if mark else match[0]  # a badge says nothing on the site
        if not path:
            return match[0]
        target = os.path.relpath((here / path).resolve(), ROOT)
        if mark:
            images.add(ROOT / target)
            return f"![{words}]({os.path.relpath(Path('pictures') / Path(path).name, there)})"
        if ROOT / target in SLIDES:
            address = os.path.relpath(Path("slides") / Path(target).with_suffix(".html").name, there)
            return f'<a href="{address}">{words}</a>'
        if target == "docs/README.md":
            target = "README.md"
        if target in places:
            return f"[{words}]({os.path.relpath(places[target], there)}{'#' + anchor if anchor else ''})"
        return words

    def outside(prose: str) -> str:
        return _LINK.sub(link, prose)

    parts, at = [], 0
    for block in _FENCE.finditer(text):
        parts += [outside(text[at : block.start()]), block[0]]
        at = block.end()
    return "".join([*parts, outside(text[at:])])


def side_by_side(page: str) -> str:
    """The page of primitives with each program before and after in two columns."""

    def columns(match: re.Match[str]) -> str:
        head, _, example = match[1].partition("\nbefore:\n")
        before, called, rest = example.partition("\ncall: ")
        call, _, after = rest.partition("\nafter:\n")
        if not called:
            return match[0]
        cards = "".join(
            f":::{{grid-item-card}} {title}\n```python\n{entries.dedented(program)}\n```\n:::\n"
            for title, program in (("before", before), ("after", after))
        )
        signature, _, purpose = head.partition("\n")
        purpose = entries.prose(purpose)
        return f"```python\n{signature}\n```\n\n{purpose}\n\nCall: {call}\n\n::::{{grid}} 1 1 2 2\n{cards}::::\n"

    return re.sub(r"```text\n(.*?)```\n", columns, page, flags=re.DOTALL)


def api_page() -> str:
    """The reference of the public names, for autodoc."""
    lines = [
        "# Public names",
        "",
        "The docstrings of the names that programs use. Other modules are the compiler's own.",
        "",
    ]
    for module, names in API.items():
        lines += [f"## `{module}`", "", "```{eval-rst}", f".. currentmodule:: {module}", ""]
        for name in names:
            value = getattr(__import__(module, fromlist=[name]), name)
            kind = "autoclass" if isinstance(value, type) else "autofunction"
            members = "   :members:\n" if isinstance(value, type) and not issubclass(value, Exception) else ""
            lines += [f".. {kind}:: {name}", members]
        lines += ["```", ""]
    return "\n".join(lines)


def toc(entries: Iterable[str], caption: str = "") -> str:
    """A part of the site's contents."""
    options = [f":caption: {caption}"] * bool(caption) + [":hidden:", ""]
    listed = [str(Path(entry).with_suffix("")) for entry in entries]
    return "\n".join(["", "```{toctree}", *options, *listed, "```", ""])


def part_place(part: str) -> str:
    """Where the page of a part of the site is: "Look up" is look_up.md."""
    return f"{part.lower().replace(' ', '_')}.md"


def part_page(part: str, listed: Iterable[str]) -> str:
    """A part's pages as a list, each with its title."""
    entries = [place(page) for page in listed]
    return f"# {part}\n\n" + "".join(f"- [](/{entry})\n" for entry in entries) + toc(entries)


def stage(source: Path, numbers: set[str] | None) -> None:
    """Write the folder that Sphinx reads. `numbers` are the lessons to execute; None for all of them."""
    places, images = pages(), set[Path]()
    for name in ("conf.py", "_static"):
        copy = shutil.copytree if (HERE / name).is_dir() else shutil.copy
        copy(HERE / name, source / name)
    (source / "_extra").mkdir()
    for page, target in places.items():
        if target.endswith(".ipynb"):
            continue
        text = linked((ROOT / page).read_text(encoding="utf-8"), page, places, images)
        if page == "README.md":
            text += toc(["lessons/index", *map(part_place, PARTS)])
        elif page == "lessons/README.md":
            text += toc([Path(place).name for place in places.values() if place.endswith(".ipynb")], "Lessons")
        elif page == "docs/primitives.md":
            text = side_by_side(text)
        elif page == "docs/glossary.md":
            text = notebooks.glossary(text)
        _write(source / target, text)
    _write(source / "api.md", api_page())
    for part, listed in PARTS.items():
        _write(source / part_place(part), part_page(part, listed))
    for folder in notebooks.lessons():
        page = f"lessons/{folder.name}/lesson.py"
        prose = partial(linked, page=page, places=places, images=images)
        executed = numbers is None or folder.name.split("_")[0] in numbers
        explored = f"{folder.name}.html" if executed and (folder / "schedule.py").is_file() else None
        address = f"../explored/{explored}" if explored else ""
        _write(source / places[page], notebooks.lesson(folder, prose, executed, address))
        if explored:
            title = f"Lesson {folder.name.split('_')[0]}: its schedules"
            page_of_steps = static_page(folder / "schedule.py", Target("cpu"), title)
            _write(source / "_extra" / "explored" / explored, page_of_steps)
    for image in images:
        (source / "pictures").mkdir(exist_ok=True)
        shutil.copy(image, source / "pictures" / image.name)


def slides(out: Path) -> int:
    """Build the presentations of the course; the status of Sphinx, which runs in a process of its own.

    In one process the extensions of the site would be registered for the slides, too.
    """
    with tempfile.TemporaryDirectory(prefix="minitvm-slides-") as folder:
        source = Path(folder)
        for deck in SLIDES:
            shutil.copy(deck, source)
        # Sphinx wants a first page; the site's page of the course has the links.
        _write(source / "index.md", "# A course on tensor compilers\n" + toc(deck.name for deck in SLIDES))
        shutil.copytree(HERE / "_static", source / "_static")
        shutil.copy(HERE / "slides_conf.py", source / "conf.py")
        options = ["-W", "--keep-going", "-q", "-b", "revealjs"]
        return subprocess.call([sys.executable, "-m", "sphinx", *options, str(source), str(out)])


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def main(arguments: list[str] | None = None) -> int:
    """Build the site; the status of Sphinx."""
    from sphinx.cmd.build import main as sphinx

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, help="the folder to write")
    parser.add_argument("--lessons", help="numbers of the lessons to execute, such as 00,03 (default: all)")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="minitvm-site-") as folder:
        source = Path(folder)
        stage(source, None if options.lessons is None else set(options.lessons.split(",")))
        status = sphinx(["-W", "--keep-going", "-q", "-b", "html", str(source), str(options.out)])
    return status or slides(options.out / "slides")


if __name__ == "__main__":
    sys.exit(main())
