#!/usr/bin/env python3
"""lab.py PROGRAM: the emulated cluster. Calibrates, forecasts and runs training steps on hosts that
are network namespaces, and prints how far the forecasts are from what was measured.

    sudo validate/lab/lab.py build/release/bin/stepcast                # all of it, some 15 minutes
    sudo validate/lab/lab.py build/release/bin/stepcast --fabric fast  # one fabric, once: 4 minutes
    sudo validate/lab/lab.py build/release/bin/stepcast --write        # ... into docs/validation.md

A fabric is four hosts with links of one speed. On each, `stepcast calibrate` measures collectives by
size on every axis. It runs no scenario and no model, so no scenario's step time is in it. Then each
scenario is forecast with that calibration and run: compute is a timed wait, every byte of the
collectives goes through the links. The bytes that the links count are compared with the schedule's.
"""
import argparse
import datetime
import json
import os
import pathlib
import platform
import re
import statistics
import subprocess
import sys
import tempfile

from hosts import Hosts, why_not

here = pathlib.Path(__file__).resolve().parent
HOSTS = 4
FABRICS = {"slow": 100, "fast": 400}  # Mbit/s of a host's link
STEP = ["--model", f"{here}/mlp-5m.toml", "--nodes", str(HOSTS), "--precision", "fp32",
        "--seq-len", "128", "--micro-batch", "24"]
SCENARIOS = {
    "DDP, buckets of 1 MiB": ["--strategy", "ddp", "--bucket-cap-mb", "1"],
    "DDP, buckets of 4 MiB": ["--strategy", "ddp", "--bucket-cap-mb", "4"],
    "DDP, buckets of 10 MiB": ["--strategy", "ddp", "--bucket-cap-mb", "10"],
    "DDP, buckets of 25 MiB": ["--strategy", "ddp", "--bucket-cap-mb", "25"],
    "FSDP2": ["--strategy", "fsdp2"],
    "HSDP 2x2": ["--strategy", "hsdp", "--shard-group", "2"],
    "ZeRO-2": ["--strategy", "zero2"],
}
STEPS = 6
SIZES_MB = "0.004,0.0625,0.25,0.5,1,1.5,2,4,8,20"


class Lab:
    def __init__(self, program, hosts, fabric, folder):
        self.program, self.hosts, self.fabric = program, hosts, fabric
        self.calibration = os.path.join(folder, f"{fabric}.toml")

    def say(self, text):
        print(f"lab: {self.fabric}: {text}", file=sys.stderr, flush=True)

    def launch(self, *words):
        """On all hosts; a rank's few milliseconds of CPU go before everything else of the machine."""
        launch = ["nice", "-n", "-19", self.program, "launch", "-n", str(HOSTS),
                  "--hosts", self.hosts.names(), "--network", "data", *words]
        for again in range(3):
            code, out, err = self.hosts.run(launch)
            if code == 0:
                return out
            self.say(f"{words[0]}: exit {code}; {'again' if again < 2 else 'no more'}\n{err}")
        sys.exit(1)

    def calibrate(self):
        # Groups of two measure every axis: four ranks, and two by two.
        self.say("calibrating")
        self.launch("calibrate", "--quick", "--shard-group", "2", "--ranks-per-node", "1",
                    "--sizes-mb", SIZES_MB, "--dtypes", "fp32",
                    "--name", f"lab, {FABRICS[self.fabric]} Mbit/s",
                    "--output", self.calibration)

    def measure(self, name, options):
        scenario = [*STEP, "--cluster", f"{here}/{self.fabric}.toml",
                    "--calibration", self.calibration, *options, "--json"]
        forecast = json.loads(subprocess.run([self.program, "simulate", *scenario],
                                             check=True, capture_output=True, text=True).stdout)
        before = self.hosts.sent_bytes()
        step = json.loads(self.launch("validate", "--steps", str(STEPS), *scenario))["step"]
        sent = [after - b for b, after in zip(before, self.hosts.sent_bytes())]
        wanted = STEPS * sum(kind["total"] for kind in forecast["bytes_sent_per_gpu"].values())
        row = {
            "forecast": step["forecast_s"],
            "measured": step["measured_s"],
            "error": step["forecast_s"] / step["measured_s"] - 1,
            "bytes": max(abs(bytes_ / wanted - 1) for bytes_ in sent),
        }
        self.say(f"{name}: forecast {row['forecast']:.3f} s, measured {row['measured']:.3f} s "
                 f"({100 * row['error']:+.1f} %), bytes within {100 * row['bytes']:.1f} %")
        return row


