"""Who is compared: how each is had, how it is run, and what it stores. Settings are those of good faith:
many connections, no delay, no logging, robots.txt obeyed."""

import os
import re
import shutil
import subprocess
from pathlib import Path

from .running import SUFFIX

HERE = Path(__file__).resolve().parent.parent
ROOT = HERE.parent
DEBIAN_PACKAGES = {"wget2": "wget2", "wget": "wget", "httrack": "httrack"}
PYTHON_PACKAGES = {"scrapy": "scrapy>=2.13,<3", "crawlee": "crawlee[parsel]>=1.0,<2"}
CONNECTIONS = 64
FULL, LIMITED = "full", "limited"


class Run:
    """One crawler with one way of storing. `share`: whether it gets the whole Web or a time limit.
    `command` is made for a seed URL and the folder of the run."""

    def __init__(self, name, stores, share, command, settings, environment=None):
        self.name, self.stores, self.share = name, stores, share
        self.command, self.settings, self.environment = command, settings, environment or {}


def portolan_runs(program):
    def command(compression):
        def make(seed, folder):
            config = folder / "settings.toml"
            # The system's resolver, as for everybody; the addresses it gives are private ones.
            config.write_text(
                "[limits]\nthreads = 1\nconnections = 256\n"
                '[dns]\nallow_networks = ["127.0.0.0/8"]\n'
                f'[archive]\ncompression = "{compression}"\n'
            )
            # fmt: off
            return [program, "crawl", seed, "--scope", "any", "--delay", "0s", "--quiet",
                    "--out", folder / "crawl", "--config", config]
            # fmt: on

        return make

    settings = "one worker thread, 256 connections over all hosts and one on each, no delay"
    return [
        Run("Portolan", "gzip WARC, digests, index, link graph", FULL, command("gzip"), settings),
        Run("Portolan", "plain WARC, digests, index, link graph", FULL, command("none"), settings),
    ]


def wget2_runs(program):
    def make(*options):
        # fmt: off
        return lambda seed, folder: [
            program, "--recursive", "--level=inf", "--span-hosts", f"--domains={SUFFIX}", "--robots=on",
            "--quiet", "--tries=1", "--max-threads=16", "--no-config",
            *(str(option).format(folder=folder) for option in options), seed]
        # fmt: on

    settings = "--recursive --span-hosts --robots=on --max-threads=16 --quiet"
    return [
        Run("wget2", "nothing", FULL, make("--output-document=/dev/null"), settings + " -O /dev/null"),
        Run("wget2", "files", FULL, make("--directory-prefix={folder}/files"), settings),
    ]


def wget_runs(program):
    def make(*options):
        # fmt: off
        return lambda seed, folder: [
            program, "--recursive", "--level=inf", "--span-hosts", f"--domains={SUFFIX}",
            "--execute=robots=on", "--quiet", "--tries=1", "--no-config",
            "--directory-prefix", folder / "files",
            *(str(option).format(folder=folder) for option in options), seed]
        # fmt: on

    settings = "--recursive --span-hosts -e robots=on --quiet; one connection"
    warc = make("--warc-file={folder}/peer", "--delete-after")
    return [
        Run("wget", "files", LIMITED, make(), settings),
        Run("wget", "gzip WARC", LIMITED, warc, settings + " --warc-file --delete-after"),
    ]


def httrack_runs(program):
    # fmt: off
    command = lambda seed, folder: [
        program, seed, "-O", folder / "mirror", f"+*.{SUFFIX}*", "--robots=2", "--sockets=32",
        "--disable-security-limits", "--max-rate=0", "--connection-per-second=0", "--depth=9999",
        "--ext-depth=9999", "--retries=0", "--quiet", "--verbose=0", "--index=0", "--cache=0",
        "--user-agent", "httrack", "--do-not-log"]
    # fmt: on
    settings = "--robots=2 --sockets=32 --disable-security-limits --max-rate=0 --cache=0"
    return [Run("httrack", "files, links rewritten", LIMITED, command, settings)]


def spider_runs(program):
    def make(warc):
        return lambda seed, folder: [program, seed, CONNECTIONS, *([folder / "peer.warc"] if warc else [])]

    settings = f"subdomains, robots.txt, no delay, concurrency {CONNECTIONS}"
    return [
        Run("spider", "nothing", FULL, make(False), settings),
        Run("spider", "plain WARC", FULL, make(True), settings),
    ]


