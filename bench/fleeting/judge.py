"""What a fleet has left, compared with what one machine makes of the same Web."""

import json
import subprocess
from collections import Counter

from faulting.running import ANSWERS, Crawl, Web, ask, ended_well, expect, json_lines, required

from .world import NAME, SETTINGS, SMALL, shape

# What is the same whoever fetched a page, and when. Depth is not: it is that of the first link that was heard.
FACTS = ("state", "reason", "status", "back_links")
REFERENCES = {}


def reference(options, web, delay_ms=0):
    """URLs, states and back-link counts as one machine has them, of a Web like `web`'s."""
    key = (tuple(map(str, web)), options.seed)
    if key not in REFERENCES:
        folder = options.scratch / f"single-{len(REFERENCES)}"
        folder.mkdir()
        with Web(options, folder, *web, preset="demo") as served:
            settings = SETTINGS.format(web=served.address, delay_ms=delay_ms, ip_delay_ms=0, more=SMALL)
            with Crawl(options, folder / "crawl", "http://h0.sim.test/", settings=settings) as crawl:
                code, report = crawl.end()
                ended_well(code, report, crawl)
        REFERENCES[key] = facts(options, folder / "crawl")
    return REFERENCES[key]


def facts(options, directory):
    """What a registry says of each URL."""
    return read(rows_of(options, directory))


def rows_of(options, directory):
    code, printed, error = ask(options, "urls", directory, "--json")
    expect(code == 0, f"portolan urls {directory}: {error}")
    return list(map(json.loads, printed.splitlines()))


def read(rows):
    known = {}
    for row in rows:
        # A robots.txt that is asked for again, because its host fails, names its sitemaps again.
        if row["found_as"] == "sitemap" and row["depth"] == 0:
            row["back_links"] = bool(row["back_links"])
        known[row["url"]] = tuple(row.get(fact) for fact in FACTS)
    return known


def same(options, world, web):
    """Fails unless the store knows what one machine knows, and the nodes that are left, too; how many URLs that is."""
    expected, rows = reference(options, web), []
    for node in world.nodes:
        rows += rows_of(options, node.dir / "crawl")
    found = read(rows)
    expect(len(found) == len(rows), f"{len(rows) - len(found)} URLs are known to two nodes")
    stored = list(map(json.loads, world.ask("fleet", "urls", NAME, "--json").splitlines()))
    compare(expected, read(stored), "the store")
    if world.lost:
        # A node that was lost when the crawl was over has no successor: its partitions are in the store alone.
        held = {row["partition"] for row in rows}
        expected = {row["url"]: expected[row["url"]] for row in stored if row["partition"] in held}
    compare(expected, found, "the nodes")
    return len(stored)


def compare(expected, found, whose):
    lost, more = sorted(expected.keys() - found.keys()), sorted(found.keys() - expected.keys())
    other = sorted(url for url in expected.keys() & found.keys() if expected[url] != found[url])
    first = [(url, expected[url], found[url]) for url in other[:2]]
    words = f"of {len(expected)} URLs {len(lost)} are unknown to {whose} {lost[:2]}, {len(more)} are too many {more[:2]}, {len(other)} differ {first}"
    expect(not (lost or more or other), words)


def archive(options, world):
    """Fails unless what is in the store is sound, has every page, and none twice; how many pages that is."""
    directory = world.folder / "fetched"
    world.ask("fleet", "fetch", NAME, directory)
    done = subprocess.run([options.program, "warc", "verify", directory, "--json"], capture_output=True, text=True)
    unsound = [verdict["file"] for verdict in json_lines(done.stdout) if not verdict["sound"]]
    expect(done.returncode == 0 and not unsound, f"warc verify: {unsound or done.stderr[-200:]}")
    _, printed, _ = ask(options, "warc", "list", directory, "--json")
    urls = (record["url"] for record in json_lines(printed) if record["type"] in ANSWERS)
    times = Counter(url for url in urls if "/robots" not in url)
    missing = sorted(required(world.web) - times.keys())
    expect(not missing, f"{len(missing)} pages are in no archive, {missing[:2]} first")
    # What a lost node had shipped is there: who fetched it again would have archived it again.
    twice = sorted(url for url, count in times.items() if count > 1)
    expect(not twice, f"{len(twice)} URLs are archived more than once, {twice[:2]} first")
    return len(times)


def polite(world):
    """Fails unless the witness has nothing to complain of; what it counted."""
    seen = world.web.ask("witness")
    expect(not seen["violations"], f"the witness: {seen['violations'][:3]}")
    verdict = world.web.ask("verdict")
    expect(verdict["fetched"] == verdict["required"], f"{verdict['fetched']} of {verdict['required']} pages were fetched")
    return seen


def judge(options, world, web=None, most_repeats=None):
    """All of it, once the fleet has ended; in words."""
    world.servers.wait()
    seen = polite(world)
    pages = archive(options, world)
    urls = same(options, world, web or shape())
    words = f"{urls} URLs as on one machine, {pages} archived once, {seen['requests']} requests, {seen['repeats']} again"
    expect(most_repeats is None or seen["repeats"] <= most_repeats, f"{words}; at most {most_repeats} may be")
    return words
