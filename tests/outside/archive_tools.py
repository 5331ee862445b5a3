"""The demo's archive in the hands of others' tools: warcio checks it, cdxj-indexer writes the same index,
pywb replays it from our index, and the revisit records of a second session; and curl asks the simulated Web's witness."""

import contextlib
import json
import re
import shutil
import subprocess
import sys
import time
import urllib.error
import urllib.request

import archive_reading
import crawler
import nginx
from verdicts import Verdicts

MAX_TOOL_S = 300
MAX_START_S = 30
# What our index may say otherwise than cdxj-indexer does: (reason, rewrites our line to theirs). None so far.
DECLARED_DIFFERENCES = []


def run(*command):
    return subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=MAX_TOOL_S)


def check_demo(verdicts, out):
    done = run(crawler.binary(), "demo", "--out", out)
    telling = [line for line in done.stdout.splitlines()
               if re.search(r"ended because|faults|at byte|missed|complain", line)]
    verdicts.check(done.returncode == 0, "portolan demo is content with itself",
                   [f"exit code {done.returncode}", *done.stderr.splitlines()[-3:], *telling])


def check_warcio(verdicts, warcs):
    verdicts.check(bool(warcs), f"the demo left WARC files: {len(warcs)}")
    for warc in warcs:
        done = run(sys.executable, "-m", "warcio.cli", "check", "-v", warc)
        passed = done.stdout.count("digest pass")
        good = done.returncode == 0 and not done.stderr and passed > 0 and "fail" not in done.stdout
        verdicts.check(good, f"warcio check finds no fault in {warc.name}: {passed} records with right digests",
                       [line for line in done.stdout.splitlines() if "fail" in line] + done.stderr.splitlines())


def check_index(verdicts, out, warcs):
    ours = (out / "index.cdxj").read_bytes().splitlines()
    done = subprocess.run([sys.executable, "-c", "from cdxj_indexer.main import main; main()", *map(str, warcs)],
                          capture_output=True, timeout=MAX_TOOL_S)
    theirs = set(done.stdout.splitlines())
    verdicts.check(done.returncode == 0 and bool(theirs), f"cdxj-indexer reads the archive: {len(theirs)} lines",
                   done.stderr.decode("utf-8", "replace").splitlines()[-5:])
    verdicts.none_of((f"{a!r} before {b!r}" for a, b in zip(ours, ours[1:]) if a >= b),
                     f"our index is sorted by bytes, without repetition: {len(ours)} lines")
    mine = set(ours)
    used = set()
    for reason, rewrite in DECLARED_DIFFERENCES:
        for line in list(mine - theirs):
            if rewrite(line) in theirs:
                mine.remove(line)
                mine.add(rewrite(line))
                used.add(reason)
    verdicts.none_of(sorted(mine - theirs), "cdxj-indexer has all our lines")
    verdicts.none_of(sorted(theirs - mine), "our index has all its lines")
    verdicts.none_of((reason for reason, _ in DECLARED_DIFFERENCES if reason not in used),
                     "every declared difference is one")


def choose_pages(captures):
    """One document of each sort that a replay can get wrong: plain, compressed, a copy."""
    table = archive_reading.by_url(captures)
    sorts = {
        "a plain page": lambda c: c.kind == "response" and not c.encoding,
        "a gzip-encoded page": lambda c: c.kind == "response" and c.encoding == "gzip",
        "a copy": lambda c: c.kind == "revisit",
    }
    pages = []
    for sort, fits in sorts.items():
        for capture in captures:
            if capture.url.endswith("/robots.txt"):
                continue
            payload = archive_reading.payload_of(capture, table)
            if capture.status == 200 and fits(capture) and payload and not capture.truncated:
                pages.append((sort, capture, payload))
                break
    return pages


@contextlib.contextmanager
def pywb(verdicts, name, out, folder):
    """Its port, on a crawl's archive with the index as we wrote it; None if it does not start."""
    collection = folder / "wayback" / "collections" / name
    (collection / "archive").mkdir(parents=True)
    (collection / "indexes").mkdir()
    for warc in crawler.warcs(out):
        (collection / "archive" / warc.name).symlink_to(warc)
    shutil.copy(out / "index.cdxj", collection / "indexes" / "index.cdxj")
    port = nginx.free_port()
    log = open(folder / f"wayback-{name}.log", "wb")
    server = subprocess.Popen(
        [sys.executable, "-c", "from pywb.apps.cli import wayback; wayback()", "-p", str(port), "-b", "127.0.0.1"],
        cwd=folder / "wayback", stdout=log, stderr=log)
    try:
        ready = wait_for(f"http://127.0.0.1:{port}/{name}/", server)
        verdicts.check(ready, f"pywb starts on the archive of {name}")
        yield port if ready else None
    finally:
        server.terminate()
        server.wait(MAX_START_S)
        log.close()


def has_pywb():
    if run(sys.executable, "-c", "import pywb.apps.cli").returncode:
        # Optional also in CI: it drags in much that may not build on a new Python.
        print("not run: pywb")
        return False
    return True


