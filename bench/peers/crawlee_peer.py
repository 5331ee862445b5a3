"""Crawls from a URL with crawlee's ParselCrawler: every link within the domain, robots.txt obeyed, no
delay, queue in memory. Arguments: URL
"""

import asyncio
import logging
import sys
from datetime import timedelta

from crawlee import ConcurrencySettings, service_locator
from crawlee.crawlers import ParselCrawler, ParselCrawlingContext
from crawlee.storage_clients import MemoryStorageClient


async def main(url):
    service_locator.set_storage_client(MemoryStorageClient())
    crawler = ParselCrawler(
        respect_robots_txt_file=True,
        max_request_retries=0,
        concurrency_settings=ConcurrencySettings(
            min_concurrency=32, desired_concurrency=32, max_concurrency=64
        ),
        # Longer than any run here.
        request_handler_timeout=timedelta(minutes=10),
        configure_logging=False,
        statistics_log_format="inline",
    )

    @crawler.router.default_handler
    async def handle(context: ParselCrawlingContext) -> None:
        await context.enqueue_links(strategy="same-domain")

    logging.disable(logging.CRITICAL)
    await crawler.run([url])


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
