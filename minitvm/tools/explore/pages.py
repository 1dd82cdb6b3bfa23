"""Steps as one HTML page: everything is in the file, and it runs without a network and without a server."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from importlib.resources import files

from ...tir.schedule import PRIMITIVES
from .costs import LINES, Costs
from .stepwise import Step

# Nothing may be fetched: the page has its style and its script in itself.
POLICY = "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:; base-uri 'none'"
ROWS = {
    "work": "operations",
    "loads": "loads",
    "stores": "stores",
    "misses": "cache misses",
    "cycles": "predicted cycles",
}
MEANING = {
    "work": "additions, multiplications and other operations on the data of one run",
    "loads": "elements read from memory; registers (scope “local”) are not counted",
    "stores": "elements written to memory; registers (scope “local”) are not counted",
    "misses": f"lines fetched by a small cache, {LINES} lines of 64 bytes, which drops the least recently used one",
    "cycles": "a formula for one core: the slowest of its arithmetic, loads, stores and bytes moved; not measured",
}
SENTENCES = {
    "equal": "The program still computes the same values.",
    "different": "The program computes other values than the first one.",
    "unknown": "The oracle cannot judge this step.",
}


def page(name: str, subjects: Mapping[str, Sequence[Step]], machine: str = "") -> str:
    """The page for a file: its `subjects` by name, each with its steps. `machine` is the core of the predictions."""
    sections = "".join(
        subject_html(number, title, steps, machine, len(subjects) > 1)
        for number, (title, steps) in enumerate(subjects.items())
    )
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(name)}, step by step</title>\n<style>\n{asset('page.css')}{colours()}</style>\n"
        f"<noscript><style>.subject, .panel {{ display: block !important }}</style></noscript>\n</head>\n<body>\n"
        f"<header><h1>{escape(name)}<span>, step by step</span></h1>\n"
        f"<p>Each step changes the order of the work, not its result. The arrow keys go from step to step.</p>"
        f"{_choice(list(subjects))}</header>\n<main>\n{sections}</main>\n"
        f'<script type="module">\n{asset("page.js")}\nactivate(document);\n</script>\n</body>\n</html>\n'
    )


def server_page(name: str, subjects: Sequence[str]) -> str:
    """The page of the local server; its script fetches what it shows."""
    options = "".join(f'<option value="{escape(one)}">{escape(one)}</option>' for one in subjects)
    buttons = "".join(
        f'<button type="button" id="{key}" title="{escape(title)}">{label}</button>\n'
        for key, label, title in (
            ("run", "Run", "apply the lines (Ctrl+Enter)"), ("undo", "Undo", "the version before (Alt+Left)"),
            ("redo", "Redo", "the version after (Alt+Right)"), ("fork", "Fork", "a copy of this version next to it"),
            ("share", "Save as a file", "a Python file that minitvm check runs"),
        )
    )  # fmt: skip
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        f"<title>{escape(name)}, explored</title>\n"
        f'<link rel="stylesheet" href="page.css">\n<link rel="stylesheet" href="server.css">\n'
        f"<style>{colours()}</style>\n"
        f'</head>\n<body class="server">\n<header><h1>{escape(name)}<span>, explored</span></h1>\n'
        f'<label class="pick">Schedule of <select id="choice">{options}</select></label></header>\n<main>\n'
        f'<section class="edit" aria-label="Schedule">\n<div id="editor"></div>\n<p class="tools">{buttons}</p>\n'
        f'<p id="message" role="status" aria-live="polite"></p>\n'
        f'<details id="next"><summary>Legal next steps</summary>\n<p><label>Only those with '
        f'<input id="filter" placeholder="split, or a loop"></label></p>\n<ul id="offers"></ul></details>\n'
        f'<details id="history"><summary>Versions</summary><ul id="versions"></ul></details>\n</section>\n'
        f'<section class="result" aria-label="Result">\n<div role="tablist" class="views" aria-label="View">'
        f'<button type="button" role="tab" id="view-steps" aria-controls="result" aria-selected="true">Steps</button>\n'
        '<button type="button" role="tab" id="view-levels" aria-controls="result" aria-selected="false">'
        "Levels</button>\n"
        f'<label id="hide" hidden><input type="checkbox" checked> hide passes that change nothing</label></div>\n'
        f'<div id="result" role="tabpanel" aria-busy="true"></div>\n</section>\n</main>\n'
        f'<script type="module" src="server.js"></script>\n</body>\n</html>\n'
    )


def asset(name: str) -> str:
    """A file of the folder `assets`."""
    return files(__package__).joinpath("assets", name).read_text(encoding="utf-8")


def colours() -> str:
    """The colours of program text, on light and on dark pages."""
    from pygments.formatters import HtmlFormatter

    def rules(style: str) -> str:
        defined = HtmlFormatter(style=style).get_style_defs(".code").split("\n")
        return "\n".join(rule for rule in defined if rule.startswith(".code .") and "background" not in rule)

    return f"{rules('default')}\n@media (prefers-color-scheme: dark) {{\n{rules('github-dark')}\n}}\n"


def _choice(names: Sequence[str]) -> str:
    if len(names) < 2:
        return ""
    options = "".join(f'<option value="{k}">{escape(name)}</option>' for k, name in enumerate(names))
    return f'\n<label>Show <select id="subject">{options}</select></label>'


def subject_html(number: int, name: str, steps: Sequence[Step], machine: str, titled: bool) -> str:
    """The steps of one schedule: the list at the left, and a panel for each."""
    tabs = "".join(_tab(f"{number}-{k}", k, step) for k, step in enumerate(steps))
    panels = "".join(
        panel(f"{number}-{k}", k, step, steps[k - 1] if k else None, machine) for k, step in enumerate(steps)
    )
    heading = f"<h2>{escape(name)}</h2>\n" if titled else ""
    hidden = "" if number == 0 else " hidden"
    return (
        f'<section class="subject" id="subject-{number}"{hidden} aria-label="{escape(name)}">\n{heading}'
        f'<div class="columns">\n<div class="trace">\n'
        f'<div role="tablist" aria-orientation="vertical" aria-label="Steps">\n{tabs}</div>\n'
        f'<p class="moves"><button type="button" class="previous">← previous</button> '
        f'<button type="button" class="next">next →</button></p></div>\n<div class="panels">\n{panels}</div>\n'
        f"</div>\n</section>\n"
    )


def _tab(key: str, number: int, step: Step) -> str:
    mark, words = _mark(step)
    lines = "".join(f"<code>{line}</code>" for line in _highlighted("\n".join(step.lines))) if step.lines else ""
    first = number == 0
    return (
        f'<button type="button" role="tab" id="tab-{key}" aria-controls="panel-{key}" '
        f'aria-selected="{"true" if first else "false"}"{"" if first else " tabindex=-1"}>'
        f'<span class="name"><b>{number}</b> {escape(step.title)}'
        f'<span class="mark {mark}">{words}</span></span><span class="code">{lines}</span></button>\n'
    )


def _mark(step: Step) -> tuple[str, str]:
    """The class and the word that a step is marked with."""
    if step.error:
        return "refused", "refused"
    words = {"equal": "same result", "different": "wrong", "unknown": "not judged"}
    return step.agreement or "start", words.get(step.agreement, "")


def panel(key: str, number: int, step: Step, before: Step | None, machine: str) -> str:
    """Everything about one step: the program with its difference to the step before, the costs, and the verdict."""
    about = _about(step.title)
    parts = [f"<h3>{number}. {escape(step.title)}</h3>\n"]
    parts += [f'<p class="about">{escape(about)}</p>\n'] if about else []
    if step.error:
        parts += [_refused(step.error), _folded("The program stays as it was", program(step.program, None))]
        parts += [_costs(step.costs, None, machine)]
    else:
        parts += [program(step.program, before.program if before else None)]
        parts += [_film(step), _costs(step.costs, before.costs if before else None, machine), _verdict(step)]
    hidden = "" if number == 0 else " hidden"
    return (
        f'<div class="panel" role="tabpanel" id="panel-{key}" aria-labelledby="tab-{key}" tabindex="0"{hidden}>\n'
        f"{''.join(parts)}</div>\n"
    )


def _about(title: str) -> str:
    """The first paragraph of a primitive's documentation; "" if the title is not a primitive."""
    primitive = PRIMITIVES.get(title)
    text = (primitive.function.__doc__ or "").strip() if primitive is not None else ""
    return " ".join(text.split("\n\n")[0].split()).replace("`", "")


