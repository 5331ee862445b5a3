"""Who wants in, and who wants to be taken for another: redirects and links to this machine's own services, over many
runs of one crawl, and identities that differ from crawl to crawl."""

import http.server
import threading

from .dns import Names
from .running import Crawl, Web, ask, expect, json_lines

SETTINGS = """
[dns]
servers = ["127.0.0.1:{port}"]
"""
# Spellings of this machine; Names says that every name below sim.test is here, too.
WAYS_IN = ["127.0.0.1", "[::1]", "2130706433", "127.1", "0x7f.0.0.1", "localhost", "inside.sim.test"]
CRAWLS, HOSTS, PARTITIONS = 4, 60, 16


def cases(options):
    yield f"redirects and {len(WAYS_IN)} kinds of links inwards, {options.times} runs", lambda folder, _: ssrf(options, folder)
    yield f"{CRAWLS} crawls of one Web, one gone on with", lambda folder, _: identities(options, folder)


def ssrf(options, folder):
    with Server(lambda path: (200, "", "secret")) as inside, Names() as names:
        links = "".join(f'<a href="http://{way}:{inside.port}/{n}">x</a>' for n, way in enumerate(WAYS_IN))

        def outside(path):
            if path.startswith("/leap"):
                return 302, f"http://{WAYS_IN[int(path[5:]) % len(WAYS_IN)]}:{inside.port}/leapt", ""
            return 200, "", links + "".join(f'<a href="/leap{n}">x</a>' for n in range(len(WAYS_IN)))

        with Server(outside) as server:
            seeds = ["http://outside.test/"] + [f"http://outside.test/leap{n}" for n in range(len(WAYS_IN))]
            begin = [*seeds, "--scope", "any", "--delay", "0s", "--wait", "1s"]
            begin += ["--resolve", f"outside.test=127.0.0.1:{server.port}"]
            for run in range(options.times):
                settings = SETTINGS.format(port=names.port) if run == 0 else ""
                arguments = begin if run == 0 else ["--retry-failed", "private-address"]
                with Crawl(options, folder / "crawl", *arguments, settings=settings) as crawl:
                    crawl.end()
            code, printed, _ = ask(options, "status", folder / "crawl", "--json")
            refused = json_lines(printed)[0]["reasons"].get("private-address", 0)
            counted = (
                f"{server.asked} requests outside, {inside.asked} inside, {refused} URLs refused as private-address"
            )
            expect(server.asked > len(WAYS_IN) and refused > 0, f"{counted}; nobody tried")
            expect(inside.asked == 0, counted)
    return counted


def identities(options, folder):
    shape = ["--hosts", HOSTS, "--pages", 3]
    homes = []
    with Web(options, folder, *shape) as web:
        for number in range(CRAWLS):
            out = folder / f"crawl{number}"
            begin = ["http://h0.sim.test/", "--scope", "any", "--delay", "0s", "--resolve", web.resolve]
            with Crawl(options, out, *begin, settings=f"[registry]\npartitions = {PARTITIONS}\n") as crawl:
                crawl.end()
            homes.append(partitions(options, out))
        with Crawl(options, folder / "crawl0") as crawl:
            crawl.end()
        again = partitions(options, folder / "crawl0")
    alike = [sum(homes[0][host] == other[host] for host in homes[0]) for other in homes[1:]]
    counted = (
        f"{len(homes[0])} hosts, {PARTITIONS} partitions; the same partition in another crawl: {alike}; "
        f"the same after going on: {sum(again[host] == at for host, at in homes[0].items())}"
    )
    expect(len(homes[0]) == HOSTS and max(alike) < HOSTS / 3 and again == homes[0], counted)
    return counted


def partitions(options, out):
    """In which partition each host is, which its identity decides."""
    _, printed, _ = ask(options, "urls", out, "--json")
    return {url["url"].split("/")[2]: url["partition"] for url in json_lines(printed)}


class Server:
    """Answers with what `answer(path)` gives: status, Location, body. Counts connections, also those that ask for nothing."""

    def __init__(self, answer):
        owner = self
        self.asked = 0

        class Handler(http.server.BaseHTTPRequestHandler):
            def setup(self):
                owner.asked += 1
                super().setup()

            def do_GET(self):
                if self.path == "/robots.txt":
                    return self.send_error(404)
                status, location, body = answer(self.path)
                self.send_response(status)
                if location:
                    self.send_header("Location", location)
                self.send_header("Content-Type", "text/html")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body.encode())

            def log_message(self, *_):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_port
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.server.shutdown()
        self.server.server_close()
