"""FTP, Gopher and files with other people's servers: pyftpdlib and gophernicus. Their logs say what was asked; warcio and cdxj-indexer
read what was archived."""

import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import crawler
import nginx
from verdicts import Verdicts
from warcio.archiveiterator import ArchiveIterator

FTP, GOPHER = "ftp.test", "gopher.test"
MAX_START_S = 10

FTP_SERVER = """
import logging, sys
from pyftpdlib.authorizers import DummyAuthorizer
from pyftpdlib.handlers import FTPHandler
from pyftpdlib.servers import FTPServer
port, root, log, old = int(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4] == "old"
logging.basicConfig(filename=log, level=logging.DEBUG)
visitors = DummyAuthorizer()
visitors.add_anonymous(root)
FTPHandler.authorizer = visitors
if old:
    for name in ("MLSD", "MLST", "EPSV"):
        FTPHandler.proto_cmds.pop(name)
FTPServer(("127.0.0.1", port), FTPHandler).serve_forever()
"""


class FtpServer:
    """`old`: one that knows neither MLSD nor EPSV."""

    def __init__(self, root, log, old=False):
        self.port, self.log = nginx.free_port(), Path(log)
        arguments = [str(self.port), str(root), str(log), "old" if old else "new"]
        self.process = subprocess.Popen([sys.executable, "-c", FTP_SERVER, *arguments], stderr=subprocess.DEVNULL)

    def __enter__(self):
        deadline = time.monotonic() + MAX_START_S
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return self
            except OSError:
                time.sleep(0.05)
        self.__exit__()
        raise RuntimeError("the FTP server did not start")

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()

    def retrieved(self):
        """Names of files that were sent, in order."""
        lines = self.log.read_text(errors="replace").splitlines()
        return [line.split("RETR ", 1)[1] for line in lines if "<- RETR " in line]