def program(after: str, before: str | None) -> str:
    """A program with line numbers. Lines that are not in `before` are marked, and its missing lines are shown."""
    shown, number, changes = [], 0, {"same": 0, "added": 0, "removed": 0}
    for kind, line in difference(before, after):
        number += kind != "removed"
        changes[kind] += 1
        label = {"same": " ", "added": "+", "removed": "-"}[kind]
        place = str(number) if kind != "removed" else ""
        shown.append(f'<span class="line {kind}" data-n="{place}"><i aria-hidden="true">{label}</i>{line}\n</span>')
    note = ""
    if before is not None:
        lines = "1 line" if changes["added"] == 1 else f"{changes['added']} lines"
        counts = f"{lines} new or changed, {changes['removed']} gone"
        same = "The program did not change" if not changes["added"] + changes["removed"] else counts
        note = (
            f'<p class="changes">{same}. <label><input type="checkbox" class="old" checked> show lines that are gone'
            f"</label></p>\n"
        )
    return f'{note}<pre class="program code" tabindex="0" aria-label="program">{"".join(shown)}</pre>\n'


def difference(before: str | None, after: str) -> Iterator[tuple[str, str]]:
    """The lines of two programs in one list, as HTML, each with "same", "added" or "removed"."""
    new = _highlighted(after)
    if before is None:
        yield from (("same", line) for line in new)
        return
    old = _highlighted(before)
    matcher = difflib.SequenceMatcher(None, before.split("\n"), after.split("\n"), autojunk=False)
    for kind, i, k, m, n in matcher.get_opcodes():
        if kind == "equal":
            yield from (("same", line) for line in new[m:n])
        else:
            yield from (("removed", line) for line in old[i:k])
            yield from (("added", line) for line in new[m:n])


