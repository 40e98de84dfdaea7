#!/usr/bin/env python3
"""docs/tables.py PROGRAM [--check]: fills the tables of docs/ that compare variants of one step. Such a
table stands behind a comment that says which command its rows are of:

    <!-- rows: simulate --model gpt2 --cluster dgx-a100 {} -->
    | | step, ms | exposed, ms | peak, GiB |
    |---|---|---|---|
    | `--micro-batch 2` | 28.4 | 1.20 | 5.13 |

`{}` is the first `code` of a row's first cell, or nothing where it has none (`{cell}`: the whole cell).
The other cells are what their column's heading says; a heading `ddp: step` and those behind it are of
the command with `{column}` replaced by `ddp`. --check changes nothing and exits 1 where a table is
stale; it is a test."""
import functools
import json
import pathlib
import re
import shlex
import subprocess
import sys

root = pathlib.Path(__file__).resolve().parent.parent
table = re.compile(r"(<!-- rows: (.*?) -->\n)((?:\|.*\n)+)")


def ms(seconds):
    value = seconds * 1e3
    return f"{value:.1f}" if value >= 100 else f"{value:.2f}"


def sent(step, where):
    return f"{sum(of[where] for of in step['bytes_sent_per_gpu'].values()) / 1e9:.3g}"


columns = {
    "step, ms": lambda s: ms(s["step_time_s"]),
    "exposed, ms": lambda s: ms(s["time_s"]["exposed"]),
    "host, ms": lambda s: ms(s["time_s"]["host"]),
    "peak, GiB": lambda s: f"{max(r['peak'] for r in s['memory_bytes'].values()) / 2**30:.2f}",
    "sent in the node, GB": lambda s: sent(s, "intra_node"),
    "between nodes, GB": lambda s: sent(s, "inter_node"),
    "sent, GB": lambda s: sent(s, "total"),
}
short = {"step": "step, ms", "exposed": "exposed, ms", "sent": "sent, GB"}


def groups(headings):
    """The columns, each with what stands for {column}."""
    group = ""
    for heading in headings:
        if ": " in heading:
            group, heading = heading.split(": ")
        yield group, columns[short.get(heading, heading)]


@functools.cache
def step_of(command, program):
    arguments = [*shlex.split(command), "--json"]
    done = subprocess.run([program, *arguments], cwd=root, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"stepcast {shlex.join(arguments)}: {done.stderr}")
    return json.loads(done.stdout)


def filled(rows, command, program):
    lines = rows.rstrip("\n").split("\n")
    headings = [cell.strip() for cell in lines[0].strip("|").split("|")][1:]
    for i, line in enumerate(lines[2:], 2):
        first = line.strip("|").split("|")[0].strip()
        flags = re.search(r"`([^`]*)`", first)
        row = command.replace("{}", flags[1] if flags else "").replace("{cell}", first)
        cells = [
            column(step_of(row.replace("{column}", group), program))
            for group, column in groups(headings)
        ]
        lines[i] = "| " + " | ".join([first, *cells]) + " |"
    return "\n".join(lines) + "\n"


def main():
    program, check = str(pathlib.Path(sys.argv[1]).resolve()), "--check" in sys.argv[2:]
    stale = tables = 0
    for page in sorted((root / "docs").rglob("*.md")):
        text = page.read_text()
        new = table.sub(lambda m: m[1] + filled(m[3], m[2], program), text)
        tables += len(table.findall(text))
        if new == text:
            continue
        stale += 1
        if check:
            print(f"{page.relative_to(root)}: a table is stale: python3 docs/tables.py PROGRAM")
        else:
            page.write_text(new)
    if tables == 0:
        sys.exit("no table was found")
    if check and stale:
        sys.exit(1)


main()
