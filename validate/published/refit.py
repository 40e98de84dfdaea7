#!/usr/bin/env python3
"""validate/published/refit.py PROGRAM [PROFILE...]: fits the profiles of data/fits.toml anew, each
to the rows of data/*.csv that are marked `fit` and use it, and puts what `stepcast fit` finds into
sim/kernels/profiles. What a fit does not move (flags, description, comments) stays as it is; its
factors begin at 1. Rows marked `check` are never handed over."""
import csv
import pathlib
import re
import subprocess
import sys
import tempfile
import tomllib

here = pathlib.Path(__file__).resolve().parent
profiles = here.parent.parent / "sim" / "kernels" / "profiles"
fitted_line = re.compile(r"^(\w+_efficiency|overlap_interference|launch_us|rank_jitter|residual|fitted|fitted_on|fitted_gpus) *=.*\n", re.M)


def rows_of(profile):
    """The source's common keys, and its rows that are fitted under this profile."""
    for path in sorted((here / "data").glob("*.csv")):
        common = tomllib.loads(path.with_suffix(".toml").read_text())["scenario"]
        with path.open() as file:
            rows = [
                row
                for row in csv.DictReader(file)
                if row.get("split", "fit") == "fit"
                and (row.get("profile") or common.get("profile")) == profile
            ]
        if rows:
            return common, rows
    sys.exit(f"no row is fitted under {profile}")


def toml(keys):
    def value(v):
        return str(v).lower() if isinstance(v, bool) else f'"{v}"' if isinstance(v, str) else str(v)

    return "".join(f"{k} = {value(v)}\n" for k, v in keys.items())


def refit(program, name, fit, folder):
    path = profiles / f"{name}.toml"
    text = path.read_text()
    start = fitted_line.sub("", text)
    if "launch_us" in fit:
        start += f"launch_us = {fit['launch_us']}\n"
    (folder / "start.toml").write_text(start)
    common, rows = rows_of(name)
    common = {k: v for k, v in common.items() if k != "profile"}
    (folder / "common.toml").write_text(toml(common | {"profile": str(folder / "start.toml")}))
    keys = [k for k in rows[0] if k != "profile"]
    with (folder / "rows.csv").open("w") as file:
        out = csv.DictWriter(file, keys, extrasaction="ignore", lineterminator="\n")
        out.writeheader()
        out.writerows(rows)
    arguments = ["fit", folder / "rows.csv", folder / "common.toml", "--name", name,
                 "--factors", ",".join(fit["factors"]), "--output", folder / "fitted.toml"]
    print(name)
    print(subprocess.run([program, *arguments], check=True, capture_output=True, text=True).stdout)
    found = fitted_line.finditer((folder / "fitted.toml").read_text())
    lines = "".join(m.group(0) for m in found)
    if "residual" in fit:
        lines = re.sub(r"^residual.*$", f"residual = {fit['residual']}  # assumed", lines, flags=re.M)
    path.write_text(fitted_line.sub("", text).rstrip("\n") + "\n" + lines)


def main():
    program = str(pathlib.Path(sys.argv[1]).resolve())
    fits = tomllib.loads((here / "data" / "fits.toml").read_text())
    with tempfile.TemporaryDirectory() as folder:
        for name in sys.argv[2:] or fits:
            refit(program, name, fits[name], pathlib.Path(folder))


main()
