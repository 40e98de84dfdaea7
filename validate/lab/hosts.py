"""Hosts that are network namespaces: N of them and a switch, with links shaped by tc.

    with Hosts(4, mbit=100) as hosts:
        hosts.run(["stepcast", "launch", ...])      # from host 0, as its user would
        hosts.sent_bytes()                          # by host, on the data network
        hosts.unplug(2)

Every host has two links, as in most clusters: `data`, which is shaped and carries the collectives,
and `ctl`, over which MPI starts and ends its daemons.

    host 0 ── data 10.77.0.1 ──┐                 ┌── switch: a bridge for data, one for ctl
           ── ctl  10.78.0.1 ──┤  veth pairs     │
    host 1 ...                 ┴─────────────────┘

A host's way out and its way in (the switch's way out) are limited by a token bucket each, so a link
is full duplex. Frames are jumbo frames (9,000 bytes): headers are under 1 %.

A program on a host sees that host's interfaces and name, and the files of this machine. Nothing is
changed outside the namespaces, and all of them are removed at the end, also after an error or a
signal; those of a lab that was killed, when the next one starts. Needs root and iproute2.
"""
import os
import re
import shutil
import signal
import subprocess
import tempfile

MTU = 9000


def why_not():
    """Why there can be no hosts here, in words; None where there can."""
    if os.geteuid() != 0:
        return "network namespaces need root"
    for tool in ("ip", "tc", "unshare", "mpirun"):
        if shutil.which(tool) is None:
            return f"{tool} is not installed (Debian: iproute2, util-linux, openmpi-bin)"
    name = f"stepcast-lab-{os.getpid()}-probe"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True)
    if made.returncode != 0:
        return "no network namespace can be made: " + made.stderr.strip()
    try:
        for command in (
            ["ip", "-n", name, "link", "add", "name", "a", "type", "veth", "peer", "name", "b"],
            ["tc", "-n", name, "qdisc", "add", "dev", "a", "root", "tbf", "rate", "1mbit", "burst",
             "18000", "latency", "1ms"],
        ):
            done = subprocess.run(command, capture_output=True, text=True)
            if done.returncode != 0:
                return f"`{' '.join(command[:1] + command[3:8])}` fails: {done.stderr.strip()}"
    finally:
        subprocess.run(["ip", "netns", "del", name], capture_output=True)
    return None


def remove_orphans():
    """Namespaces of a lab that was killed, and could not clean up."""
    names = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True).stdout
    for name, pid in re.findall(r"(?m)^(stepcast-lab-(\d+)-\S+)", names):
        if not os.path.exists(f"/proc/{pid}"):
            subprocess.run(["ip", "netns", "del", name], capture_output=True)


def ip(*words):
    subprocess.run(["ip", *words], check=True)