class GopherServer:
    """gophernicus answers one connection on its standard input and output: as under inetd. It refuses to be root, so it runs as nobody
    then, from `folder`, which everybody may read."""

    def __init__(self, program, folder, root):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        libraries = Path(program).parents[1] / "lib"
        for file in [Path(program), *libraries.rglob("libwrap.so*")]:
            shutil.copy(file, folder)
        self.environment = {**os.environ, "LD_LIBRARY_PATH": str(folder)}
        self.user = "nobody" if os.geteuid() == 0 else None
        self.command = [str(folder / Path(program).name), "-r", str(root), "-h", GOPHER, "-p", str(self.port), "-nx", "-nm", "-nv"]

    def __enter__(self):
        threading.Thread(target=self.serve, daemon=True).start()
        return self

    def __exit__(self, *_):
        self.listener.close()

    def serve(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            with connection:
                subprocess.run(self.command, stdin=connection, stdout=connection, env=self.environment,
                               stderr=subprocess.DEVNULL, timeout=20, user=self.user)


def gopher_site(place, program):
    place.chmod(0o755)
    root = place / "root"
    (root / "docs").mkdir(parents=True)
    (root / "one.txt").write_text("one\n")
    (root / "docs" / "two.txt").write_text("two\n")
    return GopherServer(program, place, root)


def make_files(root):
    (root / "sub" / "deep").mkdir(parents=True)
    (root / "private").mkdir()
    (root / "robots.txt").write_text("User-agent: *\nDisallow: /private/\n")
    (root / "index.html").write_text('<a href="a.txt">a</a> <a href="gone.txt">gone</a> <a href="sub">folder</a>')
    (root / "a.txt").write_text("hello\n")
    (root / "sub" / "b c?#%.txt").write_text("odd name\n")
    (root / "sub" / "deep" / "large.bin").write_bytes(bytes(range(256)) * 4000)
    (root / "private" / "secret.txt").write_text("not for robots\n")
    os.symlink("/etc", root / "sub" / "out")


# What is to be found below the root by who obeys robots.txt.
FOUND = {"/", "/index.html", "/a.txt", "/robots.txt", "/sub/", "/sub/b%20c%3F%23%25.txt", "/sub/deep/",
         "/sub/deep/large.bin"}


def records(out):
    """{URL: (type, media type, bytes)} of resource and response records."""
    found = {}
    for file in crawler.warcs(out):
        with open(file, "rb") as stream:
            for record in ArchiveIterator(stream, check_digests="raise"):
                if record.rec_type in ("resource", "response", "revisit"):
                    url = record.rec_headers.get_header("WARC-Target-URI")
                    media_type = record.rec_headers.get_header("Content-Type")
                    found[url] = (record.rec_type, media_type, record.content_stream().read())
    return found


def check_index(verdicts, name, out):
    """Our index is the one that cdxj-indexer makes."""
    command = [sys.executable, "-m", "cdxj_indexer.main", "-s", *map(str, crawler.warcs(out))]
    theirs = subprocess.run(command, capture_output=True, text=True).stdout.splitlines()
    ours = (Path(out) / "index.cdxj").read_text().splitlines()
    verdicts.check(bool(ours) and sorted(ours) == sorted(theirs), f"{name}: the index is cdxj-indexer's",
                   sorted(set(ours) ^ set(theirs)))


def check_ftp(verdicts, folder, root, name, old):
    out = folder / name
    with FtpServer(root, folder / f"{name}.log", old) as server:
        code, summary, said = crawler.crawl(out, [f"ftp://{FTP}/"], "--delay", "0s", "--wait", "1s",
                                            "--resolve", f"{FTP}=127.0.0.1:{server.port}")
        verdicts.check(code == 0, f"{name}: the crawl ended well", [code, *said.splitlines()[-5:]])
        kept = records(out)
        found = {url.removeprefix(f"ftp://{FTP}") for url in kept}
        verdicts.check(found == FOUND, f"{name}: all {len(FOUND)} files and folders are archived, and no others",
                       sorted(found ^ FOUND))
        large = kept.get(f"ftp://{FTP}/sub/deep/large.bin", ("", "", b""))
        verdicts.check(large[0] == "resource" and large[2] == bytes(range(256)) * 4000,
                       f"{name}: a file is a resource record with its bytes", [large[:2], len(large[2])])
        sent = [file for file in server.retrieved() if not file.endswith("robots.txt")]
        verdicts.none_of([file for file in set(sent) if sent.count(file) > 1], f"{name}: no file was asked for twice")
        verdicts.none_of([file for file in sent if "private" in file], f"{name}: robots.txt was obeyed")
    check_index(verdicts, name, out)


def check_gopher(verdicts, folder, program):
    out = folder / "gopher"
    with tempfile.TemporaryDirectory(prefix="portolan-gopher-") as place, gopher_site(Path(place), program) as server:
        code, _, said = crawler.crawl(out, [f"gopher://{GOPHER}:{server.port}/"], "--delay", "0s", "--wait", "1s",
                                      "--resolve", f"{GOPHER}=127.0.0.1:{server.port}")
        verdicts.check(code == 0, "gopher: the crawl ended well", [code, *said.splitlines()[-5:]])
        kept = records(out)
    texts = {body.decode(errors="replace").split()[0] for kind, media_type, body in kept.values()
             if kind == "resource" and media_type == "text/plain"}
    menus = {url.partition(f":{server.port}")[2] for url, what in kept.items() if what[1] == "application/gopher-menu"}
    # The server has a robots.txt of its own, and its menus a link to the root under another selector.
    verdicts.check(texts >= {"one", "two"} and menus == {"/", "/1/", "/1/docs/"}, "gopher: all texts and menus are archived",
                   [f"{url}: {what[:2]}" for url, what in kept.items()])
    check_index(verdicts, "gopher", out)


def check_files(verdicts, folder, root):
    out = folder / "files"
    code, _, said = crawler.crawl(out, [f"file://{root}/"], "--wait", "1s")
    verdicts.check(code == 0, "files: the crawl ended well", [code, *said.splitlines()[-5:]])
    base = f"file://localhost{root}"
    kept = records(out)
    found = {url.removeprefix(base) for url in kept}
    wanted = FOUND | {"/private/", "/private/secret.txt"}
    verdicts.check(found == wanted, "files: all below the folder are archived, and nothing outside of it",
                   sorted(found ^ wanted))
    urls = subprocess.run([crawler.binary(), "urls", str(out), "--format", "jsonl"], capture_output=True, text=True).stdout
    rows = [row for row in map(json.loads, urls.splitlines()) if "/sub/out" in row["url"]]
    # The listing of this machine names what a link leads to, so the URL is known.
    verdicts.check(bool(rows), "files: the symbolic link is known")
    outside = [row["url"] for row in rows if row["state"] == "visited"]
    verdicts.none_of(outside, "files: a symbolic link does not lead out of the folder")
    check_index(verdicts, "files", out)


def main():
    verdicts = Verdicts()
    folder = crawler.scratch("protocols")
    root = folder / "root"
    root.mkdir()
    make_files(root)
    check_ftp(verdicts, folder, root, "ftp", old=False)
    check_ftp(verdicts, folder, root, "ftp-old", old=True)
    check_files(verdicts, folder, root)
    program = os.environ.get("PORTOLAN_GOPHERNICUS")
    if program:
        check_gopher(verdicts, folder, program)
    else:
        verdicts.not_run("protocols: no gophernicus")
    verdicts.exit()


main()