def scrapy_runs(python):
    script = HERE / "peers" / "scrapy_peer.py"

    def with_files(seed, folder):
        (folder / "files").mkdir()
        return [python, script, seed, folder / "files"]

    settings = "64 requests at once, 8 on a host, no cookies, retries or logs"
    return [
        Run("Scrapy", "nothing", LIMITED, lambda seed, folder: [python, script, seed], settings),
        Run("Scrapy", "files", LIMITED, with_files, settings),
    ]


def crawlee_runs(python):
    script = HERE / "peers" / "crawlee_peer.py"
    settings = "ParselCrawler, 32 to 64 requests at once, queue in memory"
    return [Run("crawlee", "nothing", LIMITED, lambda seed, folder: [python, script, seed], settings)]


class Scratch:
    """The folder that peers are installed into. What is there already is used."""

    def __init__(self, folder):
        self.folder = Path(folder).resolve()
        self.folder.mkdir(parents=True, exist_ok=True)
        self.missing = {}
        self.versions = {}

    def all_runs(self, wanted, portolan):
        """The runs of everyone wanted who can be had, ours first."""
        self.versions["Portolan"] = said([portolan, "--version"])
        makers = [
            ("portolan", lambda: portolan_runs(portolan)),
            ("wget2", lambda: self._debian("wget2", wget2_runs)),
            ("spider", self._spider),
            ("wget", lambda: self._debian("wget", wget_runs)),
            ("httrack", lambda: self._debian("httrack", httrack_runs)),
            ("crawlee", lambda: self._python("crawlee", "crawlee", crawlee_runs)),
            ("scrapy", lambda: self._python("scrapy", "Scrapy", scrapy_runs)),
        ]
        runs = []
        for name, make in makers:
            if not wanted or name in wanted:
                runs += make() or []
        return runs

    def _lacks(self, name, log):
        lines = [line for line in Path(log).read_text().splitlines() if line.strip()]
        self.missing[name] = lines[-1].strip() if lines else "it could not be installed"

    def _debian(self, name, make):
        log = self.folder / f"{name}.log"
        if not shutil.which(name):
            apt = ["apt-get", "install", "-q", "-y", "--no-install-recommends", DEBIAN_PACKAGES[name]]
            tried(["apt-get", "-q", "update"], log)
            tried(apt, log)
        program = shutil.which(name)
        if not program:
            return self._lacks(name, log)
        version = said([program, "--version"]).removeprefix("GNU ")
        self.versions[name] = re.split(" - | built |\\+", version)[0]
        return make(program)

    def _python(self, package, name, make):
        venv, log = self.folder / f"venv-{package}", self.folder / f"{package}.log"
        python = venv / "bin" / "python"
        code = f"from importlib.metadata import version; print(version('{package}'))"
        if not tried([python, "-c", code], log):
            tried(["python3", "-m", "venv", venv], log)
            tried([venv / "bin" / "pip", "install", "-q", PYTHON_PACKAGES[package]], log)
        if not tried([python, "-c", code], log):
            return self._lacks(name, log)
        versions = [f"{name} {said([python, '-c', code])}", said([python, "--version"])]
        self.versions[name] = ", ".join(versions)
        return make(python)

    def _spider(self):
        log, target = self.folder / "spider.log", self.folder / "spider-target"
        manifest = HERE / "peers" / "spider" / "Cargo.toml"
        build = ["cargo", "build", "--release", "--locked", "--manifest-path", manifest]
        program = target / "release" / "peer-spider"
        if not tried(build, log, {"CARGO_TARGET_DIR": str(target)}):
            return self._lacks("spider", log)
        lock = (manifest.parent / "Cargo.lock").read_text()
        version = lock.split('name = "spider"\nversion = "', 1)[1].split('"', 1)[0]
        self.versions["spider"] = f"spider {version}, default features"
        return spider_runs(program)


def build_portolan():
    """A release build of this tree; its path."""
    command = ["cargo", "build", "--release", "--manifest-path", ROOT / "Cargo.toml", "-p", "portolan"]
    if subprocess.run([str(part) for part in command]).returncode != 0:
        raise SystemExit("Portolan does not build")
    return Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "release" / "portolan"


def tried(command, log, environment=None):
    try:
        with open(log, "a") as file:
            done = subprocess.run(
                [str(part) for part in command], stdout=file, stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env={**os.environ, "DEBIAN_FRONTEND": "noninteractive", **(environment or {})},
            )  # fmt: skip
        return done.returncode == 0
    except OSError as error:
        with open(log, "a") as file:
            print(error, file=file)
        return False


def said(command):
    done = subprocess.run([str(part) for part in command], capture_output=True, text=True)
    lines = (done.stdout or done.stderr).strip().splitlines()
    return lines[0] if lines else "unknown"
