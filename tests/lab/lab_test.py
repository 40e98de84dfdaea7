#!/usr/bin/env python3
"""lab_test.py PROGRAM CASE: the emulated cluster's hosts. Exit code 77, which ctest takes for skipped,
where there can be none; the reason is printed.

  bytes      what the links count is what the schedule says, within 5 %
  unplugged  a link is unplugged: every rank ends within its timeout and names who is missing
  gone       a lab that is told to end leaves nothing behind
"""
import json
import pathlib
import signal
import subprocess
import sys
import time

root = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(root / "validate" / "lab"))
from hosts import Hosts, why_not  # noqa: E402

program = str(pathlib.Path(sys.argv[1]).resolve())
lab = root / "validate" / "lab"
step = ["--model", str(lab / "mlp-5m.toml"), "--cluster", str(lab / "fast.toml"), "--precision", "fp32",
        "--seq-len", "128", "--micro-batch", "1"]


def launch(hosts, *words):
    return [program, "launch", "-n", str(hosts.count), "--hosts", hosts.names(), "--network", "data", *words]


def test_bytes():
    with Hosts(3, mbit=400) as hosts:
        scenario = [*step, "--nodes", "3", "--strategy", "fsdp2", "--json"]
        before = hosts.sent_bytes()
        code, out, err = hosts.run(launch(hosts, "run", "--steps", "2", *scenario), timeout=100)
        assert code == 0, err
        sent = [after - b for b, after in zip(before, hosts.sent_bytes())]
        kinds = json.loads(out)["bytes_sent_per_gpu"].values()
        wanted = 2 * sum(kind["inter_node"] for kind in kinds)
        # 4.9 M parameters: two all-gathers and a reduce-scatter of 2/3 of 20 MB each, two steps.
        assert 60e6 < wanted < 100e6, wanted
        for host, bytes_ in enumerate(sent):
            assert 1.0 <= bytes_ / wanted < 1.05, f"host {host} sent {bytes_} bytes, not {wanted}"


def test_unplugged():
    with Hosts(3, mbit=400) as hosts:
        scenario = [*step, "--nodes", "3", "--strategy", "ddp", "--watchdog", "2"]
        run = hosts.start(launch(hosts, "run", "--steps", "10000", *scenario),
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        before = hosts.sent_bytes()
        while hosts.sent_bytes()[1] < before[1] + 20e6:  # at work
            time.sleep(0.1)
        hosts.unplug(1)
        _, err = run.communicate(timeout=60)
        assert run.returncode != 0
        for rank in (0, 2):
            said = [line for line in err.splitlines() if line.startswith(f"stepcast: rank {rank}: ")]
            assert len(said) == 1 and "on communicator world waits for rank 1" in said[0], err
            assert "rank 1 does not answer" in said[0], err
        assert "stepcast: rank 1: " in err and "ranks 0, 2 do not answer" in err, err
        left = [pid for host in range(3) for pid in hosts.pids(host)]
        assert not left, f"processes are left on the hosts: {left}"


def test_gone():
    running = subprocess.Popen([sys.executable, str(lab / "lab.py"), program, "--fabric", "fast"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    name = f"stepcast-lab-{running.pid}-"
    spaces = lambda: [s for s in subprocess.run(["ip", "netns"], capture_output=True,
                                                text=True).stdout.split() if s.startswith(name)]
    until = time.time() + 60
    while len(spaces()) < 5 and time.time() < until:  # four hosts and the switch
        time.sleep(0.1)
    assert len(spaces()) == 5
    time.sleep(1)
    running.send_signal(signal.SIGTERM)
    _, err = running.communicate(timeout=60)
    assert "interrupted; the hosts are gone" in err, err
    assert running.returncode != 0 and not spaces(), spaces()


reason = why_not()
if reason:
    print(f"skipped: {reason}")
    sys.exit(77)
{"bytes": test_bytes, "unplugged": test_unplugged, "gone": test_gone}[sys.argv[2]]()
