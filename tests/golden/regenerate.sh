#!/usr/bin/env bash
# tests/golden/regenerate.sh PROGRAM: writes every golden text anew from PROGRAM's output.
# Read `git diff tests/golden` before committing what it says.
set -euo pipefail
program=$(readlink -f "${1:?usage: tests/golden/regenerate.sh PROGRAM}")
folder=$(cd "$(dirname "$0")" && pwd)
cd "$folder/../.."
while read -r name arguments; do
  [[ -z $name || $name == \#* ]] && continue
  # shellcheck disable=SC2086
  { "$program" $arguments || true; } >"$folder/$name.txt" 2>"$folder/$name.err" </dev/null
  cat "$folder/$name.err" >>"$folder/$name.txt"
  rm "$folder/$name.err"
done <"$folder/cases"
