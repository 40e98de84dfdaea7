#!/usr/bin/env bash
# old_machine.sh [SUITE]: the bundle of ./dev bundle on a distribution that is older than what built it.
#
# Makes a bare Debian (default bullseye, 2021; no compiler, no libraries beyond its own) with debootstrap,
# unpacks dist/stepcast-bundle-*.tar.gz in it and runs the program there, as a user who is nobody, from
# two places; where there is no GPU, gpu-check must say so in one line. Needs root, debootstrap and the
# Debian mirror of this machine's /etc/apt. The bare system is kept in build/old-machine/SUITE.tar;
# everything else is removed at the end, also after a failure: mounts go with their namespace.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."

die() {
  echo "old_machine: $*" >&2
  exit 1
}
((EUID == 0)) || die "needs root"
command -v debootstrap >/dev/null || die "needs debootstrap: apt-get install debootstrap"
if [[ -z ${STEPCAST_OLD_MACHINE_INSIDE:-} ]]; then
  STEPCAST_OLD_MACHINE_INSIDE=1 exec unshare --mount --propagation private bash "$0" "$@"
fi

suite=${1:-bullseye}
bundle=$(find dist -maxdepth 1 -name 'stepcast-bundle-*.tar.gz' -print -quit 2>/dev/null || true)
[[ -n $bundle ]] || die "no dist/stepcast-bundle-*.tar.gz: run ./dev bundle first"
cache=$PWD/build/old-machine
base=$cache/$suite.tar
mkdir -p "$cache"
machine=$(mktemp -d "$cache/machine.XXXXXX")
cleanup() {
  local status=$?
  cd /
  umount -R -l "$machine"/{proc,dev} 2>/dev/null || true
  rm -rf --one-file-system "$machine"
  exit "$status"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

# The mirror of this machine: the first URI of a Debian archive in deb822 or one-line files.
mirror() {
  {
    sed -nE 's,^URIs: *([^ ]+).*,\1,p' /etc/apt/sources.list.d/*.sources
    sed -nE 's,^deb +(\[[^]]*\] +)?([^ ]+) .*,\2,p' /etc/apt/sources.list /etc/apt/sources.list.d/*.list
  } 2>/dev/null | grep -v security
}

if [[ ! -f $base ]]; then
  from=$(mirror | head -n 1 || true)
  [[ -n $from ]] || die "no Debian mirror in /etc/apt"
  echo "== making a bare Debian ($suite)"
  debootstrap --variant=minbase "$suite" "$machine" "$from" >"$cache/debootstrap.log" 2>&1 || {
    tail -n 15 "$cache/debootstrap.log" >&2
    die "debootstrap failed (the whole log: $cache/debootstrap.log)"
  }
  rm -rf "$machine"/var/cache/apt/archives/*.deb
  tar -C "$machine" -cf "$base.part" .
  mv "$base.part" "$base"
else
  tar -C "$machine" -xf "$base"
fi
chmod 755 "$machine"
mount -t proc proc "$machine/proc"
mount --rbind /dev "$machine/dev"
mkdir -p "$machine/opt/here" "$machine/srv/a folder"
tar -C "$machine/opt/here" --strip-components=1 -xf "$bundle"
cp -a "$machine/opt/here/." "$machine/srv/a folder/"

inside() {  # SHELL TEXT: as nobody, with nothing of this machine's environment
  env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/tmp TERM=dumb \
    chroot --userspec=nobody:nogroup "$machine" bash -c "cd /tmp && $1" </dev/null
}
glibc=$(inside 'ldd --version 2>/dev/null | head -n 1' || true)
echo "== $suite: $glibc"
for place in /opt/here '"/srv/a folder"'; do
  echo "== from $place"
  inside "$place/stepcast --version"
  inside "$place/stepcast simulate --model llama-3-8b --cluster dgx-h100 --nodes 2 --strategy fsdp2" |
    tee "$cache/simulate.txt" | head -n 3
  inside "$place/stepcast run --model residual-mlp --cluster dgx-h100 --gpus 2 --strategy zero3 \
    --precision fp32 --compute train --float64" | tail -n 1
  if said=$(inside "$place/stepcast gpu-check 2>&1"); then
    echo "$said"
  else
    [[ $(wc -l <<<"$said") == 1 && $said == "stepcast: gpu-check: no GPU: "* ]] ||
      die "gpu-check said: $said"
    echo "$said"
  fi
done
echo "old machine: $suite: passed"
