"""Real pages on a real server: Debian's -doc packages behind nginx as several hosts, crawled, and compared
file by file with what is on disk. nginx's access log is the witness, warcio reads the archive."""

import subprocess
import threading
import time
from collections import Counter

import archive_reading
import crawler
import link_oracle
import nginx
import packages
from verdicts import Verdicts

# host -> (package, folder within it, settings of its nginx server, are folders listed)
HOSTS = {
    "git.docs.test": (
        "git-doc", "usr/share/doc/git-doc",
        "gzip on; gzip_types text/plain; port_in_redirect off;", False),
    "xml.docs.test": (
        "libxml2-doc", "usr/share/doc/libxml2/html",
        "absolute_redirect off;", False),
    "ntp.docs.test": (
        "ntpsec-doc", "usr/share/doc/ntpsec-doc/html",
        "sendfile on; tcp_nopush on;", False),
    "xapian.docs.test": (
        "xapian-doc", "usr/share/doc/xapian-doc",
        "etag off; keepalive_timeout 0; port_in_redirect off;", False),
    # Its answers wait for their turn, so that each takes some milliseconds and an overlap would be seen.
    "m4.docs.test": (
        "m4-doc", "usr/share/doc/m4",
        "limit_req zone=slow burst=10000;", False),
    "shell.docs.test": (
        "bash-doc", "usr/share/doc/bash",
        "autoindex on; absolute_redirect off;", True),
}
# Folders without their slash, which nginx redirects: with whole URLs or with paths, as the host is set up.
FOLDERS = ["http://git.docs.test/howto", "http://xml.docs.test/tutorial", "http://xapian.docs.test/apidoc/html",
           "http://shell.docs.test/examples"]
# A host that none of the above is; only the witness's own check asks for it.
ELSEWHERE = "elsewhere.example"
SLOW = "limit_req_zone $server_name zone=slow:1m rate=100r/s;"


def witness_sees_overlaps(server):
    """Two requests at once, made here, must show in the log: else a clean log would mean nothing."""
    before = len(server.requests())
    askers = [threading.Thread(target=server.get, args=("http://m4.docs.test/",)) for _ in range(8)]
    for asker in askers:
        asker.start()
    for asker in askers:
        asker.join()
    time.sleep(0.1)
    return bool(nginx.overlaps(server.requests()[before:]))


def witness_sees_other_hosts(server, folder, resolve):
    """A request to a host that is not ours must show in the log, for the same reason."""
    crawler.crawl(folder / "elsewhere", [f"http://{ELSEWHERE}/"], "--delay", "0s", *resolve)
    time.sleep(0.2)
    return any(r.host == ELSEWHERE for r in server.requests())


def check_requests(verdicts, expected, asked):
    """What the server saw against what it should have seen."""
    robots = Counter(r.host for r in asked if r.uri == "/robots.txt")
    pages = [r for r in asked if r.uri != "/robots.txt"]
    counts = Counter(r.url for r in pages)
    verdicts.none_of(sorted(set(expected) - set(counts)), f"all {len(expected)} URLs that links lead to were asked for")
    verdicts.none_of(sorted(set(counts) - set(expected)), "nothing else was asked for, on these hosts or any other")
    verdicts.none_of((f"{url}: {n} times" for url, n in counts.items() if n > 1), "nothing was asked for twice")
    verdicts.check(robots == Counter(list(HOSTS)), "robots.txt was asked for once on each host", [dict(robots)])
    early = []
    for host in HOSTS:
        first = next((r for r in asked if r.host == host), None)
        if first and first.uri != "/robots.txt":
            early.append(f"{first.url} came first")
    verdicts.none_of(early, "robots.txt came before any page")
    verdicts.none_of(nginx.overlaps(asked), "no two requests of a host overlapped")
    wrong = [f"{r.url}: {r.status} instead of {expected[r.url].status}"
             for r in pages if r.url in expected and r.status != expected[r.url].status]
    verdicts.none_of(wrong, "nginx answered as the files say")
    verdicts.none_of((f"{r.method} {r.url}" for r in asked if r.method != "GET"), "only GET was used")