class Hosts:
    def __init__(self, count, mbit):
        self.count, self.mbit = count, mbit
        self.prefix = f"stepcast-lab-{os.getpid()}-"
        self.switch = self.prefix + "switch"
        self.folder = None
        self.running = []

    def space(self, host):
        return f"{self.prefix}{host}"

    # ---- Making and removing
    def __enter__(self):
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self._interrupted)
        remove_orphans()
        self.folder = tempfile.mkdtemp(prefix="stepcast-lab-")
        try:
            self._make()
        except BaseException:
            self.__exit__()
            raise
        return self

    @staticmethod
    def _interrupted(number, _frame):
        raise KeyboardInterrupt(signal.Signals(number).name)

    def _make(self):
        ip("netns", "add", self.switch)
        for bridge in ("data", "ctl"):
            ip("-n", self.switch, "link", "add", bridge, "mtu", str(MTU), "type", "bridge")
            ip("-n", self.switch, "link", "set", bridge, "up")
        for host in range(self.count):
            space = self.space(host)
            ip("netns", "add", space)
            ip("-n", space, "link", "set", "lo", "up")
            for net, address in (("data", f"10.77.0.{host + 1}/24"), ("ctl", f"10.78.0.{host + 1}/24")):
                port = f"{net}{host}"
                ip("-n", self.switch, "link", "add", port, "mtu", str(MTU), "type", "veth",
                   "peer", "name", net, "mtu", str(MTU), "netns", space)
                ip("-n", self.switch, "link", "set", port, "master", net, "up")
                # One frame at a time: what is sent last waits for frames, not for 64 KB batches.
                ip("-n", space, "link", "set", "dev", net, "gso_max_segs", "1")
                ip("-n", space, "addr", "add", address, "dev", net)
                ip("-n", space, "link", "set", net, "up")
            self._shape(host)
        # What mpirun calls to start its daemon on another host.
        agent = os.path.join(self.folder, "agent")
        with open(agent, "w", encoding="utf-8") as script:
            script.write("#!/bin/sh\n"
                         "# agent ADDRESS COMMAND...: as ssh would, into the host's namespace.\n"
                         "host=$((${1##*.} - 1)); shift\n"
                         f"exec ip netns exec {self.prefix}$host unshare --uts "
                         'sh -c "hostname lab$host; $*"\n')
        os.chmod(agent, 0o755)

    def _shape(self, host):
        bucket = ["root", "tbf", "rate", f"{self.mbit}mbit", "burst", "18000", "latency", "500ms"]
        for space, device in ((self.space(host), "data"), (self.switch, f"data{host}")):
            subprocess.run(["tc", "-n", space, "qdisc", "replace", "dev", device, *bucket], check=True)

    def __exit__(self, *_):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)  # to the end, once it has begun
        for process in self.running:
            self._end(process)
        # Whatever still lives on a host, as a daemon whose link was cut.
        for space in [*(self.space(h) for h in range(self.count)), self.switch]:
            pids = subprocess.run(["ip", "netns", "pids", space], capture_output=True, text=True)
            for pid in pids.stdout.split():
                try:
                    os.kill(int(pid), signal.SIGKILL)
                except ProcessLookupError:
                    pass
            subprocess.run(["ip", "netns", "del", space], capture_output=True)
        if self.folder:
            shutil.rmtree(self.folder, ignore_errors=True)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for number in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)

    # ---- Using
    def start(self, words, environment=None, **how):
        """Starts a command on host 0; MPI finds the other hosts. In a session of its own."""
        mca = {
            "OMPI_MCA_plm_rsh_agent": os.path.join(self.folder, "agent"),
            "OMPI_MCA_oob_tcp_if_include": "ctl",
            "OMPI_MCA_plm_rsh_no_tree_spawn": "1",
            # Sessions of all hosts lie in one folder, which goes when the lab goes.
            "OMPI_MCA_orte_tmpdir_base": self.folder,
        }
        command = ["ip", "netns", "exec", self.space(0), "unshare", "--uts", "sh", "-c",
                   'hostname lab0; exec "$@"', "sh", *words]
        process = subprocess.Popen(command, env={**os.environ, **mca, **(environment or {})},
                                   start_new_session=True, text=True, **how)
        self.running.append(process)
        return process

    def run(self, words, timeout=600, environment=None):
        """Returns exit code, stdout and stderr."""
        process = self.start(words, environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        try:
            out, err = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            self._end(process)
            out, err = process.communicate()
            err += f"\n(ended after {timeout} s)"
        self.running.remove(process)
        return process.returncode, out, err

    @staticmethod
    def _end(process):
        if process.poll() is not None:
            return
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(5)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()

    def names(self, per_host=1):
        """For `stepcast launch --hosts`."""
        return ",".join(f"10.78.0.{host + 1}:{per_host}" for host in range(self.count))

    def pids(self, host):
        return [int(p) for p in subprocess.run(["ip", "netns", "pids", self.space(host)],
                                               capture_output=True, text=True).stdout.split()]

    def sent_bytes(self):
        """Bytes that each host has sent on the data network, headers included."""
        counted = []
        for host in range(self.count):
            path = "/sys/class/net/data/statistics/tx_bytes"
            read = subprocess.run(["ip", "netns", "exec", self.space(host), "cat", path],
                                  capture_output=True, text=True, check=True)
            counted.append(int(read.stdout))
        return counted

    def unplug(self, host):
        ip("-n", self.switch, "link", "set", f"data{host}", "down")
