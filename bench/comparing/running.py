"""One simulated Web, and runs of crawlers against it: pinned to cores, measured by the kernel, judged by
the Web's witness."""

import json
import os
import signal
import subprocess
import threading
import time
import urllib.request
from pathlib import Path

SUFFIX = "sim.test"
# Pages that robots.txt forbids: without any, obeying could not be told from not asking.
FORBIDDEN_SHARE = 0.02
SERVER_CORE, CRAWLER_CORE = "0", "1"
STOP_GRACE_S = 20
SAMPLE_S = 0.2


class Web:
    """`portolan simweb` on the server's core. URLs carry its port, so that no peer needs to be told."""

    def __init__(self, portolan, hosts, pages, port, log):
        self.hosts, self.port = hosts, port
        self.seed = f"http://h0.{SUFFIX}:{port}/"
        # fmt: off
        self.command = [
            "taskset", "-c", SERVER_CORE, str(portolan), "simweb", "--preset", "bench",
            "--hosts", str(hosts), "--pages", str(pages), "--port", str(port),
            "--set", f"url_port={port}", "--set", f"robots.forbidden_share={FORBIDDEN_SHARE}",
        ]
        # fmt: on
        self.process = subprocess.Popen(self.command, stdout=open(log, "w"), stderr=subprocess.STDOUT)
        self._wait_until_up(log)

    def _wait_until_up(self, log):
        for _ in range(300):
            if self.process.poll() is not None:
                raise SystemExit(f"the simulated Web did not start: {Path(log).read_text().strip()}")
            try:
                return self.ask("spec")
            except OSError:
                time.sleep(0.1)
        raise SystemExit("the simulated Web does not answer")

    def ask(self, page):
        # The name in the URL is no host of the Web, so the witness answers.
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/-/{page}", timeout=300) as answer:
            body = answer.read()
        return json.loads(body) if body.lstrip()[:1] in b"{[" else body

    def hosts_file(self):
        names = "".join(f"127.0.0.1 h{n}.{SUFFIX}\n" for n in range(self.hosts))
        return "127.0.0.1 localhost\n" + names

    def close(self):
        self.process.terminate()
        self.process.wait()


def run(web, command, folder, limit_s, environment):
    """Runs a crawler to its end or its time limit; what the kernel and the witness say of it."""
    web.ask("reset")
    load_before = os.getloadavg()[0]
    with open(Path(folder) / "output.log", "w") as log:
        begun = time.monotonic()
        process = subprocess.Popen(
            ["taskset", "-c", CRAWLER_CORE, *map(str, command)],
            stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
            cwd=folder, env={**os.environ, **environment}, start_new_session=True,
        )  # fmt: skip
        memory = Memory(process.pid)
        try:
            status, usage, stopped = wait(process.pid, limit_s)
        except BaseException:
            # Interrupted: it is in a session of its own and would go on alone.
            os.killpg(process.pid, signal.SIGKILL)
            raise
        finally:
            memory.end()
        seconds = time.monotonic() - begun
    process.returncode = os.waitstatus_to_exitcode(status)
    verdict = web.ask("verdict")
    cpu_s = usage.ru_utime + usage.ru_stime
    pages = verdict["fetched"]
    return {
        "exit_code": process.returncode,
        "stopped_by_time": stopped,
        "seconds": seconds,
        "cpu_seconds": cpu_s,
        "pages": pages,
        # From the first request to the last answer: neither starting nor winding up counts.
        "pages_per_second": pages / max(verdict["seconds"], 1e-9),
        "cpu_us_per_page": 1e6 * cpu_s / pages if pages else None,
        "peak_rss_bytes": memory.peak_bytes,
        "load_average": [load_before, os.getloadavg()[0]],
        "witness": verdict,
        "stored_bytes": stored(folder),
    }


def wait(pid, limit_s):
    """Waits with the usage of the process and of all that it waited for. A crawler that is not done in
    time is asked to stop, then made to."""
    deadline, stopped = time.monotonic() + limit_s, None
    while True:
        done, status, usage = os.wait4(pid, os.WNOHANG)
        if done:
            return status, usage, stopped is not None
        now = time.monotonic()
        if stopped is None and now > deadline:
            stopped = now
            os.killpg(pid, signal.SIGINT)
        elif stopped is not None and now > stopped + STOP_GRACE_S:
            os.killpg(pid, signal.SIGKILL)
            stopped = now
        time.sleep(0.05)


class Memory:
    """The most that a process and its children had resident, looked at a few times a second. The kernel's
    own figure for a child that has ended starts with the memory of whoever started it."""

    def __init__(self, pid):
        self.pid, self.peak_bytes, self.done = pid, 0, threading.Event()
        self.thread = threading.Thread(target=self._watch)
        self.thread.start()

    def end(self):
        self.done.set()
        self.thread.join()

    def _watch(self):
        while not self.done.wait(SAMPLE_S):
            total = sum(high_water_bytes(pid) for pid in family(self.pid))
            self.peak_bytes = max(self.peak_bytes, total)


def family(pid):
    members = [pid]
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            for child in task.read_text().split():
                members += family(int(child))
        except OSError:
            pass
    return members


def high_water_bytes(pid):
    try:
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0


def stored(folder):
    """Bytes below the run's folder; its log does not count."""
    total = 0
    for path, _, names in os.walk(folder):
        for name in names:
            file = Path(path) / name
            if name != "output.log" and not file.is_symlink():
                total += file.stat().st_size
    return total
