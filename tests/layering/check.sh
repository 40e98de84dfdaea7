#!/usr/bin/env bash
# check.sh ROOT: what the compiler cannot see. Prints one line a violation, exits 1 when there is any.
#
#   1. A folder includes only folders of a lower rank (table below): arrows point down.
#   2. SimGrid is included only under sim/engines, CUDA, NCCL and MPI only under runtime/.
#   3. No file names the machine it was written on or a package mirror: absolute home and work
#      folders, hosts of this machine's /etc/apt.
#   4. A page of docs/ that a comment names is there, and so is the rule or section of sources.md.
#   5. A header may be included twice: it begins with #pragma once (tails, NAME_inline.hpp, come with
#      NAME.hpp and need none).
#   6. No test's name holds a semicolon: CMake would make two names of it, of which none is a test.
#
# Tested by tests/layering/self_test.sh, which plants each violation and expects to see it named.
set -euo pipefail
cd "${1:?usage: check.sh ROOT}"

# Folder, rank. A folder may include itself and any folder of a lower rank; equals not each other.
# Both answer in a variable: a subshell for each of thousands of includes would take a minute.
rank_of() {
  case $1 in
    base/*) rank=0 ;;
    models/* | topologies/* | sim/schedule/*) rank=1 ;;
    sim/interop/* | sim/kernels/* | sim/collectives/* | sim/strategies/* | sim/engines/* | sim/memory/*) rank=2 ;;
    runtime/*) rank=2 ;;
    sim/report/* | sim/calibration/*) rank=3 ;;
    sim/forecast/*) rank=4 ;;
    sim/advise/* | sim/sweep/* | sim/plan/* | sim/explain/* | sim/jobs/* | validate/*) rank=5 ;;
    cli/*) rank=6 ;;
    *) rank=9 ;;  # tests, benchmarks: may use all
  esac
}
folder_of() {
  if [[ $1 =~ ^(sim/[^/]+|[^/]+)/ ]]; then folder=${BASH_REMATCH[1]}; else folder=$1; fi
}

# The files that make up the project: tracked ones where git can tell, else all but build output.
files() {
  if git -c safe.directory='*' ls-files -co --exclude-standard 2>/dev/null | grep .; then return; fi
  find . -type f -not -path './.git/*' -not -path './build/*' -not -path './dist/*' | sed 's,^\./,,'
}

bad=0
complain() {
  echo "layering: $*"
  bad=1
}

list=$(files | while read -r file; do [[ -f $file ]] && echo "$file"; done)
code=$(grep -E '\.(hpp|cpp|h|cu|cuh)$' <<<"$list" || true)

# ---- 1: arrows point down
while IFS=: read -r file line text; do
  [[ -n $file ]] || continue
  target=${text#*\"} target=${target%%\"*}
  folder_of "$file"
  from=$folder
  folder_of "$target"
  to=$folder
  case $target in
    */*) ;;
    *) [[ $file == tests/* ]] || complain "$file:$line: \"$target\": write the path from the root of the project"; continue ;;
  esac
  [[ $from == "$to" ]] && continue
  rank_of "$file"
  above=$rank
  rank_of "$target"
  if ((above <= rank)); then
    complain "$file:$line: $from (rank $above) includes $to (rank $rank)"
  fi
  # Who runs a schedule knows nothing of where it comes from.
  if [[ $from == runtime && $to != base && $to != sim/schedule ]]; then
    complain "$file:$line: runtime includes $to; it may include base and sim/schedule"
  fi
done < <(tr '\n' '\0' <<<"$code" | xargs -0 -r grep -nHE '^ *#include "' /dev/null || true)

# ---- 2: who may see SimGrid, CUDA, NCCL
only() {  # PATTERN FOLDER NAME
  while IFS=: read -r file line _; do
    [[ -z $file || $file == "$2"/* ]] || complain "$file:$line: $3 is included outside $2/"
  done < <(tr '\n' '\0' <<<"$code" | xargs -0 -r grep -nHE "^ *#include *[<\"]($1)" /dev/null || true)
}
only 'simgrid/|xbt/|smpi/' sim/engines SimGrid
only 'cuda|cublas|nvToolsExt|nvml' runtime CUDA
only 'nccl\.h' runtime NCCL
only 'mpi\.h' runtime/mpi MPI

# ---- 3: nothing of the machine it was written on
hosts=$(grep -rhoE 'https?://[^/ ]+' /etc/apt/sources.list /etc/apt/sources.list.d 2>/dev/null |
  sed -E 's,https?://,,; s/[.]/[.]/g' | sort -u | paste -sd'|' || true)
place="(^|[^A-Za-z0-9_.\$}/-])/(work|home|root|Users)/|[.][.]/shared/"
while IFS=: read -r file line text; do
  [[ -n $file && $file != tests/layering/* ]] || continue
  complain "$file:$line: names a place or host of one machine: ${text:0:80}"
done < <(tr '\n' '\0' <<<"$list" | xargs -0 -r grep -InHE "$place${hosts:+|$hosts}" /dev/null || true)

# ---- 4: pages that comments name
while IFS=: read -r file line page; do
  [[ -z $file || -f $page || $file == tests/layering/* ]] || complain "$file:$line: names $page, which is not there"
done < <(tr '\n' '\0' <<<"$list" | xargs -0 -r grep -InoHE 'docs/[a-z-]+[.]md' /dev/null || true)
while IFS=: read -r file line place; do
  name=${place##* }
  [[ -z $file ]] || grep -qE "^(\| ($name) \||#+ ${name}[. ])" docs/sources.md ||
    complain "$file:$line: docs/sources.md has no $name"
done < <(tr '\n' '\0' <<<"$code" |
  xargs -0 -r grep -noHE 'docs/sources[.]md (section )?(R[0-9]+|[0-9]+([.][0-9]+)?)' /dev/null || true)

# ---- 5: headers that come twice
while read -r file; do
  [[ -z $file || $file == *_inline.hpp || $file == cmake/precompiled/* ]] ||
    complain "$file: a header without #pragma once"
done < <(grep '\.hpp$' <<<"$code" | tr '\n' '\0' | xargs -0 -r grep -LE '^#pragma once$' || true)

# ---- 6: names of tests, which may stand on the line below
while read -r file; do
  [[ -z $file ]] || complain "$file: a test's name holds a semicolon"
done < <(tr '\n' '\0' <<<"$code" | xargs -0 -r grep -lzP 'TEST_CASE\(\s*"[^"]*;' /dev/null || true)

((bad)) && exit 1
echo "layering: $(wc -l <<<"$code") source files, $(wc -l <<<"$list") files: clean"
