"""Access with other people's programs: an nginx that wants a password, tinyproxy (HTTP) and microsocks (SOCKS5) between it and the
crawler. nginx's log says who was told what, the proxies' logs whom they were asked for."""

import gzip
import os
import shutil
import socket
import subprocess
import time
from pathlib import Path

import crawler
import nginx
from verdicts import Verdicts

MEMBERS, OPEN = "members.test", "open.test"
USER, PASSWORD = "alice", "0pen-sesame"
# "alice:0pen-sesame"
BASIC = "Basic YWxpY2U6MHBlbi1zZXNhbWU="
PAGES = 5
MAX_START_S = 10

TINYPROXY = """
Port {port}
Listen 127.0.0.1
Timeout 60
LogFile "{folder}/log"
LogLevel Connect
MaxClients 50
Allow 127.0.0.1
BasicAuth {user} {password}
"""


def find(program):
    """A proxy to use, or None."""
    named = os.environ.get(f"PORTOLAN_{program.upper()}")
    return named or shutil.which(program)


class Proxy:
    """A program that listens on `port` and writes a log."""

    def __init__(self, command, port, log):
        self.port, self.log = port, log
        self.said = open(f"{log}.said", "w")
        self.process = subprocess.Popen(command, stdout=self.said, stderr=self.said)

    def __enter__(self):
        deadline = time.monotonic() + MAX_START_S
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return self
            except OSError:
                time.sleep(0.05)
        self.__exit__()
        raise RuntimeError(f"the proxy did not start: {self.lines()}")

    def __exit__(self, *_):
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        self.said.close()

    def lines(self):
        files = [Path(self.log), Path(f"{self.log}.said")]
        return [line for file in files if file.exists() for line in file.read_text(errors="replace").splitlines()]


def tinyproxy(program, folder):
    folder.mkdir(parents=True)
    port = nginx.free_port()
    settings = folder / "tinyproxy.conf"
    settings.write_text(TINYPROXY.format(port=port, folder=folder, user="visitor", password="pr0xy"))
    return Proxy([program, "-d", "-c", str(settings)], port, folder / "log")


def microsocks(program, folder):
    folder.mkdir(parents=True)
    port = nginx.free_port()
    command = [program, "-i", "127.0.0.1", "-p", str(port), "-u", "visitor", "-P", "pr0xy"]
    return Proxy(command, port, folder / "log")


def make_sites(folder):
    """Pages behind a password, one of which leads elsewhere, and one inwards."""
    members, outside = folder / "members", folder / "open"
    members.mkdir(parents=True)
    outside.mkdir()
    (folder / "passwords").write_text(f"{USER}:{{PLAIN}}{PASSWORD}\n")
    links = "".join(f'<a href="/p{n}.html">{n}</a>' for n in range(PAGES))
    inwards = '<a href="http://127.0.0.1:80/inner">in</a>'
    (members / "index.html").write_text(f'{links}<a href="/leave">out</a>{inwards}')
    for n in range(PAGES):
        (members / f"p{n}.html").write_text(f"<p>page {n}")
    (outside / "landed.html").write_text("<p>outside")
    door = f'auth_basic "members"; auth_basic_user_file {folder}/passwords;'
    return {
        MEMBERS: (members, f"{door} location = /leave {{ return 302 http://{OPEN}/landed.html; }}"),
        OPEN: (outside, ""),
    }


def archived(out):
    """All that a crawl wrote, WARC files unpacked, but for its own settings."""
    files = [file for file in Path(out).rglob("*") if file.is_file() and file.name != "crawl.toml"]
    return b"".join(gzip.open(f).read() if f.suffix == ".gz" else f.read_bytes() for f in files)


def crawl(verdicts, name, folder, server, *options, environment=()):
    before = len(server.requests())
    os.environ.update(environment)
    code, summary, said = crawler.crawl(
        folder / name, [f"http://{MEMBERS}/"], "--scope", "any", "--delay", "0s", "--wait", "2s",
        "--resolve", f"*.test=127.0.0.1:{server.port}", *options)
    for variable, _ in environment:
        del os.environ[variable]
    time.sleep(0.3)
    asked = server.requests()[before:]
    verdicts.check(code == 0 and bool(summary), f"{name}: the crawl ended well", [code, *said.splitlines()[-5:]])
    return summary or {}, asked, said


