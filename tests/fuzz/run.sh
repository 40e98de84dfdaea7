#!/usr/bin/env bash
# run.sh FOLDER SECONDS [TARGET...]: runs the fuzz programs of FOLDER, each for SECONDS, two at a time,
# from what the tests and catalogs hold. What it finds (crash-*, timeout-*, leak-*) stays in
# FOLDER/fuzz/TARGET; exits 1 when there is any. New inputs that reach new code stay there too, so a
# second run goes on where the first ended.
set -euo pipefail
root=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.." && pwd)
folder=$(readlink -f "${1:?usage: run.sh FOLDER SECONDS [TARGET...]}") seconds=${2:?seconds}
shift 2
all=(topology graph nccl_tests_log measured calibration kineto trace_summary chakra fabric tuner_csv machine schedule scenario profile hf_config job model_toml)
(($#)) || set -- "${all[@]}"

seeds() {  # files a target begins with
  local unit=$root/tests/unit
  case $1 in
    topology) find "$unit/importers/data" "$unit/collectives/golden/xml" -type f ;;
    graph) find "$unit/importers/data" -name '*graph.xml' ;;
    nccl_tests_log) find "$unit/collectives/logs" -type f ;;
    measured | calibration | kineto | chakra | fabric | tuner_csv) find "$root/tests/fuzz/seeds/$1" -type f ;;
    trace_summary) find "$root/tests/fuzz/seeds/kineto" -type f ;;
    machine) find "$root/topologies/catalog" -name '*.toml' ;;
    schedule) find "$root/tests/unit/strategies/golden" -name '*.txt' ;;
    scenario) find "$root/examples" -name '*.toml' ;;
    profile) find "$root/sim/kernels/profiles" -name '*.toml' ;;
    job) find "$root/tests/interop/data" "$root/examples/jobs" -type f -not -name '*.md' ;;
    model_toml) find "$root/models/catalog" -name '*.toml' ;;
    hf_config) find "$root/tests" "$root/models" -name '*.json' ;;
  esac
}

one() {  # TARGET
  local target=$1 home=$folder/fuzz/$1
  mkdir -p "$home/corpus" "$home/seeds"
  seeds "$target" | while read -r file; do
    cp "$file" "$home/seeds/$(sha1sum "$file" | cut -c1-12)"
  done
  # Texts of these kinds are short; what takes 10 s or 2 GiB is a finding. What the sanitizer itself keeps
  # of freed memory, and of where it was allocated, grows with the runs: to 2 GiB after 400,000 short texts.
  if (cd "$home" && ASAN_OPTIONS=quarantine_size_mb=32:malloc_context_size=8 "$folder/bin/fuzz_$target" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=2048 \
    -max_len=65536 -print_final_stats=1 corpus seeds) >"$home/log" 2>&1; then
    printf '%-16s %s runs, nothing found\n' "$target" \
      "$(sed -n 's/^stat::number_of_executed_units: *//p' "$home/log")"
  else
    printf '%-16s FOUND something: %s\n' "$target" "$home/log"
    grep -m 2 -E 'ERROR|SUMMARY|Test unit written' "$home/log" | sed 's/^/    /' || true
    return 1
  fi
}
export -f one seeds
export root folder seconds
printf '%s\n' "$@" | xargs -P 2 -I {} bash -c 'one {}'
