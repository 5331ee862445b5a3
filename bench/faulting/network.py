"""The network between the crawler and the Web goes away. Both run in network namespaces of their own, joined by a veth pair,
which vanish with their processes: nothing of the machine's network is touched."""

import asyncio
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

from .running import QUICK, Crawl, Failed, Skipped, Web, complete, ended_well, expect, last_line, required, sound, wait_until

HOSTS, PAGES = 60, 70
CUT_S = 60
BEGIN_SHARE = 0.3
WEB_IP, CRAWLER_IP = "10.77.13.1", "10.77.13.2"
LIMIT_S = 900
# Which end of the pair goes down, and what the crawler sees then.
CUTS = {
    "cable": f"the link to {HOSTS} hosts silent for {CUT_S} s",
    "interface": f"the crawler's own interface down for {CUT_S} s, {HOSTS} hosts",
}


def cases(options):
    for cut, title in CUTS.items():
        yield title, lambda folder, _, cut=cut: outside(options, folder, cut)


def outside(options, folder, cut):
    """Runs this program again in a network namespace."""
    unshare = ["unshare", "--net"] + (["--map-root-user"] if os.geteuid() != 0 else [])
    probe = [*unshare, "sh", "-c", "ip link set lo up && ip link add v0 type veth peer name v1"]
    try:
        tried = subprocess.run(probe, capture_output=True, text=True)
    except FileNotFoundError:
        raise Skipped("unshare is not there") from None
    if tried.returncode != 0:
        raise Skipped(f"no network namespace with a veth pair can be made here ({tried.stderr.strip()})")
    again = [sys.executable, sys.argv[0], "--inside", cut, "--program", options.program, "--seed", str(options.seed)]
    process = subprocess.Popen([*unshare, *again, "--dir", folder], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        printed, error = process.communicate(timeout=LIMIT_S)
    except BaseException:
        process.kill()
        process.wait()
        raise
    counted = printed.strip()
    if process.returncode != 0:
        raise Failed(counted or last_line(error))
    return counted


def inside(options):
    """In the namespace: prints what was counted; the exit code."""
    try:
        print(cut_while_crawling(options, Path(options.dir), options.inside))
        return 0
    except Failed as failure:
        print(failure)
        return 1


def cut_while_crawling(options, folder, cut):
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    with Web(options, folder, "--hosts", HOSTS, "--pages", PAGES) as web, Namespace() as other, Forwarder(web.address) as door:
        begin = ["http://h0.sim.test/", "--scope", "any", "--delay", "500ms", "--resolve", f"*.sim.test={WEB_IP}:{door.port}"]
        with Crawl(options, folder / "crawl", *begin, settings=QUICK, runner=other.enter) as crawl:
            pages = len(required(web))
            begun = wait_until(180, lambda: web.requests() > pages * BEGIN_SHARE)
            expect(begun and crawl.running(), "the crawl did not come so far before the cut")
            before = web.requests()
            other.link(cut, "down")
            time.sleep(CUT_S)
            meanwhile = web.requests() - before
            other.link(cut, "up")
            code, report = crawl.end()
            left = ended_well(code, report, crawl)
            said = [line.strip() for line in crawl.said().splitlines() if "No network since" in line]
        pages = complete(web, options, folder / "crawl")
        witness = web.ask("witness")
    counted = (
        f"{before} requests before, {meanwhile} meanwhile, {pages} of {pages} pages archived, {witness['repeats']} asked for "
        f"twice, away for {report['network_gone_seconds']:.0f} s as the crawl saw it, said: {said[0] if said else 'nothing'}"
    )
    # A request that was under way at the cut reaches the Web afterwards, out of the kernel's buffers, and is asked again.
    expect(not left and said and witness["repeats"] <= HOSTS, f"{counted}; {left}")
    sound(options, folder / "crawl")
    return counted


class Namespace:
    """The crawler's network namespace; it lasts as long as a process that sleeps in it."""

    def __init__(self):
        self.sleeper = subprocess.Popen(["unshare", "--net", "sleep", str(LIMIT_S)])
        mine = os.readlink("/proc/self/ns/net")
        wait_until(10, lambda: os.readlink(f"/proc/{self.sleeper.pid}/ns/net") != mine)
        self.enter = ["nsenter", "--net", "--target", str(self.sleeper.pid)]
        pair = f"ip link add v0 type veth peer name v1 netns {self.sleeper.pid}"
        for here in (pair, f"ip addr add {WEB_IP}/24 dev v0", "ip link set v0 up"):
            subprocess.run(here.split(), check=True)
        for there in ("ip link set lo up", f"ip addr add {CRAWLER_IP}/24 dev v1", "ip link set v1 up"):
            subprocess.run([*self.enter, *there.split()], check=True)

    def link(self, cut, state):
        if cut == "cable":
            subprocess.run(["ip", "link", "set", "v0", state], check=True)
        else:
            subprocess.run([*self.enter, "ip", "link", "set", "v1", state], check=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.sleeper.kill()
        self.sleeper.wait()


class Forwarder:
    """Joins the pair's end to the Web, which listens on loopback alone."""

    listens_on = WEB_IP

    def __init__(self, address):
        self.target = address.rsplit(":", 1)
        self.loop = asyncio.new_event_loop()
        self.port = 0
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.thread.start()
        expect(wait_until(10, lambda: self.port), "the forwarder did not start")

    def _run(self):
        asyncio.set_event_loop(self.loop)
        server = self.loop.run_until_complete(asyncio.start_server(self._join, self.listens_on, 0))
        self.port = server.sockets[0].getsockname()[1]
        self.loop.run_forever()
        # Connections that are still open end with the Web.
        for task in asyncio.all_tasks(self.loop):
            task.cancel()
        self.loop.run_until_complete(asyncio.sleep(0))

    async def _join(self, reader, writer):
        try:
            far_reader, far_writer = await asyncio.open_connection(self.target[0], int(self.target[1]))
        except OSError:
            return writer.close()
        await asyncio.gather(self._pump(reader, far_writer), self._pump(far_reader, writer))

    async def _pump(self, reader, writer):
        try:
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        writer.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.loop.call_soon_threadsafe(self.loop.stop)
        self.thread.join(timeout=5)