def _highlighted(text: str) -> list[str]:
    """The lines of a Python text as HTML in colours."""
    from pygments import lex
    from pygments.lexers import PythonLexer
    from pygments.token import STANDARD_TYPES

    lines = [""]
    for kind, value in lex(text, PythonLexer(stripnl=False, ensurenl=False)):
        short = STANDARD_TYPES.get(kind, "")
        for number, part in enumerate(value.split("\n")):
            if number:
                lines.append("")
            if part:
                plain = escape(part)
                lines[-1] += f'<span class="{short}">{plain}</span>' if short and part.strip() else plain
    return lines


def _refused(error: str) -> str:
    """The error of a refused step: its headline, the program with carets, and what to try."""
    lines = []
    for line in escape(re.sub(r" {2,}(?=\[step \d+ of the trace\])", "  ", error)).split("\n"):
        words = re.match(r"( +)(wanted:|found: |try: )", line)
        kind = "words" if words or not line.startswith("    ") else "text"
        line = re.sub(r"(\^+)(.*)", r'<b class="carets">\1\2</b>', line)
        lines.append(f'<span class="{kind}">{line}\n</span>')
    return (
        '<div class="verdict refused" role="status"><p><strong>Refused.</strong> This step would change the result, or '
        "minitvm cannot show that it does not. The program stays as it was.</p>\n"
        f'<pre tabindex="0" aria-label="error">{"".join(lines)}</pre></div>\n'
    )


def _folded(title: str, inside: str) -> str:
    return f"<details><summary>{escape(title)}</summary>\n{inside}</details>\n"


def _film(step: Step) -> str:
    """The film of a step behind a button; it is an SVG of our own, so nothing in it is escaped."""
    if not step.film:
        return ""
    return (
        '<details class="film"><summary>Play the film: what each iteration reads and writes</summary>\n'
        '<p class="moves" hidden><button type="button" class="play" aria-pressed="true">pause</button> '
        '<input type="range" min="0" max="1" step="1" value="0" aria-label="moment of the film"></p>\n'
        f"{step.film}\n</details>\n"
    )


