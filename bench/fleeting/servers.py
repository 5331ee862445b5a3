"""NATS servers in processes of their own, one or a cluster, and as much of their protocol as a fault needs."""

import json
import os
import shutil
import socket
import subprocess
import urllib.request
from pathlib import Path

from faulting.running import Failed, Skipped, expect, free_port, wait_until

START_S = 60


def program(variable, name):
    """What a variable names, or what stands in PATH."""
    found = os.environ.get(variable) or shutil.which(name)
    if not found or not Path(found).exists():
        raise Skipped(f"there is no {name}; put it into PATH, or name it in {variable}")
    return found


class Server:
    """One nats-server: where it listens, and its process."""

    def __init__(self, number, folder, host, cluster_host, runner):
        self.name, self.host, self.runner = f"n{number}", host, runner
        self.client, self.cluster, self.monitor = (free_port() for _ in range(3))
        self.route = f"nats://{cluster_host}:{self.cluster}"
        self.cluster_host = cluster_host
        self.config = Path(folder) / f"{self.name}.conf"
        self.store = Path(folder) / self.name
        self.process = None

    @property
    def url(self):
        return f"nats://{self.host}:{self.client}"

    def write(self, routes, more):
        lines = [
            f'listen: "{self.host}:{self.client}"',
            f'http: "{self.host}:{self.monitor}"',
            f'server_name: "{self.name}"',
            f'jetstream {{ store_dir: "{self.store}" }}',
            more,
        ]
        if len(routes) > 1:
            quoted = ", ".join(f'"{route}"' for route in routes)
            lines.append(f'cluster {{ name: "local", listen: "{self.cluster_host}:{self.cluster}", routes: [{quoted}] }}')
        self.config.write_text("\n".join(lines) + "\n")

    def start(self, binary):
        log = open(self.config.with_suffix(".log"), "a")
        self.process = subprocess.Popen([*self.runner, binary, "-c", self.config], stdout=log, stderr=log)
        log.close()

    def kill(self):
        if self.process:
            self.process.kill()
            self.process.wait()
            self.process = None

    def monitored(self, page):
        with urllib.request.urlopen(f"http://{self.host}:{self.monitor}/{page}", timeout=5) as answer:
            return json.load(answer)


class Servers:
    """`places`: for each server its address, the one it speaks to the others at, and what its process is run by."""

    def __init__(self, folder, places, more=""):
        self.binary = program("PORTOLAN_NATS_SERVER", "nats-server")
        folder = Path(folder) / "nats"
        folder.mkdir()
        self.all = [Server(number, folder, *place) for number, place in enumerate(places)]
        for server in self.all:
            server.write([other.route for other in self.all], more)
            server.start(self.binary)

    @property
    def urls(self):
        return ",".join(server.url for server in self.all)

    def wait(self):
        """Until all of them say that they are well."""
        expect(wait_until(START_S, lambda: all(map(healthy, self.all)), 0.2), "the NATS servers did not start")

    def leader(self, stream):
        """The server that leads a stream; None where none does just now."""
        for server in self.all:
            if server.process is None:
                continue
            try:
                account = server.monitored("jsz?streams=1")["account_details"][0]
            except (OSError, LookupError):
                continue
            for detail in account.get("stream_detail", []):
                leads = detail.get("cluster", {}).get("leader")
                if detail["name"] == stream and leads:
                    return next((one for one in self.all if one.name == leads), None)
        return None

    def processes(self):
        return [server.process.pid for server in self.all if server.process]

    def stop(self):
        for server in self.all:
            server.kill()


def healthy(server):
    try:
        return server.monitored("healthz")["status"] == "ok"
    except OSError:
        return False


class Client:
    """A connection to one server that makes requests of JetStream's API, one after the other."""

    def __init__(self, server):
        self.socket = socket.create_connection((server.host, server.client), timeout=20)
        self.lines = self.socket.makefile("rb")
        self.lines.readline()
        self.socket.sendall(b'CONNECT {"verbose":false,"headers":false}\r\nSUB answers.here 1\r\n')

    def ask(self, subject, body=None):
        payload = json.dumps(body).encode() if body is not None else b""
        self.socket.sendall(f"PUB {subject} answers.here {len(payload)}\r\n".encode() + payload + b"\r\n")
        while line := self.lines.readline():
            if line.startswith(b"PING"):
                self.socket.sendall(b"PONG\r\n")
            if line.startswith(b"MSG"):
                answer = json.loads(self.lines.read(int(line.split()[-1]) + 2))
                expect("error" not in answer, f"{subject}: {answer.get('error')}")
                return answer
        raise Failed(f"{subject}: the server has hung up")

    def set_max_bytes(self, stream, bytes_):
        """How large a stream may be."""
        config = self.ask(f"$JS.API.STREAM.INFO.{stream}")["config"]
        self.ask(f"$JS.API.STREAM.UPDATE.{stream}", {**config, "max_bytes": bytes_})

    def close(self):
        self.socket.close()
