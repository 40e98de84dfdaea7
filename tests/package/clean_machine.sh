#!/usr/bin/env bash
# clean_machine.sh [demo|test|package]...: what a newcomer gets on a fresh Debian 12.
#
# Makes a bare Debian (debootstrap, minbase: no compiler, no git, no sudo) in a folder, puts a fresh
# `git clone` of the last commit into it, and there
#   demo      runs ./dev demo
#   test      runs ./dev test
#             each first as a user who may install nothing (one line says what is missing), and at
#             the end once more without a network (nothing is left to fetch)
#   package   installs dist/stepcast_*.deb (made by ./dev package) with apt, runs stepcast --version
#             and a forecast, then the program out of dist/*.tar.gz; installs stepcast-dev and builds
#             tests/consumer with it
# Default: demo test. Needs root, debootstrap and a Debian mirror; mirror and apt settings are those
# of this machine's /etc/apt. The bare system is kept in build/clean-machine/base.tar for the next
# run; --fresh makes it anew. Everything else is removed at the end, also after a failure: mounts
# live in a mount namespace of their own and go with it.
set -euo pipefail
cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")/../.."

die() {
  echo "clean_machine: $*" >&2
  exit 1
}
((EUID == 0)) || die "needs root"
command -v debootstrap >/dev/null || die "needs debootstrap: apt-get install debootstrap"
if [[ -z ${STEPCAST_CLEAN_MACHINE_INSIDE:-} ]]; then
  STEPCAST_CLEAN_MACHINE_INSIDE=1 exec unshare --mount --propagation private bash "$0" "$@"
fi

suite=bookworm
cache=$PWD/build/clean-machine
base=$cache/base.tar
fresh=0
tasks=()
for argument; do
  case $argument in
    --fresh) fresh=1 ;;
    demo | test | package) tasks+=("$argument") ;;
    *) die "'$argument' is not accepted; accepted: demo, test, package, --fresh" ;;
  esac
