#!/usr/bin/env python3
"""docs/pictures/scaling.py PROGRAM [--check]: DDP from 1 to 4,096 GPUs, and with buckets of 0.25 to 1,000 MiB,
from the program's JSON. Draws ddp-scaling.svg and ddp-buckets.svg beside this file and writes the
tables of docs/scaling.md anew, between the lines that say so. --check writes nothing and fails where
a table is no longer what the program says."""
import json
import math
import pathlib
import re
import subprocess
import sys

here = pathlib.Path(__file__).resolve().parent
page = here.parent / "scaling.md"
program = str(pathlib.Path(sys.argv[1]).resolve())
check = sys.argv[2:] == ["--check"]
stale = []

step = ["--model", "gpt2-medium", "--micro-batch", "4", "--cluster", "dgx-h100"]
ring = ["--nccl", "NCCL_ALGO=Ring"]
choices = [("NCCL's own choice", [], "#4269d0"), ("NCCL_ALGO=Ring", ring, "#ff725c")]

small = ["--model", "bert-large", "--micro-batch", "8", "--strategy", "ddp"]
networks = [
    ("10 GbE", ["--cluster", "dgx-a100", "--nodes", "4", "--nic-gbps", "1.25", "--network", "ethernet"], "#ff725c"),
    ("InfiniBand", ["--cluster", "dgx-h100", "--nodes", "16"], "#4269d0"),
    ("NVLink", ["--cluster", "dgx-h100"], "#3ca951"),
]
sizes = [0.25, 1, 5, 25, 100, 250, 1000]  # MiB


