#!/usr/bin/env python3
"""docs/refresh.py PROGRAM: runs each `$ stepcast ...` of README.md and docs/ and puts what it prints
into the ```text block below it. A block may be an excerpt: it begins at the first line that starts
as its first line does now and ends at the last that starts as its last line does.
tests/cli/golden_test.cpp checks that nothing has to be refreshed. Read `git diff docs` after it."""
import pathlib
import re
import shlex
import subprocess
import sys

root = pathlib.Path(__file__).resolve().parent.parent
start_width = 12  # characters by which a line is known again


def printed(arguments, program):
    done = subprocess.run([program, *shlex.split(arguments)], cwd=root, capture_output=True, text=True)
    return (done.stdout + done.stderr).rstrip("\n").split("\n")


def excerpt(output, block):
    first, last = block[0][:start_width], block[-1][:start_width]
    begin = next((i for i, line in enumerate(output) if line.startswith(first)), None)
    if begin is None:
        return None
    ends = [i for i, line in enumerate(output) if i >= begin and line.startswith(last)]
    return output[begin : (ends[-1] if ends else begin + len(block) - 1) + 1]


def main():
    program = str(pathlib.Path(sys.argv[1]).resolve())
    pattern = re.compile(r"( *\$ stepcast ([^\n]+)\n\n?```text\n)(.*?)(\n```)", re.S)
    for name in ("sweep.db", "sweep.db-wal", "sweep.db-shm"):  # an earlier build's figures
        (root / "build" / name).unlink(missing_ok=True)
    for page in [root / "README.md", *sorted((root / "docs").rglob("*.md"))]:

        def fresh(match, page=page):
            new = excerpt(printed(match[2], program), match[3].split("\n"))
            if new is None:
                print(f"{page.relative_to(root)}: `stepcast {match[2]}` prints nothing like its block")
                return match[0]
            return match[1] + "\n".join(new) + match[4]

        text = page.read_text()
        page.write_text(pattern.sub(fresh, text))


main()
