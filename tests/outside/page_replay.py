"""Pages that replay as they were: documentation from Debian packages behind nginx, crawled with -p, replayed by pywb, and
looked at by Chromium. No request of a replayed page may be missing from the archive, and its screenshot must be like
that of the page as nginx serves it."""

import io
import shutil
import subprocess
import sys
import time
import urllib.request
from collections import namedtuple
from urllib.parse import urljoin, urlsplit

import archive_reading
import chromium
import crawler
import nginx
import packages
from verdicts import Verdicts

# Packages whose files belong together, the folder that is served, and the pages that are looked at.
Site = namedtuple("Site", "packages folder pages")
SITES = {
    "python.docs.test": Site(
        ["python3.11-doc", "libjs-jquery", "libjs-underscore"], "usr/share/doc/python3.11/html",
        ["index.html", "tutorial/index.html", "library/index.html"]),
    "mkdocs.docs.test": Site(
        ["mkdocs-doc", "fonts-font-awesome", "libjs-bootstrap4", "libjs-jquery", "libjs-lunr", "libjs-highlight.js"],
        "usr/share/doc/mkdocs/html", ["index.html", "user-guide/configuration.html"]),
    "cmake.docs.test": Site(
        ["cmake-doc", "libjs-sphinxdoc", "libjs-jquery", "libjs-underscore"], "usr/share/doc/cmake-data/html",
        ["index.html", "manual/cmake.1.html"]),
    "flask.docs.test": Site(
        ["python-flask-doc", "libjs-sphinxdoc", "libjs-jquery", "libjs-underscore"],
        "usr/share/doc/python-flask-doc/html", ["index.html", "quickstart.html"]),
    "node.docs.test": Site(["nodejs-doc"], "usr/share/doc/nodejs/api", ["index.html", "fs.html"]),
    "ntp.docs.test": Site(["ntpsec-doc"], "usr/share/doc/ntpsec-doc/html", ["index.html", "quick.html"]),
}  # fmt: skip
# What only scripts ask for, which Portolan does not run: MkDocs' search begins a worker.
BY_SCRIPTS = {"http://mkdocs.docs.test/search/worker.js"}
# A pixel differs if one of its colours does by more than this, of 255; pages are alike if no more pixels differ than this.
MAX_COLOUR_DIFFERENCE = 24
MAX_DIFFERING_PERCENT = 0.5
MAX_START_S = 60
COLLECTION = "pages"


class Wayback:
    """pywb over an archive, without frames and without a banner."""

    def __init__(self, folder, out):
        collection = folder / "collections" / COLLECTION
        for name in ("archive", "indexes"):
            (collection / name).mkdir(parents=True)
        shutil.copy(out / "index.cdxj", collection / "indexes" / "index.cdxj")
        for warc in crawler.warcs(out):
            (collection / "archive" / warc.name).symlink_to(warc)
        (folder / "config.yaml").write_text("framed_replay: false\n")
        (folder / "templates").mkdir()
        (folder / "templates" / "banner.html").write_text("")
        self.port = nginx.free_port()
        self.log = open(folder / "wayback.log", "wb")
        command = "from pywb.apps.cli import wayback; wayback()"
        self.process = subprocess.Popen(
            [sys.executable, "-c", command, "-p", str(self.port), "-b", "127.0.0.1", "-t", "4"],
            cwd=folder, stdout=self.log, stderr=self.log)

    def __enter__(self):
        deadline = time.monotonic() + MAX_START_S
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{self.port}/{COLLECTION}/", timeout=5).close()
                return self
            except OSError:
                time.sleep(0.2)
        raise RuntimeError("pywb does not start; see wayback.log")

    def __exit__(self, *_):
        self.process.terminate()
        self.process.wait(MAX_START_S)
        self.log.close()

    def address(self, url):
        return f"http://127.0.0.1:{self.port}/{COLLECTION}/2/{url}"

    def missing(self, answers, excused=()):
        """Requests of a replayed page that the archive did not answer. An archived 404 is an answer."""
        found = []
        for answer in answers:
            parts = urlsplit(answer.url)
            if parts.scheme in ("data", "blob", "about") or answer.url.startswith("chrome"):
                continue
            ours = parts.port == self.port and parts.hostname == "127.0.0.1"
            if any(answer.url.endswith(url) for url in excused):
                continue
            if not ours:
                found.append(f"{answer.url}: asked for outside the archive")
            elif parts.path.startswith(f"/{COLLECTION}/") and "memento-datetime" not in answer.headers:
                # pywb sends on to the time of the capture; only the end of that way has a date.
                found.append(f"{answer.url}: {answer.status} {answer.failure}")
        return found


def differing_percent(one, other):
    from PIL import Image, ImageChops

    one, other = (Image.open(io.BytesIO(image)).convert("RGB") for image in (one, other))
    if one.size != other.size:
        return 100.0
    worst = None
    for band in ImageChops.difference(one, other).split():
        over = band.point(lambda value: 255 if value > MAX_COLOUR_DIFFERENCE else 0)
        worst = over if worst is None else ImageChops.lighter(worst, over)
    return 100.0 * worst.histogram()[255] / (one.size[0] * one.size[1])