done
((${#tasks[@]})) || tasks=(demo test)
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

# The mirror that this machine itself uses for the suite: deb822 files first, then one-line ones.
mirror() {
  local file
  for file in /etc/apt/sources.list.d/*.sources; do
    [[ -f $file ]] || continue
    awk -v suite="$suite" 'BEGIN { RS = ""; FS = "\n" } {
      uri = ""; match_suite = 0
      for (i = 1; i <= NF; i++) {
        if ($i ~ /^URIs:/) { split($i, part, /[ \t]+/); uri = part[2] }
        if ($i ~ /^Suites:/ && $i ~ ("[ \t]" suite "([ \t]|$)")) match_suite = 1
      }
      if (uri != "" && match_suite) { print uri; exit }
    }' "$file"
  done
  { cat /etc/apt/sources.list /etc/apt/sources.list.d/*.list 2>/dev/null || true; } |
    sed -nE "s,^deb +(\[[^]]*\] +)?([^ ]+) +$suite .*,\2,p"
}

begin() {
  began=$(date +%s)
  echo "== $*"
}
end() { echo "== took $(($(date +%s) - began)) s"; }

if ((fresh)) || [[ ! -f $base ]]; then
  begin "making a bare Debian ($suite, minbase)"
  from=$(mirror | head -n 1 || true)
  [[ -n $from ]] || die "no mirror for $suite in /etc/apt"
  debootstrap --variant=minbase "$suite" "$machine" "$from" >"$cache/debootstrap.log" 2>&1 || {
    tail -n 15 "$cache/debootstrap.log" >&2
    die "debootstrap failed (the whole log: $cache/debootstrap.log)"
  }
  # apt inside asks the same mirrors in the same way, and starts with no package lists and no cache.
  rm -rf "$machine"/etc/apt/sources.list "$machine"/var/lib/apt/lists/* "$machine"/var/cache/apt/*.bin \
    "$machine"/var/cache/apt/archives/*.deb
  cp -a /etc/apt/sources.list "$machine/etc/apt/" 2>/dev/null || true
  mkdir -p "$machine/etc/apt/sources.list.d" "$machine/etc/apt/apt.conf.d"
  cp -a /etc/apt/sources.list.d/debian* "$machine/etc/apt/sources.list.d/" 2>/dev/null || true
  # Settings of transport (proxies, certificates, clocks), not hooks that need other programs.
  apt-config dump | grep -E '^Acquire::(http|https|Check|Max|Retries|AllowReleaseInfoChange)' |
    grep -v '""' >"$machine/etc/apt/apt.conf.d/90clean-machine" || true
  tar -C "$machine" -cf "$base.part" .
  mv "$base.part" "$base"
  end
else
  begin "unpacking the bare Debian of $(date -r "$base" +%F)"
  tar -C "$machine" -xf "$base"
  end
fi

chmod 755 "$machine"  # mktemp made it ours alone
cp -L /etc/resolv.conf /etc/hosts "$machine/etc/" 2>/dev/null || true
mount -t proc proc "$machine/proc"
mount --rbind /dev "$machine/dev"
# inside [COMMAND PREFIX...] -- SHELL TEXT: runs as root on the clean machine with nothing of this
# one's environment.
inside() {
  local prefix=()
  while [[ $1 != -- ]]; do prefix+=("$1") && shift; done
  "${prefix[@]}" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TERM=dumb \
    chroot "$machine" bash -c "$2" </dev/null
}
for program in gcc g++ cmake ninja git ccache sudo; do
  ! inside -- "command -v $program" >/dev/null || die "the bare Debian has $program"
done

if [[ " ${tasks[*]} " == *" demo "* || " ${tasks[*]} " == *" test "* ]]; then
  git -c safe.directory='*' clone -q --no-hardlinks . "$machine/stepcast"
fi
for task in "${tasks[@]}"; do
  begin "$task"
  case $task in
    demo | test)
      if [[ $task == "${tasks[0]}" ]]; then
        if refused=$(inside -- "setpriv --reuid=nobody --clear-groups /stepcast/dev $task 2>&1"); then
          die "./dev $task worked without anything installed?"
        fi
        [[ $refused == "dev: needs root or sudo once, to run: apt-get install "* &&
          $(wc -l <<<"$refused") == 1 ]] || die "to a user who may install nothing it said: $refused"
      fi
      inside -- "cd / && /stepcast/dev $task"
      end
      begin "$task again, nothing changed, no network"
      inside unshare --net -- "cd /stepcast && ./dev $task" >"$cache/again.log" ||
        die "$task failed the second time: $cache/again.log"
      ;;
    package)
      ls dist/*.deb >/dev/null 2>&1 || die "no dist/*.deb: run ./dev package first"
      mkdir -p "$machine/dist"
      cp dist/* "$machine/dist/"
      cp -r tests/consumer "$machine/consumer"
      # shellcheck disable=SC2016  # expanded on the clean machine
      inside -- 'set -e
        export DEBIAN_FRONTEND=noninteractive
        apt-get -qq update
        apt-get -qq -y install --no-install-recommends /dist/stepcast_*.deb >/dist/apt.log 2>&1 ||
          { tail -n 15 /dist/apt.log; exit 1; }
        cd /tmp
        stepcast --version
        stepcast simulate --model llama-3-8b --cluster dgx-h100 --nodes 2 --strategy fsdp2
        ls /usr/share/doc/stepcast
        mkdir /opt/unpacked
        tar -C /opt/unpacked --strip-components=1 -xf /dist/stepcast-*.tar.gz
        $(find /opt/unpacked -path "*/bin/stepcast" -type f) --version
        apt-get -qq -y install --no-install-recommends /dist/stepcast-dev_*.deb g++ cmake make \
          >/dist/apt.log 2>&1 || { tail -n 15 /dist/apt.log; exit 1; }
        cmake -S /consumer -B /tmp/consumer -Wno-dev >/dist/consumer.log && cmake --build /tmp/consumer \
          >>/dist/consumer.log || { tail -n 15 /dist/consumer.log; exit 1; }
        /tmp/consumer/consumer
        dpkg --purge stepcast stepcast-dev >/dev/null
        [ ! -e /usr/bin/stepcast ]'
      ;;
  esac
  end
done
echo "clean machine: ${tasks[*]}: passed"
