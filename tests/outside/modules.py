"""Programs that read documents: what they say is where warcio finds it. pdftotext is tried if it is there."""

import http.server
import json
import shutil
import subprocess
import sys
import threading

import crawler
from verdicts import Verdicts
from warcio.archiveiterator import ArchiveIterator

PDF_WORDS = "Sailing by the stars"


def pdf(text):
    """A document of one page that other people's programs can read."""
    stream = f"BT /F1 24 Tf 72 700 Td ({text}) Tj ET".encode()
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Kids [3 0 R] /Count 1 >>",
        b"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents 4 0 R /Resources << /Font << /F1 5 0 R >> >> >>",
        b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    out, places = b"%PDF-1.4\n", []
    for number, content in enumerate(objects, 1):
        places.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, content)
    table = len(out)
    out += b"xref\n0 %d\n0000000000 65535 f \n" % (len(objects) + 1)
    out += b"".join(b"%010d 00000 n \n" % place for place in places)
    return out + b"trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, table)


PAGES = {
    "/": ("text/html", b"<a href=/a.pdf>a</a> <a href=/copy.pdf>the same</a> <a href=/words.txt>words</a> <a href=/bad.txt>bad</a>"),
    "/a.pdf": ("application/pdf", pdf(PDF_WORDS)),
    "/copy.pdf": ("application/pdf", pdf(PDF_WORDS)),
    "/words.txt": ("text/plain", "three small words\nsee /hidden.html\n".encode()),
    "/bad.txt": ("text/plain", b"BAD\n"),
    "/hidden.html": ("text/html", b"found by a program"),
}

WORDS = """
import json, os, sys
text = sys.stdin.read()
if text.startswith("BAD"):
    sys.exit("it is bad")
print(json.dumps({"fact": "count", "value": len(text.split())}))
print(json.dumps({"fact": "line ends", "value": "a\\r\\nWARC-Type: x"}))
for word in text.split():
    if word.startswith("/"):
        print(json.dumps({"link": word}))
"""


class Site(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        media_type, body = PAGES.get(self.path, ("text/plain", b""))
        self.send_response(200 if self.path in PAGES else 404)
        self.send_header("Content-Type", media_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        pass


def toml_list(words):
    return json.dumps([str(word) for word in words])


def settings(folder):
    program = folder / "words.py"
    program.write_text(WORDS)
    command = toml_list([sys.executable, program])
    text = f'[[module]]\nname = "words"\ntypes = ["text/plain"]\ncommand = {command}\noutput = "json"\nmemory_mb = 2048\n'
    reader = shutil.which("pdftotext")
    command = toml_list([reader, "-", "-"] if reader else ["sed", "-n", "s/.*(\\(.*\\)) Tj.*/\\1/p"])
    text += f'[[module]]\nname = "pdf"\ntypes = ["application/pdf"]\ncommand = {command}\n'
    path = folder / "settings.toml"
    path.write_text(text)
    return path


def records(out):
    """[(kind, URL, header, bytes)]"""
    found = []
    for file in crawler.warcs(out):
        with open(file, "rb") as stream:
            for record in ArchiveIterator(stream, check_digests="raise"):
                header = record.rec_headers.get_header
                found.append((record.rec_type, header("WARC-Target-URI"), header, record.content_stream().read()))
    return found


def check_archive(verdicts, out, base):
    kept = records(out)
    ids = {header("WARC-Record-ID"): (kind, url) for kind, url, header, _ in kept}
    verdicts.check(len(ids) == len(kept), "every record has an id of its own")
    texts = [(url, header, body.decode()) for kind, url, header, body in kept if kind == "conversion"]
    verdicts.check({url for url, _, _ in texts} == {f"{base}/a.pdf", f"{base}/copy.pdf"} and len(texts) == 2,
                   "each PDF has a conversion record", [url for url, _, _ in texts])
    verdicts.none_of([text for _, _, text in texts if text.split() != PDF_WORDS.split()], "it holds the PDF's text")
    referred = [ids.get(header("WARC-Refers-To")) for _, header, _ in texts]
    wanted = [("response", url) for url, _, _ in texts], [("revisit", url) for url, _, _ in texts]
    verdicts.check(all(found in wanted[0] + wanted[1] for found in referred), "it refers to the record of its PDF", referred)
    fields = {url: body.decode().split("\r\n") for kind, url, _, body in kept if kind == "metadata"}
    words = fields.get(f"{base}/words.txt", [])
    verdicts.check("words.count: 5" in words and f"outlink: {base}/hidden.html L module" in words,
                   "facts and links are in the metadata record", words)
    verdicts.check("words.line_ends: a  WARC-Type: x" in words, "a fact cannot end its line", words)
    verdicts.check("words.error: it ended with code 1: it is bad" in fields.get(f"{base}/bad.txt", []), "so is a failure",
                   fields.get(f"{base}/bad.txt", []))
    verdicts.check(f"{base}/hidden.html" in {url for kind, url, _, _ in kept if kind == "response"}, "a module's link was followed")


def main():
    verdicts = Verdicts()
    folder = crawler.scratch("modules")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Site)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    base, out = "http://site.test", folder / "crawl"
    code, summary, said = crawler.crawl(out, [f"{base}/"], "--delay", "0s", "--config", str(settings(folder)), "--resolve",
                                        f"site.test=127.0.0.1:{server.server_port}")
    verdicts.check(code == 0 and summary["modules"]["words"]["failed"] == 1, "the crawl ended well",
                   [code, summary and summary["modules"], *said.splitlines()[-5:]])
    check_archive(verdicts, out, base)
    command = [sys.executable, "-m", "cdxj_indexer.main", "-s", *map(str, crawler.warcs(out))]
    theirs = subprocess.run(command, capture_output=True, text=True).stdout.splitlines()
    ours = (out / "index.cdxj").read_text().splitlines()
    verdicts.check(bool(ours) and sorted(ours) == sorted(theirs), "the index is cdxj-indexer's", sorted(set(ours) ^ set(theirs)))
    verified = subprocess.run([crawler.binary(), "warc", "verify", str(out)], capture_output=True, text=True)
    verdicts.check(verified.returncode == 0, "warc verify finds nothing wrong", verified.stdout.splitlines())
    if not shutil.which("pdftotext"):
        verdicts.note("PDFs were read by sed: there is no pdftotext")
    verdicts.exit()


main()
