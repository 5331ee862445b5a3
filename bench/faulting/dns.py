"""A DNS server that says nothing for a while."""

import socket
import struct
import threading
import time

from .running import QUICK, Crawl, Web, complete, ended_well, expect, free_port, required, sound, wait_until

SILENCE_S = 60
# The silence begins when this share of the pages has been asked for.
BEGIN_SHARE = 0.3
HOSTS, PAGES = 20, 120
# Names are asked for again all the time.
SETTINGS = """
[dns]
servers = ["127.0.0.1:{port}"]
allow_networks = ["127.0.0.0/8"]
ttl_min_ms = 500
ttl_max_ms = 1000
timeout_ms = 3000
"""


def cases(options):
    title = f"the DNS server says nothing for {SILENCE_S} s, {HOSTS} hosts"
    yield title, lambda folder, _: dns(options, folder)


def dns(options, folder):
    port = free_port()
    # Nothing stands in for the DNS server, so URLs carry the Web's port.
    shape = ["--hosts", HOSTS, "--pages", PAGES, "--set", f"url_port={port}"]
    # A connection that is kept needs no name: they are closed soon.
    shape += ["--set", "requests_per_connection=3"]
    with Web(options, folder, *shape, port=port) as web, Names() as names:
        begin = [f"http://h0.sim.test:{port}/", "--scope", "any", "--delay", "200ms"]
        settings = QUICK + SETTINGS.format(port=names.port)
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