def check_archive(verdicts, expected, captures, server):
    """What the archive holds against what is on disk."""
    table = archive_reading.by_url(captures)
    missing, differing, compared, encoded, revisits = [], [], 0, 0, 0
    sizes = 0
    for url, answer in expected.items():
        found = table.get(url, [])
        if len(found) != 1 or found[0].status != answer.status:
            missing.append(f"{url}: {[c.status for c in found]} in the archive instead of [{answer.status}]")
            continue
        if answer.kind not in ("file", "listing"):
            continue
        # A listing is nginx's own work; it is asked for again.
        body = answer.body if answer.kind == "file" else server.get(url)[1]
        payload = archive_reading.payload_of(found[0], table)
        compared, sizes = compared + 1, sizes + len(body)
        encoded += bool(found[0].encoding)
        revisits += found[0].kind == "revisit"
        if payload != body:
            stored = "nothing" if payload is None else f"{len(payload)} bytes"
            differing.append(f"{url}: {stored} in the archive, {len(body)} on disk")
    outside = sorted(set(table) - set(expected) - {f"http://{host}/robots.txt" for host in HOSTS})
    verdicts.none_of(missing, f"all {len(expected)} answers are in the archive once, with their status")
    verdicts.none_of(differing, f"all {compared} documents of {sizes} bytes are in the archive as they are on disk")
    verdicts.none_of(outside, "the archive holds nothing else")
    verdicts.none_of((c.url for c in captures if c.truncated), "no record is marked as truncated")
    verdicts.check(encoded > 100, f"{encoded} documents came with a content encoding")
    verdicts.note(f"{revisits} documents are copies of others and stored as revisits")
    return compared, sizes, len(missing) + len(differing)


def main():
    verdicts = Verdicts()
    program = nginx.find()
    if not program:
        verdicts.not_run("Debian's documents: no nginx")
        verdicts.exit()
    folder = crawler.scratch("debian-docs")
    try:
        roots = {host: packages.unpack(package, [package], folder.parent / "packages") / within
                 for host, (package, within, _, _) in HOSTS.items()}
    except (OSError, subprocess.SubprocessError) as error:
        verdicts.not_run(f"Debian's documents: {packages.why_not(error)}")
        verdicts.exit()
    sites = {host: (roots[host], settings) for host, (_, _, settings, _) in HOSTS.items()}
    seeds = [f"http://{host}/" for host in HOSTS] + FOLDERS
    expected = link_oracle.reachable({host: (roots[host], HOSTS[host][3]) for host in HOSTS}, seeds)
    with nginx.Nginx(program, folder / "nginx", sites, SLOW) as server:
        # Every name leads to this nginx, so that a request to anywhere else would be in its log.
        local = f"127.0.0.1:{server.port}"
        resolve = ("--resolve", f"*.docs.test={local}", "--resolve", f"*={local}")
        code, summary, said = crawler.crawl(
            folder / "crawl", seeds, "--scope", "host", "--delay", "0s", *resolve)
        time.sleep(0.2)
        # The first connection, which waited for nginx to start, asked for nothing.
        asked = [r for r in server.requests() if r.method]
        verdicts.check(code == 0 and summary is not None, "the crawl ended well", said.splitlines()[-5:])
        check_requests(verdicts, expected, asked)
        captures = archive_reading.captures(crawler.warcs(folder / "crawl"))
        documents, sizes, differences = check_archive(verdicts, expected, captures, server)
        verdicts.check(witness_sees_overlaps(server), "the witness sees an overlap where there is one")
        verdicts.check(witness_sees_other_hosts(server, folder, resolve), "the witness sees requests to other hosts")
    kinds = Counter(answer.kind for answer in expected.values())
    verdicts.check(len(expected) > 500 and kinds["redirect"] > 0 and kinds["listing"] > 1,
                   f"the packages offer enough to judge by: {dict(kinds)}")
    if summary:
        wanted = {"pages": kinds["file"] + kinds["listing"], "urls_due": 0, "stopped_by": "done"}
        told = {name: summary[name] for name in wanted}
        verdicts.check(told == wanted, f"--json says the same: {wanted}", [told])
        megabytes = summary["peak_rss_bytes"] >> 20
        verdicts.note(f"{summary['seconds']:.1f} s, {summary['cpu_seconds']:.1f} s CPU, {megabytes} MB RAM")
    verdicts.note(f"{len(HOSTS)} hosts, {len(asked)} requests, {documents} documents, "
                  f"{sizes} bytes, {differences} differences")
    verdicts.exit()


if __name__ == "__main__":
    main()
