"""Servers that go away and come back: nginx stopped, nginx that refuses everything, a DNS server that is silent."""

import os
import shutil
import signal
import socket
import struct
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

from .running import QUICK, Crawl, Web, archived, complete, ended_well, expect, free_port, required, sound, wait_until

PAGES = 500
LINKS = 5
OUTAGE_S = 45
SILENCE_S = 60
# The outage begins when this share of the pages has been answered.
BEGIN_SHARE = 0.3
DNS_HOSTS, DNS_PAGES = 20, 120
# Names are asked for again all the time.
DNS_SETTINGS = """
[dns]
servers = ["127.0.0.1:{port}"]
allow_networks = ["127.0.0.0/8"]
ttl_min_ms = 500
ttl_max_ms = 1000
timeout_ms = 3000
"""


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


def dns_cases(options):
    title = f"the DNS server says nothing for {SILENCE_S} s, {DNS_HOSTS} hosts"
    yield title, lambda folder, _: dns(options, folder)


def dns(options, folder):
    port = free_port()
    # Nothing stands in for the DNS server, so URLs carry the Web's port.
    shape = ["--hosts", DNS_HOSTS, "--pages", DNS_PAGES, "--set", f"url_port={port}"]
    # A connection that is kept needs no name: they are closed soon.
    shape += ["--set", "requests_per_connection=3"]
    with Web(options, folder, *shape, port=port) as web, Names() as names:
        begin = [f"http://h0.sim.test:{port}/", "--scope", "any", "--delay", "200ms"]
        settings = QUICK + DNS_SETTINGS.format(port=names.port)
        with Crawl(options, folder / "crawl", *begin, settings=settings) as crawl:
            pages = len(required(web))
            begun = wait_until(120, lambda: web.requests() > pages * BEGIN_SHARE)
            expect(begun and crawl.running(), "the crawl did not come so far before the silence")
            names.silent.set()
            time.sleep(5)
            at_first = web.requests()
            time.sleep(SILENCE_S - 5)
            meanwhile = web.requests() - at_first
            names.silent.clear()
            code, report = crawl.end()
            left = ended_well(code, report, crawl)
            said = "No network since" in crawl.said()
        pages = complete(web, options, folder / "crawl")
        witness = web.ask("witness")
    counted = (
        f"{names.asked:,} questions, {names.unanswered:,} without an answer, {meanwhile} requests in the silence, "
        f"{pages} of {pages} pages archived, {witness['repeats']} asked for twice, "
        f"{'it said that there was no network' if said else 'nothing said of the network'}"
    )
    expect(names.unanswered > 0 and meanwhile < pages / 10, f"{counted}; the silence disturbed nobody")
    expect(not left and witness["repeats"] == 0, f"{counted}; {left}")
    sound(options, folder / "crawl")
    return counted


class Names:
    """A DNS server: 127.0.0.1 for every A question below sim.test, nothing at all while it is silent."""

    A, IN, TTL_S = 1, 1, 1

    def __init__(self):
        self.silent = threading.Event()
        self.done = threading.Event()
        self.asked = self.unanswered = 0
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(("127.0.0.1", 0))
        self.socket.settimeout(0.2)
        self.port = self.socket.getsockname()[1]
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _serve(self):
        while not self.done.is_set():
            try:
                question, sender = self.socket.recvfrom(2048)
            except OSError:
                continue
            self.asked += 1
            if self.silent.is_set():
                self.unanswered += 1
            else:
                self.socket.sendto(self._answer(question), sender)

    def _answer(self, question):
        end = 12
        while question[end] != 0:
            end += question[end] + 1
        end += 5
        name = question[12 : end - 4].lower()
        kind = struct.unpack(">H", question[end - 4 : end - 2])[0]
        known = name.endswith(b"\x03sim\x04test\x00")
        count = 1 if known and kind == self.A else 0
        flags = 0x8180 if known else 0x8183
        head = question[:2] + struct.pack(">HHHHH", flags, 1, count, 0, 0)
        record = struct.pack(">HHHIH4B", 0xC00C, self.A, self.IN, self.TTL_S, 4, 127, 0, 0, 1)
        return head + question[12:end] + record * count

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.done.set()
        self.thread.join()
        self.socket.close()
