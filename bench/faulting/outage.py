"""A server that goes away and comes back: nginx stopped, and nginx that refuses everything."""

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

from .running import Crawl, archived, ended_well, expect, free_port, sound, wait_until

PAGES = 500
LINKS = 5
OUTAGE_S = 45
# The outage begins when this share of the pages has been answered.
BEGIN_SHARE = 0.3


def cases(options):
    server = find_nginx()
    name = "nginx" if server else "Python's http.server (no nginx here)"
    make = (lambda folder: Nginx(folder, server)) if server else PythonServer
    yield f"{name} stopped for {OUTAGE_S} s", lambda folder, _: outage(options, folder, make, stopped)
    yield f"{name} answers 503, then 502, for {OUTAGE_S} s", lambda folder, _: outage(options, folder, make, refusing)


def outage(options, folder, make, fault):
    with make(folder) as server:
        begin = [f"http://127.0.0.1:{server.port}/", "--delay", "50ms"]
        with Crawl(options, folder / "crawl", *begin) as crawl:
            begun = wait_until(120, lambda: sum(server.answered().values()) > PAGES * BEGIN_SHARE)
            expect(begun and crawl.running(), "the crawl did not come so far before the outage")
            fault(server)
            before = sum(server.answered().values())
            code, report = crawl.end()
            left = ended_well(code, report, crawl)
        answered = server.answered()
    times = archived(options, folder / "crawl")
    pages = {f"http://127.0.0.1:{server.port}{path}" for path in paths()}
    missing, twice = pages - times.keys(), [url for url, n in times.items() if n > 1]
    counted = (
        f"{before - 1} pages answered before its end, {sum(path in answered for path in paths())} of {len(pages)} in all, "
        f"{len(pages) - len(missing)} archived, {len(twice)} archived twice, "
        f"{sum(n - 1 for path, n in answered.items() if path != '/robots.txt')} asked for again after an answer"
    )
    expect(not missing and not twice and not left, f"{counted}; {left}")
    sound(options, folder / "crawl")
    return counted


def stopped(server):
    server.stop()
    time.sleep(OUTAGE_S)
    server.start()


def refusing(server):
    for status in (503, 502):
        flag = server.folder / str(status)
        flag.touch()
        time.sleep(OUTAGE_S / 2)
        flag.unlink()


def paths():
    return ["/"] + [f"/d{n % 10}/p{n}.html" for n in range(1, PAGES)]


def write_pages(folder):
    """Page n links to the next few, counted as in a heap, so that the Web is broad and every page is reached."""
    for n, path in enumerate(paths()):
        file = folder / (path.strip("/") or "index.html")
        file.parent.mkdir(parents=True, exist_ok=True)
        links = (paths()[m] for m in range(n * LINKS + 1, min(n * LINKS + LINKS + 1, PAGES)))
        anchors = "".join(f'<p><a href="{link}">{link}</a>' for link in links)
        file.write_text(f"<!doctype html><title>Page {n}</title><p>This is page {n}.{anchors}")
    (folder / "robots.txt").write_text("User-agent: *\nDisallow:\n")


def find_nginx():
    tools = Path(__file__).resolve().parent.parent.parent / "target" / "test-tools" / "nginx" / "usr" / "sbin" / "nginx"
    for program in (os.environ.get("PORTOLAN_NGINX"), shutil.which("nginx"), "/usr/sbin/nginx", tools):
        if program and os.access(program, os.X_OK):
            if subprocess.run([program, "-v"], capture_output=True).returncode == 0:
                return program
    return None


class Server:
    """A server of static pages that logs each answer in the common log format. While a file '503' or '502' lies in its
    folder, that is its answer to everything."""

    def __init__(self, folder):
        self.folder, self.port, self.process = folder, free_port(), None
        write_pages(folder / "pages")
        self.start()

    def start(self):
        self.process = subprocess.Popen(self.command(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        up = wait_until(20, self._listens)
        expect(up and self.process.poll() is None, f"{self.command()[0]} did not start")

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def answered(self):
        """How often each path was answered with 200."""
        counts = Counter()
        for line in (self.folder / "access.log").read_text().splitlines():
            parts = line.split('"')
            if len(parts) > 2 and parts[2].split()[0] == "200":
                counts[parts[1].split()[1]] += 1
        return counts

    def _listens(self):
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


class Nginx(Server):
    def __init__(self, folder, program):
        self.program = program
        refusals = "".join(f"if (-f {folder}/{status}) {{ return {status}; }} " for status in (503, 502))
        (folder / "access.log").touch()
        self.settings = (
            f"daemon off; worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/error.log; "
            "events { worker_connections 64; } "
            f"http {{ access_log {folder}/access.log; types {{ text/html html; text/plain txt; }} "
            + "".join(f"{name}_temp_path {folder}/{name}; " for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
            + "server { listen 127.0.0.1:%d; root %s/pages; %s} }"
        )
        self.refusals = refusals
        super().__init__(folder)

    def command(self):
        file = self.folder / "nginx.conf"
        user = "user root; " if os.geteuid() == 0 else ""
        file.write_text(user + self.settings % (self.port, self.folder, self.refusals))
        return [self.program, "-p", str(self.folder), "-c", str(file), "-e", str(self.folder / "error.log")]


class PythonServer(Server):
    def __init__(self, folder):
        (folder / "access.log").touch()
        super().__init__(folder)

    def command(self):
        return [sys.executable, str(Path(__file__).with_name("static_server.py")), str(self.port), str(self.folder)]
