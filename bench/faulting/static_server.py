"""Stands in where there is no nginx: serves FOLDER/pages on PORT, logs to FOLDER/access.log, and answers 503 or 502 to
everything while a file of that name lies in FOLDER."""

import http.server
import sys
from pathlib import Path

PORT, FOLDER = int(sys.argv[1]), Path(sys.argv[2])
LOG = open(FOLDER / "access.log", "a", buffering=1)


class Handler(http.server.SimpleHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def __init__(self, *arguments):
        super().__init__(*arguments, directory=str(FOLDER / "pages"))

    def do_GET(self):
        for status in (503, 502):
            if (FOLDER / str(status)).exists():
                return self.send_error(status)
        return super().do_GET()

    def log_message(self, form, *values):
        LOG.write(f"{self.client_address[0]} - - [{self.log_date_time_string()}] {form % values}\n")


http.server.ThreadingHTTPServer(("127.0.0.1", PORT), Handler).serve_forever()
