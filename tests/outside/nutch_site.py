"""Nutch's little test site behind nginx: every page once, a copy kept as a revisit, and a page of thousands of
nested tags that has to end. The site is not part of this repository; PORTOLAN_CONFORMANCE says where it is."""

import os
import time
from collections import Counter
from pathlib import Path

import archive_reading
import crawler
import nginx
from verdicts import Verdicts

HOST = "nutch.test"
# What the site's own links lead to, and what only a seed leads to.
LINKED = ["index.html", "pagea.html", "pageb.html", "dup_of_pagea.html"]
UNLINKED = ["nested_spider_trap.html", "exception.html"]
MAX_S = 20


def main():
    verdicts = Verdicts()
    program = nginx.find()
    conformance = Path(os.environ.get("PORTOLAN_CONFORMANCE", "../shared/conformance"))
    site = (conformance / "nutch" / "fetch-test-site").absolute()
    if not program or not site.is_dir():
        verdicts.not_run(f"Nutch's site: {'no nginx' if not program else 'no conformance data'}")
        verdicts.exit()
    folder = crawler.scratch("nutch-site")
    seeds = [f"http://{HOST}/{name}" for name in ["index.html", *UNLINKED]]
    with nginx.Nginx(program, folder / "nginx", {HOST: (site, "")}) as server:
        begun = time.monotonic()
        code, summary, said = crawler.crawl(
            folder / "crawl", seeds, "--delay", "0s", "--resolve", f"*=127.0.0.1:{server.port}")
        seconds = time.monotonic() - begun
        time.sleep(0.2)
        asked = [r for r in server.requests() if r.method]
    verdicts.check(code == 0 and bool(summary) and summary["stopped_by"] == "done", "the crawl ended well",
                   said.splitlines()[-5:])
    verdicts.check(seconds < MAX_S, f"the nested tags end: {seconds:.1f} s for all")
    pages = [f"http://{HOST}/{name}" for name in LINKED + UNLINKED]
    counts = Counter(r.url for r in asked)
    wanted = Counter([*pages, f"http://{HOST}/robots.txt"])
    verdicts.check(counts == wanted, f"robots.txt and each of {len(pages)} pages were asked for once, nothing else",
                   [f"{url}: {counts[url]} times" for url in counts | wanted if counts[url] != wanted[url]])
    verdicts.check(bool(asked) and asked[0].uri == "/robots.txt", "robots.txt came first", [r.uri for r in asked[:1]])
    verdicts.none_of(nginx.overlaps(asked), "no two requests overlapped")
    captures = archive_reading.captures(crawler.warcs(folder / "crawl"))
    table = archive_reading.by_url(captures)
    wrong = []
    for url in pages:
        found = table.get(url, [])
        body = (site / url.rsplit("/", 1)[1]).read_bytes()
        if len(found) != 1 or archive_reading.payload_of(found[0], table) != body:
            wrong.append(url)
    verdicts.none_of(wrong, "each page is in the archive once, as it is on disk")
    # Which of the two is asked for first is the crawler's choice; the other is the copy.
    twins = {f"http://{HOST}/{name}" for name in ("pagea.html", "dup_of_pagea.html")}
    revisits = [c for c in captures if c.kind == "revisit"]
    verdicts.check(len(revisits) == 1 and {revisits[0].url, revisits[0].refers_to} == twins,
                   "the copy is a revisit of its twin", [(c.url, c.refers_to) for c in revisits])
    verdicts.check(bool(summary) and summary["duplicates"] == 1 and summary["pages"] == len(pages),
                   "--json counts the documents and the copy", [summary])
    verdicts.exit()


if __name__ == "__main__":
    main()
