"""What bench/fleet measures: CPU of a fleet beside one machine's, a node that is added, a node that is lost."""

import json
import os
import shutil
import time

from faulting.running import Crawl, Web, ask, expect

from .store import Bucket, Directory
from .world import LEASE_S, SETTINGS, World, brief

TICKS = os.sysconf("SC_CLK_TCK")
# What one machine and each node are given; all else is as it comes.
LIMITS = "[limits]\nthreads = 1\nconnections = 64\n"


def cpu_s(pid):
    """CPU seconds of a process so far."""
    with open(f"/proc/{pid}/stat") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


class Meter:
    """CPU of processes that end by themselves: looked at until they do."""

    def __init__(self, processes):
        self.processes, self.seen = list(processes), {}

    def look(self):
        for process in self.processes:
            try:
                self.seen[process.pid] = cpu_s(process.pid)
            except OSError:
                pass

    def run(self, pause_s=0.05):
        """Until all have ended, as zombies whose CPU can still be read."""
        while any(state(process.pid) != "Z" for process in self.processes):
            time.sleep(pause_s)
        self.look()
        return sum(self.seen.values())


def state(pid):
    with open(f"/proc/{pid}/stat") as stat:
        return stat.read().rsplit(")", 1)[1].split()[0]


def single(options, folder, web):
    """One machine: pages, seconds, CPU seconds."""
    with Web(options, folder, *web, preset="bench") as served:
        settings = SETTINGS.format(web=served.address, delay_ms=0, ip_delay_ms=0, more=LIMITS)
        with Crawl(options, folder / "crawl", "http://h0.sim.test/", settings=settings) as crawl:
            begun = time.monotonic()
            used = Meter([crawl.process]).run()
            seconds = time.monotonic() - begun
            code, report = crawl.end()
            expect(code == 0 and report["stopped_by"] == "done", f"one machine: {crawl.said()[-200:]}")
    return {"pages": report["pages_this_run"], "seconds": seconds, "cpu": used}


def fleet(options, folder, web, nodes, servers):
    """A fleet of some nodes: the same, and what its servers used and moved."""
    store = Bucket if options.store == "s3" else Directory
    with World(options, folder, store, count=servers, web=web, preset="bench", delay_ms=0, ship_ms=2000, more=LIMITS) as world:
        nats, stores = world.servers.processes(), world.store.processes()
        before = sum(map(cpu_s, nats)), sum(map(cpu_s, stores))
        begun = time.monotonic()
        started = [world.node(f"node-{number}") for number in range(nodes)]
        meter = Meter(node.process for node in started)
        status, links = None, 0
        while any(state(node.process.pid) != "Z" for node in started):
            time.sleep(1)
            status = world.status()
            links = max(links, sum(told(node)["links_sent"] for node in status["nodes"].values()))
        seconds = time.monotonic() - begun
        meter.look()
        reports = world.end()
        exchanged = sum(server.monitored("varz")["in_bytes"] + server.monitored("varz")["out_bytes"] for server in world.servers.all)
        status = world.status()
        return {
            "pages": sum(report["pages_this_run"] for report in reports),
            "seconds": seconds,
            "cpu": sum(meter.seen.values()),
            "nats": sum(map(cpu_s, nats)) - before[0],
            "store": sum(map(cpu_s, stores)) - before[1] if stores else None,
            "exchanged": exchanged,
            "links": links,
            "shipped": sum(told(node)["shipped_bytes"] for node in status["nodes"].values()),
            "records": status["ship_records"],
        }


def told(node):
    return (node["reported"] or {}).get("status") or {"links_sent": 0, "shipped_bytes": 0}


# Slow servers and few connections: a node is as fast as its connections, whatever else runs on this machine.
SLOW = ["--hosts", 240, "--pages", 60, "--set", "latency.mean_ms=200", "--set", "latency.host_spread=0", "--set", "latency.answer_spread=0"]
SLOW += ["--set", "content.page_bytes=4000", "--set", "links.per_page=10"]
CONNECTIONS = 8
WINDOW_S, WITHIN_S = 10, 15


def paced(options, folder):
    limits = f"[limits]\nthreads = 1\nconnections = {CONNECTIONS}\n"
    return World(options, folder, Directory, web=SLOW, preset="bench", delay_ms=0, more=limits)


def rate(world, seconds):
    """Requests a second from now on."""
    begun, before = time.monotonic(), world.requests()
    time.sleep(seconds)
    return (world.requests() - before) / (time.monotonic() - begun)


def added(options, folder):
    """What a third node adds to two, from so long after its start on; share of what it should."""
    with paced(options, folder) as world:
        for name in ("a", "b"):
            world.node(name)
        world.wait_for(800)
        time.sleep(WITHIN_S)
        before = rate(world, WINDOW_S)
        world.node("c")
        time.sleep(WITHIN_S)
        after = rate(world, WINDOW_S)
        expect(all(node.running() for node in world.nodes), "the crawl ended too soon")
        return before, after, (after - before) / (before / 2)


def lost(options, folder):
    """Seconds from a node's loss until its partitions are with other nodes, and until their hosts are asked again, which is when their
    turn comes: medians and longest; how many of how many; and the rate meanwhile."""
    with paced(options, folder) as world:
        for name in ("a", "b", "c"):
            world.node(name)
        world.wait_for(2_000)
        world.web.ask("record?max=200000")
        victim = world.nodes[-1]
        shares = enumerate(world.status()["assignment"]["shares"])
        its = {number for number, share in shares if (share["holder"] or {}).get("node") == victim.name}
        victim.kill()
        world.web.ask("mark")
        shutil.rmtree(victim.dir)
        world.forget(victim)
        taken, begun, served = {}, time.monotonic(), world.requests()
        while time.monotonic() - begun < LEASE_S + 33:
            if len(taken) == len(its):
                time.sleep(1)
                continue
            for name, node in world.status()["nodes"].items():
                for partition in told(node).get("partitions", []):
                    if name != victim.name and partition["partition"] in its:
                        taken.setdefault(partition["partition"], time.monotonic() - begun)
        before = (world.requests() - served) / (time.monotonic() - begun)
        requests = world.web.ask("requests")
        expect(all(node.running() for node in world.nodes), "the crawl ended too soon")
        partition = {}
        for node in world.nodes:
            node.kill()
            _, printed, _ = ask(options, "urls", node.dir / "crawl", "--json")
            for row in map(json.loads, printed.splitlines()):
                partition[host(row["url"])] = row["partition"]
        # What the lost node had asked arrives before the next epoch begins.
        marked = max(request["begin_us"] for request in requests if request["epoch"] == 0)
        first = {}
        for request in requests:
            of = partition.get(host(request["url"]))
            if of in its and request["begin_us"] > marked:
                first[of] = min(first.get(of, 1e9), (request["begin_us"] - marked) / 1e6)
        expect(taken and first, f"nothing was taken over and asked again: {brief(world.status())}")
        return before, sorted(taken.values()), sorted(first.values()), len(its)


def host(url):
    return url.split("/")[2]
