"""A fleet on this machine: NATS servers, a store, a simulated Web with one witness, and nodes in processes of their own."""

import json
import os
import re
import signal
import subprocess
from pathlib import Path

from faulting.running import LIMIT_S, Failed, Web, expect, last_line, wait_until

from .servers import Servers
from .store import Directory

NAME = "sea"
PARTITIONS = 24
LEASE_S = 4
DELAY_MS = 40
# Faults that end some time, so that no page is due for ever; robots.txt is there on all hosts.
HEALING = ["not_found", "gone", "forbidden", "server_error", "unavailable_then_ok", "too_many_then_ok"]
HOSTS, PAGES = 60, 60
SETTINGS = """
[scope]
scope = "any"
[politeness]
delay_ms = {delay_ms}
ip_delay_ms = {ip_delay_ms}
response_time_factor = 0.0
backoff_ms = 50
backoff_max_ms = 200
[outages]
wait_ms = 3000
[dns]
resolve = ["*.sim.test={web}"]
[identity]
contact = "https://example.org/crawler"
[access]
proxy_from_environment = false
{more}
"""
# Files, checkpoints and commits come often, though there is little to do.
SMALL = """
[limits]
threads = 1
connections = 32
[archive]
commit_ms = 20
file_bytes = 1000000
[registry]
memory_mb = 64
checkpoint_log_mb = 1
"""
FLEET = "[fleet]\nship_ms = {ship_ms}\nmax_unshipped_mb = {max_unshipped_mb}\n"


def shape(hosts=HOSTS, pages=PAGES):
    """Arguments of the simulated Web."""
    options = {"faults.errors": json.dumps(HEALING), "faults.retry_after_s": 0, "robots.odd_share": 0, "latency.mean_ms": 10}
    words = ["--hosts", hosts, "--pages", pages]
    for name, value in options.items():
        words += ["--set", f"{name}={value}"]
    return words


class Node:
    """A node's process. Its directory stays when the process goes."""

    def __init__(self, world, name, directory, runner, environment):
        self.world, self.name, self.dir = world, name, Path(directory)
        self.runner, self.environment = runner, environment
        self.log = world.folder / f"{self.dir.name}.log"
        self.errors = open(world.folder / f"{self.dir.name}.err", "a+")
        self.process = None
        self.start()

    def start(self):
        world = self.world
        node = ["node", NAME, "--json", "--insecure", "--nats", world.servers.urls, "--node", self.name, "--dir", self.dir, "-v"]
        self.process = subprocess.Popen(
            [*self.runner, world.options.program, *node, "--log", self.log],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=self.errors, text=True,
            env={**os.environ, **world.store.environment, **self.environment},
        )  # fmt: skip

    def signal(self, name):
        # Where it runs in a namespace, nsenter has become it.
        self.process.send_signal(getattr(signal, f"SIG{name}"))

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def running(self):
        return self.process is not None and self.process.poll() is None

    def said(self):
        printed = Path(self.errors.name).read_text(errors="replace")
        return printed + (self.log.read_text(errors="replace") if self.log.exists() else "")

    def end(self, limit_s=LIMIT_S):
        """Waits for the end of the crawl; the report."""
        try:
            printed, _ = self.process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            status = self.world.status()
            raise Failed(f"node {self.name} had not ended after {limit_s} s: {brief(status)}") from None
        code = self.process.returncode
        expect(code == 0, f"node {self.name}: exit code {code}: {last_line(Path(self.errors.name).read_text())}")
        report = json.loads(printed.strip().splitlines()[-1])
        expect(report["stopped_by"] == "done", f"node {self.name} was stopped by {report['stopped_by']}")
        return report


