"""Crawls from a URL with Scrapy: every link (none leads out of the simulated Web), robots.txt obeyed,
no delay. Arguments: URL [FOLDER to write the bodies to]
"""

import hashlib
import sys
from pathlib import Path

import scrapy
from scrapy.crawler import CrawlerProcess
from scrapy.linkextractors import LinkExtractor

# Everything that costs time and is not asked for is off.
SETTINGS = {
    "ROBOTSTXT_OBEY": True,
    "DOWNLOAD_DELAY": 0,
    "CONCURRENT_REQUESTS": 64,
    "CONCURRENT_REQUESTS_PER_DOMAIN": 8,
    "AUTOTHROTTLE_ENABLED": False,
    "COOKIES_ENABLED": False,
    "RETRY_ENABLED": False,
    "TELNETCONSOLE_ENABLED": False,
    "HTTPCACHE_ENABLED": False,
    "DNS_TIMEOUT": 10,
    "LOG_LEVEL": "ERROR",
}


class Peer(scrapy.Spider):
    name = "peer"

    def __init__(self, url, folder=None):
        super().__init__()
        self.start_urls = [url]
        self.links = LinkExtractor()
        self.folder = Path(folder) if folder else None

    def parse(self, response):
        if self.folder:
            name = hashlib.sha1(response.url.encode()).hexdigest()
            (self.folder / name).write_bytes(response.body)
        if isinstance(response, scrapy.http.HtmlResponse):
            for link in self.links.extract_links(response):
                yield scrapy.Request(link.url, callback=self.parse)


if __name__ == "__main__":
    process = CrawlerProcess(SETTINGS)
    process.crawl(Peer, *sys.argv[1:])
    process.start()
