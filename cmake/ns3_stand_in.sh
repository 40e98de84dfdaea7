#!/usr/bin/env bash
# ns3_stand_in.sh LIBSIMGRID FOLDER: puts stand-ins for the ns-3 libraries into FOLDER.
#
# Debian's SimGrid is linked to ns-3, 27 MB with what that brings, for a network model that stepcast
# never asks for (sim/engines). A bundle has no use for them, but the loader wants every library and
# every symbol that libsimgrid.so names. So the stand-ins have those names, some 120: functions that
# return their first argument (what a constructor, or a function that returns an object, returns),
# and zeroed tables. SimGrid's start-up makes a few empty ns-3 objects, which does nothing here; its
# ns-3 model would not work.
#
# x86-64; elsewhere it fails, and the caller takes the real libraries. Tested by tests/package/
# old_machine.sh: the bundle's program prints what the build's prints, with both engines of SimGrid.
set -euo pipefail
simgrid=${1:?usage: ns3_stand_in.sh LIBSIMGRID FOLDER} folder=${2:?folder}
[[ $(uname -m) == x86_64 ]] || exit 1
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

mapfile -t names < <(objdump -p "$simgrid" | awk '$1 == "NEEDED" && $2 ~ /^libns3-/ { print $2 }')
((${#names[@]})) || exit 0  # a SimGrid without ns-3
mapfile -t real < <(ldd "$simgrid" | awk '$1 ~ /^libns3-/ { print $3 }')

# Symbol and type of everything that ns-3 defines, then those that SimGrid wants.
nm -D --defined-only "${real[@]}" 2>/dev/null | awk 'NF == 3 { print $3, $2 }' | sort -u -k1,1 >"$work/defined"
nm -D --undefined-only "$simgrid" | awk '{ print $2 }' | sort -u |
  join - "$work/defined" >"$work/wanted"
{
  echo .text
  awk '$2 ~ /^[TWi]$/ {
    printf ".globl %s\n.type %s,@function\n%s: movq %%rdi, %%rax\n ret\n", $1, $1, $1 }' "$work/wanted"
  echo .data
  awk '$2 !~ /^[TWi]$/ {
    printf ".globl %s\n.type %s,@object\n.size %s, 1024\n.balign 32\n%s: .zero 1024\n", $1, $1, $1, $1 }' "$work/wanted"
  echo '.section .note.GNU-stack,"",@progbits'
} >"$work/names.s"
: >"$work/none.s"
for name in "${names[@]}"; do
  source=$work/none.s
  [[ $name == "${names[0]}" ]] && source=$work/names.s
  gcc -shared -nostdlib -Wl,-soname,"$name" -o "$folder/$name" "$source"
done