class World:
    """Everything of one case. `places` of the servers are as `Servers` wants them; none: one server on loopback."""

    def __init__(self, options, folder, store=Directory, count=1, places=None, web=None, door=None, servers="", preset="demo", lease_s=LEASE_S, **settings):
        self.options, self.folder = options, folder
        self.nodes, self.to_stop, self.lease_s, self.lost = [], [], lease_s, False
        try:
            self.web = self.opened(Web(options, folder, *(web or shape()), preset=preset))
            self.web_address = self.web.address
            if door:
                self.web_address = self.stopped(door(self.web.address)).place
            self.store = self.stopped(store(folder))
            self.servers = self.stopped(Servers(folder, places or [("127.0.0.1", "127.0.0.1", [])] * count, servers))
            self.servers.wait()
            self.make(settings)
        except BaseException:
            self.__exit__()
            raise

    def stopped(self, part):
        self.to_stop.append(part.stop)
        return part

    def opened(self, part):
        part.__enter__()
        self.to_stop.append(lambda: part.__exit__(None, None, None))
        return part

    def make(self, given):
        values = {"delay_ms": DELAY_MS, "ip_delay_ms": 0, "ship_ms": 500, "max_unshipped_mb": 1024, "more": SMALL, **given}
        self.web.ask(f"expect?delay_ms={values['delay_ms']}")
        self.web.ask(f"expect?ip_delay_ms={values['ip_delay_ms']}")
        self.settings = SETTINGS.format(web=self.web_address, **values)
        config = self.folder / "settings.toml"
        config.write_text(self.settings + FLEET.format(**values))
        self.ask(
            "fleet", "new", NAME, "http://h0.sim.test/", "--blobs", self.store.place, "--config", config,
            "--partitions", PARTITIONS, "--lease", f"{self.lease_s}s", "--link-disk", 1, "--log-disk", 1,
        )  # fmt: skip

    def ask(self, *arguments):
        """Runs a command of the fleet; what it printed."""
        command = [self.options.program, *map(str, arguments), "--nats", self.servers.urls, "--insecure"]
        environment = {**os.environ, **self.store.environment, "PORTOLAN_CACHE": str(self.folder / "cache")}
        done = subprocess.run(command, capture_output=True, text=True, timeout=LIMIT_S, env=environment)
        expect(done.returncode == 0, f"portolan {' '.join(map(str, arguments[:3]))}: {last_line(done.stderr)}")
        return done.stdout

    def status(self):
        return json.loads(self.ask("fleet", "status", NAME, "--json").splitlines()[-1])

    def node(self, name, directory=None, runner=(), environment=None):
        node = Node(self, name, self.folder / (directory or name), list(runner), environment or {})
        self.nodes.append(node)
        return node

    def forget(self, node):
        """A node that never comes back."""
        self.nodes.remove(node)
        self.lost = True
        self.to_stop.append(node.errors.close)

    def requests(self):
        return self.web.requests()

    def wait_for(self, requests, limit_s=120):
        """Until the Web was asked for so much, and some node still runs."""
        expect(wait_until(limit_s, lambda: self.requests() >= requests), f"no {requests} requests in {limit_s} s: {brief(self.status())}")
        expect(any(node.running() for node in self.nodes), "the crawl ended too soon; a larger Web is needed")

    def holds(self, name):
        node = self.status()["nodes"].get(name)
        return node["holds"] if node else 0

    def end(self, limit_s=LIMIT_S):
        return [node.end(limit_s) for node in self.nodes]

    def fenced(self):
        """How often nodes have found out that the fleet went on without them."""
        return sum(len(re.findall(r"joins anew", Path(node.errors.name).read_text())) for node in self.nodes)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for node in self.nodes:
            if node.running():
                node.process.kill()
                node.process.wait()
            node.errors.close()
        for stop in reversed(self.to_stop):
            stop()


def brief(status):
    """A fleet's status in a line."""
    words = [f"{status['wish']}, {status['free']} free, {status['links_waiting']} messages wait"]
    for name, node in sorted(status["nodes"].items()):
        told = (node["reported"] or {}).get("status", {})
        due = sum(partition["due"] for partition in told.get("partitions", []))
        words.append(f"{name}: {node['holds']} held, {due} due, {told.get('trouble') or 'no trouble'}")
    return "; ".join(words)