def told(*arguments):
    done = subprocess.run([program, *arguments, "--json"], capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def simulated(gpus, variables):
    return told("simulate", *step, "--strategy", "ddp", "--nodes", str(max(1, gpus // 8)), "--gpus", str(gpus), *variables)


def limit(variables):  # None: not up to 4,096 GPUs
    scaling = told("advise", *step, "--nodes", "512", *variables)["scaling"]
    found = scaling["found"] and scaling["limit"]["gpus"] <= 4096
    return scaling if found else None


def choice(forecast):
    rows = forecast["collectives"]
    return "{algorithm}/{protocol}".format(**max(rows, key=lambda r: r["calls"] * r["bytes"])) if rows else "-"


class Picture:
    left, top, width, height = 64, 34, 480, 280

    def __init__(self, title, x_label, y_label, x_range, y_range, x_ticks, y_ticks):
        self.x_range, self.y_range = x_range, y_range
        self.lines = [
            '<svg xmlns="http://www.w3.org/2000/svg" width="720" height="372" font-family="sans-serif" font-size="12">',
            '<rect width="720" height="372" fill="white"/>',
            f'<text x="{self.left}" y="18">{title}</text>',
            f'<text x="{self.left + self.width / 2:.0f}" y="362" text-anchor="middle">{x_label}</text>',
            f'<text x="14" y="{self.top + self.height / 2:.0f}" text-anchor="middle" '
            f'transform="rotate(-90 14 {self.top + self.height / 2:.0f})">{y_label}</text>',
        ]
        for value, label in x_ticks:
            self.lines.append(f'<text x="{self.x(value):.1f}" y="{self.top + self.height + 18}" text-anchor="middle">{label}</text>')
        for value, label in y_ticks:
            y = self.y(value)
            self.lines.append(f'<line x1="{self.left}" y1="{y:.1f}" x2="{self.left + self.width}" y2="{y:.1f}" stroke="#ddd"/>')
            self.lines.append(f'<text x="{self.left - 6}" y="{y + 4:.1f}" text-anchor="end">{label}</text>')

    def x(self, value):  # both are logarithmic
        low, high = self.x_range
        return self.left + self.width * math.log(value / low) / math.log(high / low)

    def y(self, value):
        low, high = self.y_range
        return self.top + self.height * (1 - math.log(value / low) / math.log(high / low))

    def curve(self, points, label, colour, dashed=False):
        path = " ".join(f"{self.x(x):.1f},{self.y(y):.1f}" for x, y in points)
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        self.lines.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"{dash}/>')
        x, y = points[-1]
        self.lines.append(f'<text x="{self.x(x) + 6:.1f}" y="{self.y(y) + 4:.1f}" fill="{colour}">{label}</text>')

    def mark(self, x, label, colour):
        at = self.x(x)
        self.lines.append(f'<line x1="{at:.1f}" y1="{self.top}" x2="{at:.1f}" y2="{self.top + self.height}" stroke="{colour}" stroke-dasharray="2 3"/>')
        self.lines.append(f'<text x="{at + 5:.1f}" y="{self.top + 14}" fill="{colour}">{label}</text>')

    def write(self, name):
        if not check:
            (here / name).write_text("\n".join([*self.lines, "</svg>"]) + "\n")


def into_page(name, lines):
    begin, end = f"<!-- {name}: docs/pictures/scaling.py -->\n", f"<!-- end of {name} -->\n"
    text = page.read_text()
    new = re.sub(re.escape(begin) + ".*?" + re.escape(end), lambda _: begin + "\n".join(lines) + "\n" + end, text, flags=re.S)
    if not check:
        page.write_text(new)
        return
    stale.extend(f"{page.name} has: {a}\nthe program says: {b}" for a, b in zip(text.splitlines(), new.splitlines()) if a != b)


def ceiling():
    counts = [2**k for k in range(13)]
    table = ["| GPUs | " + " | ".join(f"{n}: ms a step | samples/s | as NCCL runs it" for n, _, _ in choices) + " | memory a GPU, GiB | of it NCCL |",
             "|---|" + "---|" * 8]
    columns = [[simulated(gpus, variables) for gpus in counts] for _, variables, _ in choices]
    for i, gpus in enumerate(counts):
        cells = [f"{gpus:,}"]
        for column in columns:
            f = column[i]
            cells += [f"{1e3 * f['step_time_s']:.2f}", f"{f['samples_per_s']:,.0f}", choice(f)]
        memory = [column[i]["memory_bytes"]["all"] for column in columns]
        peaks = sorted({m["peak"] for m in memory})
        cells += [" and ".join(f"{p / 2**30:.2f}" for p in peaks)]
        cells += [" and ".join(sorted({f"{m['at_peak'].get('nccl', 0) / 2**30:.2f}" for m in memory}))]
        table.append("| " + " | ".join(cells) + " |")
    into_page("table of sizes", table)
    alone = columns[0][0]["samples_per_s"]
    picture = Picture("DDP, gpt2-medium, micro-batch 4, DGX H100: samples/s of all GPUs", "GPUs", "samples/s", (1, 4096),
                      (alone, alone * 4096), [(n, f"{n:,}") for n in counts[::2]], [(v, f"{v:,}") for v in (1000, 10000, 100000)])
    picture.curve([(n, alone * n) for n in (1, 4096)], "", "#999", dashed=True)
    for (name, variables, colour), column in zip(choices, columns):
        picture.curve([(n, f["samples_per_s"]) for n, f in zip(counts, column)], name, colour)
        found = limit(variables)
        if found:
            picture.mark(found["limit"]["gpus"], f"{found['limit']['gpus']:,} GPUs: {found['reason']}", colour)
    picture.write("ddp-scaling.svg")


def buckets():
    picture = Picture("DDP, bert-large, micro-batch 8: step by bucket size, relative to the best", "bucket_cap_mb, MiB",
                      "step / best step", (sizes[0], sizes[-1]), (0.97, 1.5), [(s, f"{s:g}") for s in sizes],
                      [(v, f"{v:g}") for v in (1, 1.1, 1.2, 1.3, 1.4)])
    table = ["| network | bucket, MiB | all-reduces | they take, ms | exposed, ms | step, ms | beside the best | what binds |", "|---|" + "---|" * 7]
    for name, arguments, colour in networks:
        rows = []
        for size in sizes:
            f = told("simulate", *small, *arguments, "--bucket-cap-mb", f"{size:g}")
            calls = sum(r["calls"] for r in f["collectives"])
            busy = 1e3 * sum(r["calls"] * r["mean_s"] for r in f["collectives"])
            rows.append((size, calls, busy, 1e3 * f["time_s"]["exposed"], 1e3 * f["step_time_s"]))
        best = min(rows, key=lambda r: r[4])
        for size, calls, busy, exposed, seconds in rows:
            if seconds <= 1.01 * best[4]:
                binds = "within 1 % of the best"
            elif calls > best[1]:
                binds = f"launches and latency: {calls - best[1]} calls more, {busy - best[2]:+.2f} ms"
            else:
                binds = f"lost overlap: {busy - best[2]:+.2f} ms, but {exposed - best[3]:+.2f} exposed"
            table.append(f"| {name} | {size:g} | {calls} | {busy:.2f} | {exposed:.2f} | {seconds:.2f} | {100 * (seconds / best[4] - 1):+.1f} % | {binds} |")
        picture.curve([(r[0], r[4] / best[4]) for r in rows], name, colour)
    into_page("table of buckets", table)
    picture.write("ddp-buckets.svg")


ceiling()
buckets()
if stale:
    sys.exit("\n".join([*stale, "docs/pictures/scaling.py PROGRAM writes them anew"]))
