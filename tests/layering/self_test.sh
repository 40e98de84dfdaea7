#!/usr/bin/env bash
# self_test.sh CHECK: plants each violation in a small tree and expects check.sh to name it.
set -euo pipefail
check=$(readlink -f "${1:?usage: self_test.sh CHECK}")
tree=$(mktemp -d)
trap 'rm -rf "$tree"' EXIT

reset() {
  rm -rf "${tree:?}"/*
  mkdir -p "$tree"/{docs,base,models,sim/schedule,sim/engines/fluid,sim/strategies,runtime/nccl,cli}
  printf '## 0. Rules\n| R1 | a rule |\n### 1.2 DDP\n' >"$tree/docs/sources.md"
  printf '#pragma once\n// docs/sources.md R1, docs/sources.md section 1.2, docs/sources.md 1.2\n' >"$tree/base/units.hpp"
  printf '#pragma once\n#include "base/units.hpp"\n' >"$tree/sim/schedule/schedule.hpp"
  echo '#include <simgrid/s4u.hpp>' >"$tree/sim/engines/fluid/fluid.cpp"
  echo '#include <cuda_runtime_api.h>' >"$tree/runtime/nccl/stream.cpp"
  echo '#include "sim/schedule/schedule.hpp"' >"$tree/cli/main.cpp"
}

failures=0
expect() {  # WHAT PATTERN
  local said
  if said=$(bash "$check" "$tree"); then
    echo "FAILED: not noticed: $1"
    failures=1
  elif ! grep -qE "$2" <<<"$said"; then
    echo "FAILED: noticed '$1', but said: $said"
    failures=1
  fi
}

reset
bash "$check" "$tree" >/dev/null || { echo "FAILED: a clean tree is refused"; failures=1; }

reset; echo '#include "sim/schedule/schedule.hpp"' >"$tree/base/units.hpp"
expect "an include upward" '^layering: base/units.hpp:1: base \(rank 0\) includes sim/schedule'
reset; echo '#include "sim/strategies/a.hpp"' >"$tree/sim/engines/b.hpp"
expect "an include sideways" '^layering: sim/engines/b.hpp:1: .*includes sim/strategies'
reset; echo '#include "models/model.hpp"' >"$tree/runtime/run.cpp"
expect "a runtime that knows models" '^layering: runtime/run.cpp:1: runtime includes models'
reset; echo '#include "units.hpp"' >"$tree/base/b.hpp"
expect "an include without its folder" '^layering: base/b.hpp:1: "units.hpp"'
reset; echo '#include <simgrid/s4u.hpp>' >"$tree/models/m.cpp"
expect "SimGrid outside the engines" '^layering: models/m.cpp:1: SimGrid'
reset; echo '#include <cuda_runtime.h>' >"$tree/sim/engines/fluid/fluid.cpp"
expect "CUDA outside the runtime" '^layering: sim/engines/fluid/fluid.cpp:1: CUDA'
reset; echo '#include "nccl.h"' >"$tree/cli/main.cpp"
expect "NCCL outside the runtime" 'cli/main.cpp:1: NCCL'
reset; echo '#include <mpi.h>' >"$tree/cli/main.cpp"
expect "MPI outside its plugin" 'cli/main.cpp:1: MPI'
reset; echo 'see /home/someone/notes' >"$tree/README.md"
expect "a folder of one machine" '^layering: README.md:1: names a place'
reset; echo '// see docs/lost.md' >"$tree/models/m.cpp"
expect "a page that is not there" '^layering: models/m.cpp:1: names docs/lost.md'
reset; echo '// docs/sources.md R9' >"$tree/models/m.cpp"
expect "a rule that is not there" '^layering: models/m.cpp:1: docs/sources.md has no R9'
reset; echo '// docs/sources.md 1.7' >"$tree/models/m.cpp"
expect "a section that is not there" '^layering: models/m.cpp:1: docs/sources.md has no 1.7'

reset; echo '// nothing' >"$tree/base/b.hpp"
expect "a header that must not come twice" '^layering: base/b.hpp: a header without #pragma once'

reset; mkdir -p "$tree/tests/unit"; echo 'TEST_CASE("one; two") {}' >"$tree/tests/unit/a_test.cpp"
expect "a semicolon in a test's name" "^layering: tests/unit/a_test.cpp: a test's name"
reset; mkdir -p "$tree/tests/unit"; printf 'TEST_CASE(\n    "one; two") {}\n' >"$tree/tests/unit/a_test.cpp"
expect "a semicolon in a test's name on a line of its own" "^layering: tests/unit/a_test.cpp: a test's name"

((failures)) && exit 1
echo "layering self test: 15 violations, all noticed"
