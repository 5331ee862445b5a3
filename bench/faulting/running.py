"""Simulated Webs and crawls in processes of their own, and how what they left is compared."""

import json
import os
import re
import signal
import socket
import subprocess
import time
import urllib.request
from collections import Counter
from pathlib import Path

# A crawl that has not ended by then is stopped, and its case is not ok.
LIMIT_S = 600
# A crawl that is asked to stop has this long to commit.
STOP_S = 60
ANSWERS = ("response", "revisit")
# Hosts need not rest long after a fault: what a case measures is whether anything is lost.
QUICK = """
[politeness]
backoff_ms = 500
backoff_max_ms = 5000
ip_delay_ms = 0
response_time_factor = 0.0
[http]
connect_timeout_ms = 5000
first_byte_timeout_ms = 5000
read_timeout_ms = 5000
"""


class Failed(Exception):
    """What was promised did not hold."""


class Skipped(Exception):
    """This machine cannot run the case."""


def expect(holds, words):
    if not holds:
        raise Failed(words)


class Web:
    """`portolan simweb`. Its witness is asked over HTTP."""

    def __init__(self, options, folder, *arguments, preset="bench", port=0, runner=()):
        self.log = open(Path(folder) / "simweb.log", "w+")
        self.process = subprocess.Popen(
            [*runner, options.program, "simweb", "--preset", preset, "--port", str(port), "--seed", str(options.seed)]
            + [str(argument) for argument in arguments],
            stdout=self.log, stderr=subprocess.STDOUT,
        )  # fmt: skip
        found = wait_until(30, lambda: re.search(r"127\.0\.0\.1:\d+", self._said()) or self.process.poll() is not None)
        if not isinstance(found, re.Match):
            raise Failed(f"the simulated Web did not start: {self._said().strip()}")
        self.address = found[0]
        self.resolve = f"*.sim.test={self.address}"

    def _said(self):
        return Path(self.log.name).read_text()

    def ask(self, page):
        with urllib.request.urlopen(f"http://{self.address}/-/{page}", timeout=120) as answer:
            body = answer.read()
        return json.loads(body) if body.lstrip()[:1] in b"{[" else body

    def requests(self):
        return self.ask("witness")["requests"]

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.log.close()


class Crawl:
    """`portolan crawl` into a directory; killed in the end, if it has not ended by itself."""

    def __init__(self, options, out, *arguments, settings="", runner=(), environment=None):
        self.out = Path(out)
        config = []
        if settings:
            file = self.out.with_suffix(".toml")
            file.write_text(settings)
            config = ["--config", file]
        # Runs of one directory write into one log, one after the other.
        self.log = open(self.out.with_suffix(".log"), "a+")
        self.begin = self.log.seek(0, os.SEEK_END)
        self.process = subprocess.Popen(
            [*runner, options.program, "crawl", *arguments, *config, "--json", "--out", self.out],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self.log, text=True,
            env={**os.environ, **(environment or {})},
        )  # fmt: skip

    def said(self):
        """What this run has printed for people so far."""
        with open(self.log.name, errors="replace") as log:
            log.seek(self.begin)
            return log.read()

    def running(self):
        return self.process.poll() is None

    def end(self, limit_s=LIMIT_S):
        """Waits for its end; the exit code and the report."""
        try:
            printed, _ = self.process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGINT)
            try:
                self.process.communicate(timeout=STOP_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
            raise Failed(f"the crawl had not ended after {limit_s} s; last: {last_line(self.said())}") from None
        lines = printed.strip().splitlines()
        return self.process.returncode, json.loads(lines[-1]) if lines else {}

    def kill(self):
        self.process.kill()
        self.process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()
        self.log.close()


def ask(options, *arguments):
    """Runs a portolan command; exit code, what it printed, what it printed for people."""
    done = subprocess.run([options.program, *arguments], capture_output=True, text=True, errors="replace", timeout=LIMIT_S)
    return done.returncode, done.stdout, done.stderr


def json_lines(text):
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def archived(options, out):
    """How often each URL stands in the archive. robots.txt and where it has moved to are left out: each run asks for them."""
    _, printed, _ = ask(options, "warc", "list", out, "--json")
    urls = (record["url"] for record in json_lines(printed) if record["type"] in ANSWERS)
    return Counter(url for url in urls if "/robots" not in url)


def required(web):
    """The documents that a perfect crawler fetches."""
    return {url for url, page in web.ask("truth")["urls"].items() if page["kind"] == "document"}


def sound(options, out):
    """Fails unless `warc verify` and `check` find nothing."""
    for command in (["warc", "verify"], ["check"]):
        code, printed, error = ask(options, *command, out)
        words = [line for line in printed.splitlines() if "damaged" in line or "fault" in line or "not sound" in line]
        expect(code == 0, f"portolan {' '.join(command)} says: {' | '.join(words[:3]) or last_line(error + printed)}")


def complete(web, options, out):
    """Fails unless every page that was to be had is in the archive once; how many there are."""
    pages, times = required(web), archived(options, out)
    missing = sorted(pages - times.keys())
    expect(not missing, f"{len(missing)} of {len(pages)} pages are not archived, {missing[0] if missing else ''} first")
    twice = sorted(url for url, n in times.items() if n > 1)
    expect(not twice, f"{len(twice)} URLs are archived more than once, {twice[0] if twice else ''} first")
    return len(pages)


def ended_well(code, report, crawl):
    expect(code == 0, f"exit code {code}: {last_line(crawl.said())}")
    expect(report.get("stopped_by") == "done", f"stopped by {report.get('stopped_by')}")
    left = {name: report.get(name) for name in ("failed", "urls_due") if report.get(name)}
    return left


def wait_until(limit_s, condition, pause_s=0.05):
    """What the condition gives once it holds; None after so long."""
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline:
        value = condition()
        if value:
            return value
        time.sleep(pause_s)
    return None


def last_line(text):
    lines = [line for line in text.strip().splitlines() if line.strip()]
    return lines[-1].strip() if lines else "nothing was said"


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
