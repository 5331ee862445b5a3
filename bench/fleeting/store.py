"""The store of a fleet: a directory, or a real S3 server behind a relay that can answer 503 instead."""

import http.client
import socketserver
import subprocess
import threading
import time
import urllib.request
from http.server import BaseHTTPRequestHandler

from faulting.running import expect, free_port, wait_until

from .servers import program

BUCKET = "crawl"


class Directory:
    """A directory that all nodes share."""

    name = "a directory"
    environment = {}

    def __init__(self, folder):
        self.place = str(folder / "store")

    def processes(self):
        return []

    def stop(self):
        pass


class Bucket:
    """A bucket of an S3 server. `down` makes the relay before it answer 503 to everything."""

    name = "S3"

    def __init__(self, folder):
        port = free_port()
        self.log = open(folder / "s3.log", "w")
        server = program("PORTOLAN_S3_SERVER", "moto_server")
        self.process = subprocess.Popen([server, "-H", "127.0.0.1", "-p", str(port)], stdout=self.log, stderr=self.log)
        expect(wait_until(60, lambda: answers(port), 0.2), "the S3 server did not start")
        make = urllib.request.Request(f"http://127.0.0.1:{port}/{BUCKET}", method="PUT")
        urllib.request.urlopen(make, timeout=20).close()
        self.relay = Relay(port)
        self.place = f"s3://{BUCKET}/fleet"
        self.environment = {
            "AWS_ACCESS_KEY_ID": "test",
            "AWS_SECRET_ACCESS_KEY": "test",
            "AWS_REGION": "us-east-1",
            "AWS_ALLOW_HTTP": "true",
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.relay.port}",
        }

    def processes(self):
        return [self.process.pid]

    def down_for(self, seconds):
        """503 to everything for so long; how many requests were answered so."""
        before = self.relay.refused
        self.relay.down = True
        time.sleep(seconds)
        self.relay.down = False
        return self.relay.refused - before

    def stop(self):
        self.relay.stop()
        self.process.kill()
        self.process.wait()
        self.log.close()


def answers(port):
    try:
        urllib.request.urlopen(f"http://127.0.0.1:{port}/", timeout=5).close()
        return True
    except OSError:
        return False


class Relay:
    """Passes requests on to a server on this machine, one connection each."""

    def __init__(self, port):
        self.target, self.down, self.refused = port, False, 0
        relay = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def pass_on(self):
                relay.pass_on(self)

            do_GET = do_PUT = do_POST = do_HEAD = do_DELETE = pass_on

            def log_message(self, *_):
                pass

        class Server(socketserver.ThreadingTCPServer):
            allow_reuse_address = True
            daemon_threads = True

            def handle_error(self, *_):
                """A client that is killed breaks its connections."""

        self.server = Server(("127.0.0.1", 0), Handler)
        self.port = self.server.server_address[1]
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def pass_on(self, handler):
        body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        if self.down:
            self.refused += 1
            return answer(handler, 503, [], b"<Error><Code>ServiceUnavailable</Code></Error>")
        connection = http.client.HTTPConnection("127.0.0.1", self.target, timeout=60)
        connection.putrequest(handler.command, handler.path, skip_host=True, skip_accept_encoding=True)
        for name, value in handler.headers.items():
            connection.putheader(name, value)
        connection.endheaders(body)
        response = connection.getresponse()
        read = response.read()
        answer(handler, response.status, response.getheaders(), read)
        connection.close()

    def stop(self):
        self.server.shutdown()
        self.server.server_close()


def answer(handler, status, headers, body):
    handler.send_response_only(status)
    length = len(body)
    for name, value in headers:
        if name.lower() == "content-length" and handler.command == "HEAD":
            length = int(value)
        if name.lower() not in ("transfer-encoding", "content-length", "connection"):
            handler.send_header(name, value)
    handler.send_header("Content-Length", str(length))
    handler.end_headers()
    if handler.command != "HEAD":
        handler.wfile.write(body)
