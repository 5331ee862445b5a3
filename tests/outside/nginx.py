"""A real nginx on a loopback port, with its access log as the witness of what was asked.

It runs from a folder of its own with its own configuration, in the foreground, with one worker (so
that two answers at once can only be two requests that were open at once)."""

import json
import os
import shutil
import socket
import subprocess
import time
import urllib.request

MAX_START_S = 10
MAX_STOP_S = 10

CONFIGURATION = """
daemon off;
worker_processes 1;
pid {folder}/nginx.pid;
error_log {folder}/error.log warn;
events {{ worker_connections 512; }}
http {{
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    types {{
        text/html html htm; text/css css; text/plain txt; application/xml xml xsl;
        application/javascript js; application/pdf pdf;
        image/png png; image/gif gif; image/jpeg jpg; image/svg+xml svg;
        application/gzip gz; application/json json;
        font/woff2 woff2; font/woff woff; font/ttf ttf; image/x-icon ico;
    }}
    default_type application/octet-stream;
    server_names_hash_bucket_size 128;
    log_format witness escape=json '{{"host":"$http_host","method":"$request_method",'
        '"uri":"$request_uri","status":$status,"end":$msec,"seconds":$request_time,'
        '"connection":$connection,"agent":"$http_user_agent","authorization":"$http_authorization"}}';
    access_log {folder}/access.log witness;
    keepalive_requests 100000;
    {http}
    server {{
        listen 127.0.0.1:{port} default_server;
        server_name _;
        return 404;
    }}
{servers}
}}
"""

SERVER = """
    server {{
        listen 127.0.0.1:{port};
        server_name {name};
        root "{root}";
        {settings}
    }}
"""


def find():
    """The nginx to use, or None."""
    named = os.environ.get("PORTOLAN_NGINX")
    return named or shutil.which("nginx") or shutil.which("/usr/sbin/nginx")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Request:
    def __init__(self, line):
        entry = json.loads(line)
        self.host, self.uri, self.status = entry["host"], entry["uri"], entry["status"]
        self.method, self.connection, self.agent = entry["method"], entry["connection"], entry["agent"]
        self.authorization = entry["authorization"]
        self.end_ms = round(entry["end"] * 1000)
        self.start_ms = self.end_ms - round(entry["seconds"] * 1000)

    @property
    def url(self):
        return f"http://{self.host}{self.uri}"


class Nginx:
    """`sites`: name -> (root folder, further settings of its server block)."""

    def __init__(self, program, folder, sites, http=""):
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.port = folder, free_port()
        servers = "".join(
            SERVER.format(port=self.port, name=name, root=root, settings=settings)
            for name, (root, settings) in sites.items()
        )
        configuration = folder / "nginx.conf"
        configuration.write_text(
            CONFIGURATION.format(folder=folder, port=self.port, servers=servers, http=http)
        )
        command = [program, "-p", str(folder), "-c", str(configuration)]
        # As root, nginx would hand its worker to an account that may not read the folder.
        command += ["-g", "user root;"] if os.geteuid() == 0 else []
        self.process = subprocess.Popen(command, stderr=subprocess.DEVNULL)

    def __enter__(self):
        deadline = time.monotonic() + MAX_START_S
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                break
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return self
            except OSError:
                time.sleep(0.05)
        self.stop()
        log = self.folder / "error.log"
        raise RuntimeError(f"nginx did not start: {log.read_text() if log.exists() else 'no log'}")

    def __exit__(self, *_):
        self.stop()

    def stop(self):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(MAX_STOP_S)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def get(self, url):
        """(status, body) as a plain client gets it, without following redirects."""
        host, path = url.removeprefix("http://").split("/", 1)
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/{path}", headers={"Host": host})
        opener = urllib.request.build_opener(KeepRedirects)
        try:
            with opener.open(request, timeout=30) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as answer:
            return answer.code, answer.read()

    def requests(self):
        """What was asked until now."""
        log = self.folder / "access.log"
        return [Request(line) for line in log.read_text().splitlines()] if log.exists() else []


class KeepRedirects(urllib.request.HTTPRedirectHandler):
    def redirect_request(self, *_):
        return None


def overlaps(requests):
    """Pairs of requests of one host of which the second began before the first had ended."""
    found, last = [], {}
    for request in sorted(requests, key=lambda r: (r.start_ms, r.end_ms)):
        earlier = last.get(request.host)
        if earlier and request.start_ms < earlier.end_ms:
            found.append(f"{request.url} began {earlier.end_ms - request.start_ms} ms before {earlier.url} ended")
        if not earlier or request.end_ms > earlier.end_ms:
            last[request.host] = request
    return found