def _costs(after: Costs, before: Costs | None, machine: str) -> str:
    """The table of costs, with the change where there is a step before."""
    heads = "<th scope=col>before</th><th scope=col>after</th><th scope=col>change</th>"
    rows = []
    for field, label in ROWS.items():
        new, old = getattr(after, field), getattr(before, field) if before else None
        cells = f"<td>{_number(new)}</td>"
        if before is not None:
            cells = f"<td>{_number(old)}</td>{cells}<td{_direction(old, new)}>{_change(old, new)}</td>"
        rows.append(f'<tr><th scope="row" title="{escape(MEANING[field])}">{label}</th>{cells}</tr>\n')
    head = heads if before is not None else "<th scope=col>one run</th>"
    notes = [after.reason] if after.reason else []
    if after.bound:
        notes.append(f"Limit: {after.bound}" + (f", on one core of {machine}" if machine else ", on one core"))
    legend = "".join(f"<dt>{label}</dt><dd>{escape(MEANING[field])}</dd>" for field, label in ROWS.items())
    return (
        f'<table class="costs"><caption>Cost of one run</caption><thead><tr><td></td>{head}</tr></thead>\n<tbody>'
        f'{"".join(rows)}</tbody></table>\n<p class="note">{escape(". ".join(notes))}</p>\n'
        f"{_folded('What these numbers count', f'<dl>{legend}</dl>')}"
    )


def _number(value: int | None) -> str:
    return "–" if value is None else f"{value:,}"


def _change(old: int | None, new: int | None) -> str:
    if old is None or new is None:
        return "–"
    if old == new:
        return "same"
    if not old:
        return f"+{new:,}"
    ratio = new / old
    return f"{ratio - 1:+.0%}" if ratio < 2 else f"{ratio:.1f} times"


def _direction(old: int | None, new: int | None) -> str:
    if old is None or new is None or old == new:
        return ""
    return ' class="less"' if new < old else ' class="more"'


def _verdict(step: Step) -> str:
    if not step.agreement:
        return ""
    return (
        f'<div class="verdict {step.agreement}" role="status"><p><strong>{SENTENCES[step.agreement]}</strong></p>\n'
        f'<pre tabindex="0" aria-label="verdict">{escape(step.verdict)}</pre></div>\n'
    )


def levels(shown: Sequence[tuple[str, str, bool]]) -> str:
    """Programs side by side: each with its name, its text, and whether it differs from the one before.

    Statements that write the same buffer have the same colour in all of them. They are matched by name, since lowering
    keeps the names of buffers: `C_sum`, which a pass makes for `C`, counts as `C`.
    """
    colours: dict[str, int] = {}
    defined = re.finditer(r"\b(\w+)(?:: T\.Buffer| = T\.alloc_buffer)", shown[0][1]) if shown else ()
    buffers = sorted({match[1] for match in defined})
    parts = []
    for number, (name, program_text, changed) in enumerate(shown):
        lines = zip(_highlighted(program_text), program_text.split("\n"), strict=True)
        body = "".join(_level_line(line, statement(plain, buffers), colours) for line, plain in lines)
        label = escape(name.replace("_", " "))
        parts.append(
            f'<section class="level{"" if changed else " unchanged"}" aria-label="{label}"><h4>{number}. {label}'
            f'{"" if changed else " <small>changes nothing</small>"}</h4><pre class="code" tabindex="0">{body}</pre>'
            f"</section>\n"
        )
    return f'<div class="levels">{"".join(parts)}</div>\n'


def statement(line: str, buffers: Sequence[str]) -> str:
    """The statement of a line, by the buffer that it writes: `C`, or `C again` if it also reads that buffer."""
    match = re.match(r"\s*(\w+)\[.*?\] = (.*)", line)
    if match is None:
        return ""
    stored, value = match[1], match[2]
    owner = max((b for b in buffers if stored == b or stored.startswith(f"{b}_")), key=len, default=stored)
    return f"{owner} again" if re.search(rf"\b{re.escape(owner)}(_\w+)?\[", value) else owner


def _level_line(line: str, key: str, colours: dict[str, int]) -> str:
    if not key:
        return f'<span class="row">{line}\n</span>'
    colour = colours.setdefault(key, len(colours))
    return f'<span class="row statement hue{colour % 8}" data-key="{escape(key)}">{line}\n</span>'