def orders(rows):
    """Pairs of bucket sizes whose measured steps differ by over 1 %, and those forecast in order."""
    ddp = [row for name, row in rows.items() if name.startswith("DDP")]
    pairs = [(a, b) for i, a in enumerate(ddp) for b in ddp[i + 1:]
             if abs(a["measured"] / b["measured"] - 1) > 0.01]
    right = [1 for a, b in pairs if (a["measured"] < b["measured"]) == (a["forecast"] < b["forecast"])]
    return len(pairs), len(right)


def table(runs):
    """`runs`: a list of {fabric: {scenario: row}}."""
    lines = ["| fabric | scenario | " + " | ".join(
        f"run {i + 1}: forecast | measured | error" for i in range(len(runs))) + " | bytes off by |"]
    lines.append("|---|---|" + "---:|---:|---:|" * len(runs) + "---:|")
    for fabric, rows in runs[0].items():
        for name in rows:
            cells = []
            for run in runs:
                row = run[fabric][name]
                cells += [f"{row['forecast']:.3f} s", f"{row['measured']:.3f} s",
                          f"{100 * row['error']:+.1f} %"]
            off = max(run[fabric][name]["bytes"] for run in runs)
            lines.append(f"| {FABRICS[fabric]} Mbit/s | {name} | {' | '.join(cells)} | {100 * off:.1f} % |")
    lines.append("")
    for i, run in enumerate(runs):
        errors = [abs(row["error"]) for rows in run.values() for row in rows.values()]
        pairs, right = map(sum, zip(*(orders(rows) for rows in run.values())))
        lines.append(f"- Run {i + 1}: {len(errors)} scenarios, median error "
                     f"{100 * statistics.median(errors):.1f} %, largest {100 * max(errors):.1f} %; "
                     f"of {pairs} pairs of bucket sizes whose steps differ by over 1 %, "
                     f"{right} are forecast in the right order.")
    return "\n".join(lines)


def cpu():
    for line in pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.split(": ", 1)[1]
    return platform.machine()


def main():
    parser = argparse.ArgumentParser(description="The emulated cluster: forecast against measured.")
    parser.add_argument("program", help="stepcast, built with MPI")
    parser.add_argument("--fabric", choices=FABRICS, help="this one only, once")
    parser.add_argument("--scenario", help="scenarios whose name contains this")
    parser.add_argument("--write", action="store_true", help="put the table into docs/validation.md")
    options = parser.parse_args()
    reason = why_not()
    if reason:
        print(f"lab: cannot run here: {reason}", file=sys.stderr)
        sys.exit(77)  # what ctest takes for skipped
    program = str(pathlib.Path(options.program).resolve())
    fabrics = [options.fabric] if options.fabric else list(FABRICS)
    scenarios = {n: s for n, s in SCENARIOS.items() if (options.scenario or "") in n}
    runs = []
    with tempfile.TemporaryDirectory(prefix="stepcast-lab-") as folder:
        for _ in range(1 if options.fabric else 2):
            runs.append({})
            for fabric in fabrics:
                with Hosts(HOSTS, FABRICS[fabric]) as hosts:
                    lab = Lab(program, hosts, fabric, folder)
                    lab.calibrate()
                    runs[-1][fabric] = {n: lab.measure(n, s) for n, s in scenarios.items()}
    text = table(runs)
    print(text)
    if options.write:
        write(text, program)


def write(text, program):
    version = subprocess.run([program, "--version"], capture_output=True, text=True).stdout.strip()
    said = (f"{version}, {datetime.date.today()}, {cpu()}, {os.cpu_count()} cores, "
            f"{platform.system()} {platform.release()}")
    page = here.parent.parent / "docs" / "validation.md"
    old = page.read_text(encoding="utf-8")
    new, found = re.subn(r"(<!-- lab -->\n).*?(\n<!-- end of lab -->)",
                         lambda m: m[1] + f"\n{said}.\n\n{text}\n" + m[2], old, flags=re.S)
    if found != 1:
        sys.exit(f"lab: {page} has no place for a table: <!-- lab --> and <!-- end of lab -->")
    page.write_text(new, encoding="utf-8")


if __name__ == "__main__":
    try:
        main()
    except KeyboardInterrupt:
        sys.exit("lab: interrupted; the hosts are gone")
