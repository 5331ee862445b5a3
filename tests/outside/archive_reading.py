"""A crawl's WARC files as warcio reads them, not as the program under test does."""

from warcio.archiveiterator import ArchiveIterator


class Capture:
    """A response or revisit record."""

    def __init__(self, record):
        headers = record.rec_headers
        self.kind = record.rec_type
        self.url = headers.get_header("WARC-Target-URI")
        # The record of an answer that said that nothing has changed has no head.
        http = record.http_headers
        self.status = int(http.get_statuscode()) if http else None
        self.encoding = http.get_header("Content-Encoding") if http else None
        self.refers_to = headers.get_header("WARC-Refers-To-Target-URI")
        # The last word of its URL, such as "server-not-modified".
        self.profile = (headers.get_header("WARC-Profile") or "").rsplit("/", 1)[-1]
        self.truncated = headers.get_header("WARC-Truncated")
        self.date = headers.get_header("WARC-Date")
        # After content decoding; empty for a revisit.
        self.payload = record.content_stream().read()


def captures(warcs):
    """Every response and revisit record, in the order written."""
    found = []
    for warc in warcs:
        with open(warc, "rb") as stream:
            for record in ArchiveIterator(stream):
                if record.rec_type in ("response", "revisit"):
                    found.append(Capture(record))
    return found


def payload_of(capture, by_url):
    """The payload; a revisit's is that of the capture it refers to. None if there is no such capture."""
    if capture.kind != "revisit":
        return capture.payload
    originals = [c for c in by_url.get(capture.refers_to, []) if c.kind == "response"]
    return originals[0].payload if originals else None


def by_url(found):
    table = {}
    for capture in found:
        table.setdefault(capture.url, []).append(capture)
    return table