def check_page(verdicts, browser, wayback, folder, url, archived):
    live, live_image, live_text = browser.open(url)
    replayed, image, text = browser.open(wayback.address(url))
    name = urlsplit(url).netloc.split(".")[0] + urlsplit(url).path.replace("/", "-")
    (folder / f"{name}-live.png").write_bytes(live_image)
    (folder / f"{name}-replayed.png").write_bytes(image)
    # Hosts that are not there for the live page, either; what scripts ask for; and what browsers ask every host for.
    elsewhere = {a.url for a in live if not urlsplit(a.url).netloc.endswith(".docs.test")}
    unnamed = {urljoin(url, "/favicon.ico")} - archived
    excused = elsewhere | BY_SCRIPTS | unnamed
    asked = [a.url.split("#")[0] for a in live if a.url.startswith("http") and a.url not in excused]
    verdicts.none_of((u for u in asked if u not in archived), f"{url}: all {len(asked)} requests of the page are archived")
    verdicts.none_of(wayback.missing(replayed, excused), f"{url}: nothing is missing from its replay, {len(replayed)} requests")
    verdicts.check(live_text.strip() == text.strip() and len(text) > 200,
                   f"{url}: the same text, {len(text)} characters", [f"{len(live_text)} characters on the live page"])
    percent = differing_percent(live_image, image)
    verdicts.check(percent <= MAX_DIFFERING_PERCENT, f"{url}: live and replayed look alike, {percent:.3f} % differ")
    return len(asked), percent


def check_that_checks_can_fail(verdicts, browser, folder, server, resolve):
    """Without -p the same page must be found wanting: else the checks would say nothing."""
    url = "http://python.docs.test/index.html"
    out = folder / "without"
    crawler.crawl(out, [url], "--max-depth", "0", "--delay", "0s", *resolve)
    _, live_image, _ = browser.open(url)
    (folder / "wayback-without").mkdir()
    with Wayback(folder / "wayback-without", out) as wayback:
        replayed, image, _ = browser.open(wayback.address(url))
        missing = wayback.missing(replayed)
        percent = differing_percent(live_image, image)
    verdicts.check(len(missing) > 2 and percent > MAX_DIFFERING_PERCENT,
                   f"a page without its parts would be noticed: {len(missing)} missing, {percent:.1f} % differ")


def tools():
    """What is missing for this test, or nothing."""
    if not chromium.find():
        return "no Chromium"
    if not nginx.find():
        return "no nginx"
    for module in ("pywb.apps.cli", "PIL"):
        if subprocess.run([sys.executable, "-c", f"import {module}"], capture_output=True).returncode:
            return f"no {module.split('.')[0]}"
    return ""


def main():
    verdicts = Verdicts()
    if missing := tools():
        verdicts.not_run(f"replayed pages: {missing}")
        verdicts.exit()
    folder = crawler.scratch("page-replay")
    try:
        roots = {host: packages.unpack(f"{host}-pages", site.packages, folder.parent / "packages") / site.folder
                 for host, site in SITES.items()}
    except (OSError, subprocess.SubprocessError) as error:
        verdicts.not_run(f"replayed pages: {packages.why_not(error)}")
        verdicts.exit()
    with nginx.Nginx(nginx.find(), folder / "nginx", {host: (root, "") for host, root in roots.items()}) as server:
        local = f"127.0.0.1:{server.port}"
        # Other hosts are not there, for the crawl as for the browser.
        resolve = ("--resolve", f"*.docs.test={local}", "--resolve", "*=127.0.0.1:1", "--wait", "3s")
        urls = [f"http://{host}/{page}" for host, site in SITES.items() for page in site.pages]
        out, parts, worst = folder / "crawl", 0, 0.0
        # Each page with its parts and nothing else: they are one, and depth 0 is enough.
        code, summary, said = crawler.crawl(out, urls, "-p", "--max-depth", "0", "--delay", "0s", *resolve)
        # 3: a page names something of a host that is not there.
        verdicts.check(code in (0, 3) and summary is not None, "the crawl ended well", said.splitlines()[-5:])
        verdicts.none_of(nginx.overlaps(r for r in server.requests() if r.method), "no two requests of a host overlapped")
        archived = {c.url for c in archive_reading.captures(crawler.warcs(out))}
        rules = f"MAP *.docs.test {local}, MAP * ~NOTFOUND, EXCLUDE 127.0.0.1"
        (folder / "wayback").mkdir()
        (folder / "screens").mkdir()
        with chromium.Chromium(chromium.find(), folder / "chromium", rules) as browser:
            with Wayback(folder / "wayback", out) as wayback:
                for url in urls:
                    asked, percent = check_page(verdicts, browser, wayback, folder / "screens", url, archived)
                    parts, worst = parts + asked - 1, max(worst, percent)
            check_that_checks_can_fail(verdicts, browser, folder, server, resolve)
    verdicts.none_of(BY_SCRIPTS & archived, "what is said to be asked for by scripts alone is not archived")
    verdicts.check(len(urls) >= 10 and parts > 50, f"{len(urls)} pages of {len(SITES)} sites with {parts} parts were enough to judge by")
    verdicts.note(f"at most {worst:.3f} % of pixels differ; screenshots are in {folder / 'screens'}")
    shutil.rmtree(folder / "chromium" / "profile", ignore_errors=True)
    verdicts.exit()


if __name__ == "__main__":
    main()
