#!/usr/bin/env bash
# docs/pictures/regenerate.sh PROGRAM: draws every picture of the documents anew with PROGRAM.
set -euo pipefail
program=$(readlink -f "${1:?usage: docs/pictures/regenerate.sh PROGRAM}")
cd "$(dirname "$0")/../.."

draw() { # NAME ARGUMENTS...
  local name=$1
  shift
  "$program" simulate "$@" --picture "docs/pictures/$name.svg" >/dev/null
}

draw llama-3-8b-fsdp2 examples/llama-3-8b-fsdp2-16-nodes.toml
# One small step that every strategy can run, on two nodes with a slow network so that the
# differences show.
common=(--model gpt2-medium --cluster dgx-a100 --nodes 2 --micro-batch 4 --nic-gbps 6.25)
draw ddp "${common[@]}" --strategy ddp
draw ddp-first-step "${common[@]}" --strategy ddp --step first
draw zero2 "${common[@]}" --strategy zero2
draw zero2-overlap "${common[@]}" --strategy zero2 --overlap-comm --reduce-bucket-size 50000000
draw zero3 "${common[@]}" --strategy zero3 --stage3-max-reuse-distance 0
draw fsdp1 "${common[@]}" --strategy fsdp1
draw fsdp2 "${common[@]}" --strategy fsdp2
draw hsdp "${common[@]}" --strategy hsdp
# The three generations on one node of 40 GB GPUs.
one_node=(--model gpt2-medium --cluster dgx-a100-320gb --micro-batch 4)
draw dp "${one_node[@]}" --strategy dp
draw ddp-one-node "${one_node[@]}" --strategy ddp
draw fsdp2-one-node "${one_node[@]}" --strategy fsdp2
# What FSDP1's rate limiter prevents.
draw fsdp1-no-limiter --model llama-2-7b --cluster dgx-a100 --strategy fsdp1 \
  --checkpointing full --limit-all-gathers false
# From 1 to 4,096 GPUs, and buckets of all sizes: with the tables of docs/scaling.md.
python3 docs/pictures/scaling.py "$program"
