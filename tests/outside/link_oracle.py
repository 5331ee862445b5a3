"""What a crawler should ask of a folder of files served by nginx: links by Python's own HTML parser,
answers by the rules that nginx documents. Shares no code with the program under test."""

import os
import re
from html.parser import HTMLParser
from urllib.parse import quote, unquote_to_bytes, urljoin, urlsplit

# `rel`s of LINK that name no document: parts of the page, or hosts and services.
NOT_DOCUMENTS = set(
    "stylesheet icon apple-touch-icon apple-touch-icon-precomposed apple-touch-startup-image fluid-icon mask-icon "
    "image_src import manifest modulepreload prefetch preload dns-prefetch preconnect pingback webmention edituri "
    "wlwmanifest profile".split()
)
HTML_START = re.compile(rb"\s*(<\?xml[^>]*>\s*)?(<!--.*?-->\s*)*<(!doctype\s+html|html|head|body)\b", re.I | re.S)
REFRESH = re.compile(r"\s*[\d.]+\s*[;,]\s*(?:url\s*=\s*)?['\"]?([^'\"]*)", re.I)


class Links(HTMLParser):
    """Where a page leads: A, AREA, LINK, FRAME, IFRAME, refresh; relative to its BASE."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.base, self.hrefs = None, []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attributes):
        values = {}
        for name, value in attributes:
            values.setdefault(name, value or "")
        rel = set(values.get("rel", "").lower().split())
        if tag in ("a", "area") and "href" in values:
            if not rel & {"nofollow", "ugc", "sponsored"}:
                self.hrefs.append(values["href"])
        elif tag in ("frame", "iframe") and values.get("src"):
            self.hrefs.append(values["src"])
        elif tag == "link" and values.get("href"):
            if rel - NOT_DOCUMENTS and not rel & {"stylesheet", "icon"}:
                self.hrefs.append(values["href"])
        elif tag == "base" and self.base is None and "href" in values:
            self.base = values["href"]
        elif tag == "meta" and values.get("http-equiv", "").lower() == "refresh":
            target = REFRESH.match(values.get("content", ""))
            if target and target.group(1).strip():
                self.hrefs.append(target.group(1).strip())


def canonical(url):
    """One spelling for one URL of a plain file server; None for what is no http URL."""
    parts = urlsplit(url)
    if parts.scheme.lower() != "http" or not parts.hostname:
        return None
    path = quote(unquote_to_bytes(parts.path or "/"), safe="/!$&'()*+,;=:@~-._")
    query = f"?{parts.query}" if parts.query else ""
    return f"http://{parts.netloc.lower().removesuffix(':80')}{path}{query}"


def links_of(url, body):
    """The canonical URLs that a page links to."""
    page = Links(body.decode("utf-8", "replace"))
    base = urljoin(url, page.base.strip()) if page.base is not None else url
    targets = set()
    for href in page.hrefs:
        href = re.sub(r"[\t\r\n]", "", href.strip())
        if not href or href.startswith("#"):
            continue
        try:
            target = canonical(urljoin(base, href))
        except ValueError:
            continue
        if target:
            targets.add(target)
    return targets


class Answer:
    """What nginx should answer: a file, a listing, a redirect, or nothing."""

    def __init__(self, kind, body=None, location=None):
        self.kind, self.body, self.location = kind, body, location

    STATUS = {"file": 200, "listing": 200, "redirect": 301, "missing": 404, "forbidden": 403}

    @property
    def status(self):
        return self.STATUS[self.kind]


def answer(url, root, autoindex):
    path = unquote_to_bytes(urlsplit(url).path)
    place = os.path.join(os.fsencode(root), path.lstrip(b"/"))
    if not os.path.exists(place) or (path.endswith(b"/") and not os.path.isdir(place)):
        return Answer("missing")
    if os.path.isdir(place):
        if not path.endswith(b"/"):
            return Answer("redirect", location=canonical(f"{url}/"))
        index = os.path.join(place, b"index.html")
        if not os.path.exists(index):
            return Answer("listing" if autoindex else "forbidden")
        place = index
    with open(place, "rb") as file:
        return Answer("file", body=file.read())


def is_page(url, body):
    """Would a crawler read it as HTML? By name where nginx has a type for it, else by its first bytes."""
    name = urlsplit(url).path.rsplit("/", 1)[-1].lower()
    if name == "" or name.endswith((".html", ".htm")):
        return True
    typed = (".css", ".xml", ".xsl", ".js", ".pdf", ".png", ".gif", ".jpg", ".svg", ".gz")
    return not name.endswith(typed) and bool(HTML_START.match(body))


def listed(url, root):
    """The canonical URLs in nginx's listing of a folder; hidden files are not listed, the one above is."""
    folder = os.path.join(os.fsencode(root), unquote_to_bytes(urlsplit(url).path).lstrip(b"/"))
    found = {canonical(urljoin(url, "../"))} if urlsplit(url).path != "/" else set()
    for entry in os.scandir(folder):
        # nginx leaves out links that lead nowhere.
        if not entry.name.startswith(b".") and os.path.exists(entry.path):
            found.add(canonical(urljoin(url, "./" + quote(entry.name) + ("/" if entry.is_dir() else ""))))
    return found


def reachable(sites, seeds):
    """Everything in scope that links lead to: URL -> Answer. `sites`: host -> (root, autoindex)."""
    found, todo = {}, list(seeds)
    while todo:
        url = todo.pop()
        host = urlsplit(url).netloc
        if url in found or host not in sites:
            continue
        root, autoindex = sites[host]
        found[url] = here = answer(url, root, autoindex)
        if here.kind == "redirect":
            todo.append(here.location)
        elif here.kind == "listing":
            todo.extend(listed(url, root))
        elif here.kind == "file" and is_page(url, here.body):
            todo.extend(links_of(url, here.body))
    return found
