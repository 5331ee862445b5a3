"""IndexNow pings as others send them: by curl, and by Python's http.client, to `portolan signal --listen`, for a site that Python's
http.server serves."""

import functools
import http.client
import http.server
import json
import re
import shutil
import signal
import subprocess
import threading
import time

import crawler
from verdicts import Verdicts

KEY = "0a1b2c3d-4e5f"
WAIT_S = 20


class Site(http.server.ThreadingHTTPServer):
    """A folder, and the paths that were asked for."""

    def __init__(self, folder):
        self.asked, self.hosts = [], set()
        handler = functools.partial(Handler, directory=str(folder))
        super().__init__(("127.0.0.1", 0), handler)
        port = self.server_address[1]
        self.base, self.inside = f"http://localhost:{port}", f"http://127.0.0.1:{port}"
        # A link into the machine, as anybody's page may have one.
        home = folder / "index.html"
        home.write_text(home.read_text() + f"<a href={self.inside}/0.html>in</a>")
        threading.Thread(target=self.serve_forever, daemon=True).start()


class Handler(http.server.SimpleHTTPRequestHandler):
    def do_GET(self):
        self.server.asked.append(self.path)
        self.server.hosts.add(self.headers["Host"].split(":")[0])
        super().do_GET()

    def log_message(self, *_):
        pass


def build(folder):
    folder.mkdir()
    links = "".join(f"<a href=/{n}.html>{n}</a>" for n in range(40))
    (folder / "index.html").write_text(f"<title>home</title>{links}")
    for n in range(40):
        (folder / f"{n}.html").write_text(f"<title>page {n}</title><p>text of page {n}")
    (folder / f"{KEY}.txt").write_text(KEY)


def start(*arguments):
    """A process, and its first line."""
    process = subprocess.Popen([crawler.binary(), *arguments], stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True)
    return process, process.stderr.readline()


def by_curl(address, url, key):
    done = subprocess.run(["curl", "-sS", "-G", "-o", "/dev/null", "-w", "%{http_code}", f"http://{address}/indexnow",
                           "--data-urlencode", f"url={url}", "--data-urlencode", f"key={key}"], capture_output=True, text=True)
    return done.stdout


def by_python(address, body):
    connection = http.client.HTTPConnection(address, timeout=WAIT_S)
    connection.request("POST", "/indexnow", json.dumps(body), {"Content-Type": "application/json; charset=utf-8"})
    return connection.getresponse().status


def wait_until(done):
    deadline = time.monotonic() + WAIT_S
    while not done() and time.monotonic() < deadline:
        time.sleep(0.1)
    return done()


def main():
    verdicts = Verdicts()
    if not shutil.which("curl"):
        verdicts.not_run("pings: no curl")
        verdicts.exit()
    folder = crawler.scratch("pings")
    build(folder / "site")
    site = Site(folder / "site")
    out = folder / "crawl"
    code, _, said = crawler.crawl(out, [site.base + "/"], "--delay", "0s", "--scope", "any")
    verdicts.check(code == 0, "a crawl of the site", [said])
    site.asked.clear()
    receiver, line = start("signal", str(out), "--listen", "127.0.0.1:0")
    keeper = None
    try:
        found = re.search(r"http://(\S+)/indexnow", line)
        verdicts.check(bool(found), "portolan signal says where it listens", [line])
        if found:
            address = found.group(1)
            told = by_curl(address, f"{site.base}/7.html", KEY)
            verdicts.check(told == "200", "curl's ping is taken", [told])
            verdicts.check(site.asked == [f"/{KEY}.txt"], "the key is looked for on the site itself, once", site.asked)
            # Two fetches a second, of 41 pages.
            keeper, _ = start("crawl", "--out", str(out), "--keep-fresh", "--rate", "2/s", "--time-limit", "60s")
            verdicts.check(wait_until(lambda: "/7.html" in site.asked), "the crawl asks for that page", site.asked)
            asked_before = list(site.asked)
            place = len(site.asked) - site.asked[::-1].index("/7.html") if "/7.html" in site.asked else 99
            verdicts.check(place <= 6, "it is among the first that it asks for", asked_before)
            many = {"host": "localhost", "key": KEY, "keyLocation": f"{site.base}/{KEY}.txt",
                    "urlList": [f"{site.base}/{n}.html" for n in (31, 33)]}
            told = by_python(address, many)
            verdicts.check(told == 200, "http.client's ping of two pages is taken", [told])
            seen = len(site.asked)
            verdicts.check(wait_until(lambda: {"/31.html", "/33.html"} <= set(site.asked[seen:])),
                           "the crawl asks for both", site.asked[seen:])
            verdicts.check(by_python(address, {**many, "host": "example.org"}) == 422, "nobody speaks for another host")
            verdicts.check(by_curl(address, f"{site.base}/8.html", "wrong-key-1") in ("403", "429"), "a wrong key is refused")
            verdicts.check(by_curl(address, "http://127.0.0.2:9/x", KEY) == "422",
                           "a host that the crawl does not know is not asked")
            told = by_curl(address, f"{site.inside}/0.html", KEY)
            verdicts.check(told == "403" and site.hosts == {"localhost"},
                           "no ping has the guard let somebody in: nobody named that host", [told, site.hosts])
            verdicts.check(by_python(address, {"host": "localhost"}) == 400, "what is no ping is told so")
    finally:
        for process in filter(None, (keeper, receiver)):
            process.send_signal(signal.SIGINT)
            process.wait(WAIT_S)
    verdicts.exit()


if __name__ == "__main__":
    main()