def replays(verdicts, port, name, sort, capture, payload):
    stamp = re.sub(r"\D", "", capture.date)[:14]
    status, body = get(f"http://127.0.0.1:{port}/{name}/{stamp}id_/{capture.url}")
    verdicts.check(status == 200 and body == payload,
                   f"pywb replays {sort}, {len(payload)} bytes: {capture.url}",
                   [f"status {status}, {len(body)} bytes"])


def check_replay(verdicts, out, folder, warcs):
    if not has_pywb():
        return
    with pywb(verdicts, "demo", out, folder) as port:
        pages = choose_pages(archive_reading.captures(warcs)) if port else []
        verdicts.check(len(pages) == 3, "the archive has a page of each sort to replay", [sort for sort, _, _ in pages])
        for sort, capture, payload in pages:
            replays(verdicts, port, "demo", sort, capture, payload)


def check_sessions(verdicts, folder):
    """A second session's records of what has not changed: what its servers said so of, and what came again."""
    if not has_pywb():
        return
    out = folder / "sessions"
    with simweb(folder, "--hosts", "4", "--pages", "30", "--set", "changes.no_validators_share=0.4") as address:
        verdicts.check(bool(address), "portolan simweb says where it listens")
        if not address:
            return
        options = ["--scope", "any", "--delay", "0s", "--resolve", f"*.sim.test={address}"]
        done = [crawler.crawl(out, ["http://h0.sim.test/"], *options)[0]]
        first = {capture.date for capture in archive_reading.captures(crawler.warcs(out))}
        time.sleep(1)
        done.append(crawler.crawl(out, [], "--new-session")[0])
        verdicts.check(done == [0, 0], "a crawl of two sessions", done)
    captures = archive_reading.captures(crawler.warcs(out))
    table = archive_reading.by_url(captures)
    with pywb(verdicts, "sessions", out, folder) as port:
        for profile in ("server-not-modified", "identical-payload-digest") if port else ():
            again = [c for c in captures if c.profile == profile and c.date not in first and c.refers_to == c.url
                     and not c.url.endswith("/robots.txt") and archive_reading.payload_of(c, table)]
            verdicts.check(bool(again), f"the second session has revisit records of the profile {profile}: {len(again)}")
            for capture in again[:3]:
                payload = archive_reading.payload_of(capture, table)
                replays(verdicts, port, "sessions", f"an {profile} record", capture, payload)


@contextlib.contextmanager
def simweb(folder, *options):
    """Where a simulated Web listens; None if it does not say."""
    log = open(folder / "simweb.log", "w+b")
    web = subprocess.Popen([crawler.binary(), "simweb", "--port", "0", "--preset", "small", *options],
                           stdout=log, stderr=log)
    try:
        address, deadline = None, time.monotonic() + MAX_START_S
        while not address and time.monotonic() < deadline:
            time.sleep(0.05)
            address = re.search(r"served on (127\.0\.0\.1:\d+)", (folder / "simweb.log").read_text())
        yield address and address.group(1)
    finally:
        web.terminate()
        web.wait(MAX_START_S)
        log.close()


def check_witness(verdicts, folder):
    """curl against the control page, before and after it asked for a page."""
    curl = shutil.which("curl")
    if not curl:
        verdicts.not_run("the simulated Web's control page: no curl")
        return
    with simweb(folder) as address:
        verdicts.check(bool(address), "portolan simweb says where it listens")
        if not address:
            return
        base = f"http://{address}"
        empty = json.loads(run(curl, "-sS", "-f", f"{base}/-/witness").stdout or "{}")
        run(curl, "-sS", "-H", "Host: h0.sim.test", f"{base}/")
        run(curl, "-sS", "-H", "Host: h0.sim.test", f"{base}/")
        seen = json.loads(run(curl, "-sS", "-f", f"{base}/-/witness").stdout or "{}")
        figures = {name: seen.get(name) for name in ("requests", "repeats", "before_robots")}
        verdicts.check(empty.get("requests") == 0, "the witness has seen nothing at first", [empty])
        verdicts.check(figures == {"requests": 2, "repeats": 1, "before_robots": 2},
                       "the witness counts what curl does: two requests, one repeated, both before robots.txt",
                       [figures])
        report = run(curl, "-sS", "-f", f"{base}/-/report")
        verdicts.check(report.returncode == 0 and "robots.txt" in report.stdout,
                       "the witness's report can be read by curl", report.stdout.splitlines()[:5])


def get(url):
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as answer:
        return answer.code, answer.read()
    except OSError as error:
        return 0, str(error).encode()


def wait_for(url, process):
    deadline = time.monotonic() + MAX_START_S
    while time.monotonic() < deadline and process.poll() is None:
        if get(url)[0]:
            return True
        time.sleep(0.2)
    return False


def main():
    verdicts = Verdicts()
    folder = crawler.scratch("archive-tools")
    out = folder / "demo"
    check_demo(verdicts, out)
    warcs = crawler.warcs(out)
    check_warcio(verdicts, warcs)
    check_index(verdicts, out, warcs)
    check_replay(verdicts, out, folder, warcs)
    check_sessions(verdicts, folder)
    check_witness(verdicts, folder)
    verdicts.exit()


if __name__ == "__main__":
    main()