def check_members(verdicts, name, folder, summary, asked, said):
    members = [r for r in asked if r.host == MEMBERS]
    others = [r for r in asked if r.host != MEMBERS]
    verdicts.check(summary.get("pages") == PAGES + 2, f"{name}: all {PAGES + 2} pages were fetched", [summary.get("pages")])
    verdicts.none_of([f"{r.uri}: {r.status}" for r in members if r.status == 401],
                     f"{name}: nothing of {MEMBERS} was refused, robots.txt included")
    verdicts.check(bool(others) and not any(r.authorization for r in others),
                   f"{name}: {OPEN} was asked, and never told the password", [r.uri for r in others])
    verdicts.check(all(r.authorization == BASIC for r in members), f"{name}: {MEMBERS} was always told it")
    text = archived(folder / name)
    verdicts.none_of([secret for secret in (BASIC[6:], PASSWORD, "pr0xy") if secret.encode() in text or secret in said],
                     f"{name}: no password is in the archive, the report or a message")


def main():
    verdicts = Verdicts()
    program = nginx.find()
    if not program:
        verdicts.not_run("access: no nginx")
        verdicts.exit()
    folder = crawler.scratch("access")
    os.environ["MEMBERS_PASSWORD"] = f"{USER}:{PASSWORD}"
    password = ("--auth", f"http://{MEMBERS}=env:MEMBERS_PASSWORD")
    with nginx.Nginx(program, folder / "nginx", make_sites(folder / "sites")) as server:
        # Without a password there is nothing to be had.
        code, summary, _ = crawler.crawl(folder / "stranger", [f"http://{MEMBERS}/"], "--delay", "0s", "--wait", "1s",
                                         "--resolve", f"*.test=127.0.0.1:{server.port}")
        time.sleep(0.3)
        verdicts.check({r.status for r in server.requests()} == {401}, "a stranger gets nothing", [code])
        check_members(verdicts, "password", folder, *crawl(verdicts, "password", folder, server, *password))
        for name, make, schemes in [("tinyproxy", tinyproxy, ["http"]), ("microsocks", microsocks, ["socks5"])]:
            proxy_program = find(name)
            if not proxy_program:
                verdicts.not_run(f"access: no {name}")
                continue
            for scheme in schemes:
                with make(proxy_program, folder / f"{name}-own") as proxy:
                    url = f"{scheme}://visitor:pr0xy@127.0.0.1:{proxy.port}"
                    by_option = crawl(verdicts, name, folder, server, *password, "--proxy", url)
                    check_members(verdicts, name, folder, *by_option)
                    asked_for = [line for line in proxy.lines() if f"127.0.0.1:{server.port}" in line]
                    verdicts.check(bool(asked_for), f"{name}: it was asked for the address", proxy.lines()[:5])
                    verdicts.none_of([line for line in proxy.lines() if "127.0.0.1:80 " in f"{line} " or ".test" in line],
                                     f"{name}: it was asked for no name and no private address that nobody named")
                    lines = len(proxy.lines())
                    by_environment = crawl(verdicts, f"{name}-env", folder, server, *password,
                                           environment=[("all_proxy", url)])
                    check_members(verdicts, f"{name}-env", folder, *by_environment)
                    verdicts.check(len(proxy.lines()) > lines, f"{name}: the environment's variable is obeyed")
                    wrong = url.replace("pr0xy", "wr0ng")
                    code, summary, said = crawler.crawl(
                        folder / f"{name}-wrong", [f"http://{MEMBERS}/"], "--wait", "1s", "--proxy", wrong,
                        "--resolve", f"*.test=127.0.0.1:{server.port}")
                    verdicts.check(code in (1, 3) and (summary or {}).get("pages", 0) == 0 and "wr0ng" not in said,
                                   f"{name}: with a wrong password nothing is fetched", [code, summary])
    verdicts.exit()


main()
