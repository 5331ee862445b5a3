"""A node with many URLs that is drained: how long its hosts are left alone beyond their delays, as the Web's witness saw it."""

import json
import time

from faulting.running import ask, expect, wait_until

from .store import Directory
from .world import NAME, World, brief

DELAY_MS = 2_000
LEASE_S = 15
BEFORE_S, AFTER_S = 20, 25
# A node may take so long to find its URLs, and then to hand them over.
LIMIT_S = 1_200
# Few pages name many others, and hosts rest between requests: what is measured is how soon they are asked again.
DENSE = ["--hosts", 240, "--set", "links.per_page=1500", "--set", "links.off_host_share=0.3", "--set", "links.locality=0"]
DENSE += ["--set", "content.page_bytes=4000", "--set", "robots.odd_share=0", "--set", "latency.mean_ms=5"]
LIMITS = "[limits]\nthreads = 1\nconnections = 64\n"


def drained(options, folder):
    """What a node that is drained had, and in which time it was handed over; gaps between requests to its hosts beyond their
    delay, in seconds, before and across that."""
    web = [*DENSE, "--pages", options.drain_urls // 50]
    with World(options, folder, Directory, web=web, preset="bench", delay_ms=DELAY_MS, ship_ms=2000, more=LIMITS, lease_s=LEASE_S) as world:
        for name in ("a", "b"):
            world.node(name)
        victim = world.nodes[-1]
        expect(wait_until(LIMIT_S, lambda: known(world, victim.name) >= options.drain_urls, 1), f"{known(world, victim.name)} URLs: {brief(world.status())}")
        world.web.ask("record?max=1000000")
        time.sleep(BEFORE_S)
        shares = enumerate(world.status()["assignment"]["shares"])
        its = {number for number, share in shares if (share["holder"] or {}).get("node") == victim.name}
        urls = known(world, victim.name)
        world.web.ask("mark")
        begun = time.monotonic()
        world.ask("fleet", "drain", NAME, victim.name)
        expect(wait_until(LIMIT_S, lambda: world.holds(victim.name) == 0, 0.25), f"{victim.name} was not drained: {brief(world.status())}")
        took = time.monotonic() - begun
        time.sleep(AFTER_S)
        requests = world.web.ask("requests")
        witness = world.web.ask("witness")
        expect(not witness["violations"], f"the witness: {witness['violations'][:3]}")
        partition = {}
        for node in world.nodes:
            node.kill()
            _, printed, _ = ask(options, "urls", node.dir / "crawl", "--state", "visited", "--json")
            for row in map(json.loads, printed.splitlines()):
                partition[host(row["url"])] = row["partition"]
        before, across = {}, {}
        last = {}
        for request in sorted(requests, key=lambda request: request["begin_us"]):
            of = host(request["url"])
            if partition.get(of) not in its:
                continue
            if of in last:
                into = across if request["epoch"] else before
                gap = (request["begin_us"] - last[of]) / 1e6 - DELAY_MS / 1e3
                into[of] = max(into.get(of, 0.0), gap)
            last[of] = request["end_us"]
        expect(len(across) > len(before) / 2, f"{len(across)} of {len(before)} hosts were asked again: {brief(world.status())}")
        return {"partitions": len(its), "urls": urls, "took": took, "before": sorted(before.values()), "across": sorted(across.values())}


def known(world, name):
    """URLs that a node's partitions have."""
    reported = (world.status()["nodes"].get(name) or {}).get("reported") or {}
    return sum(partition["known"] for partition in reported.get("status", {}).get("partitions", []))


def host(url):
    return url.split("/")[2]
