"""kill -9 at random moments of a crawl that has checkpoints. Nothing is lost, and nothing that was durable is done again."""

import json
import time

from .running import Crawl, Web, ask, complete, ended_well, expect, last_line, sound, wait_until

HOSTS, PAGES = 40, 250
FIRST_PAGES = 3_000
# So many requests are under way at once: what a kill can interrupt is known.
CONNECTIONS = 16
# Answers that a kill may make the crawler ask for again: those under way, and those that wait for a commit. A commit takes
# long on a busy disk.
AGAIN_A_KILL = CONNECTIONS * 16
# Faults that end some time: pages that refuse for ever, and those of a host whose robots.txt fails for ever, are due for ever.
FAULTS = ["not_found", "gone", "forbidden", "server_error", "unavailable_then_ok", "too_many_then_ok"]
HEALING = ["--set", f"faults.errors={json.dumps(FAULTS)}", "--set", "faults.retry_after_s=0", "--set", "robots.odd_share=0"]
SETTLE_S = 0.1
START_S = 60
SETTINGS = f"""
[limits]
connections = {CONNECTIONS}
[politeness]
backoff_ms = 50
backoff_max_ms = 200
[archive]
commit_ms = 20
file_bytes = 4000000
[registry]
checkpoint_log_mb = 1
"""


def cases(options):
    title = f"{options.times} kill -9 after {FIRST_PAGES:,} pages and checkpoints"
    yield title, lambda folder, random: kills(options, folder, random)


def kills(options, folder, random):
    # Answers take a while, so that a kill finds requests under way.
    shape = ["--hosts", HOSTS, "--pages", PAGES, "--set", "latency.mean_ms=20", *HEALING]
    with Web(options, folder, *shape, preset="demo") as web:
        out = folder / "crawl"
        begin = ["http://h0.sim.test/", "--scope", "any", "--delay", "0s", "--resolve", web.resolve]
        with Crawl(options, out, *begin, "--max-pages", str(FIRST_PAGES), settings=SETTINGS) as crawl:
            code, report = crawl.end()
            expect(report.get("stopped_by") == "max-pages", f"the first run: exit code {code}, {crawl.said()[-200:]}")
        checkpoints = len(list(out.glob("registry/p*/known-*.tbl")))
        expect(checkpoints > 0, "there is no checkpoint after the first run")
        web.ask("mark")
        durable = dict.fromkeys(urls(options, out, "visited"), 0)
        killed = under_fire(options, web, out, random, durable)
        with Crawl(options, out, "--max-pages", "0") as crawl:
            code, report = crawl.end()
            left = ended_well(code, report, crawl)
        pages = complete(web, options, out)
        witness = web.ask("witness")
        due = urls(options, out, "due")
        expect(not due, f"{len(due)} URLs are still due, {due[0] if due else ''} first")
    again = [repeat["url"] for repeat in witness["repeated"] if durable.get(repeat["url"], repeat["epoch"]) < repeat["epoch"]]
    sins = {name: witness[name] for name in ("forbidden", "before_robots", "overlaps") if witness[name]}
    counted = (
        f"{killed} kills, {checkpoints} tables of checkpoints at first, {pages} of {pages} pages archived, 0 archived twice, "
        f"{witness['repeats']} answered more than once ({witness['repeats'] / max(killed, 1):.1f} a kill), of these "
        f"{len(again)} whose visit was durable and {witness['repeats_in_one_epoch']} within one run, "
        "warc verify and check sound"
    )
    expect(killed == options.times, f"the crawl ended after {killed} kills; a larger Web is needed")
    expect(not sins, f"{counted}; {sins}")
    expect(witness["repeats_in_one_epoch"] == 0 and not again, f"{counted}; {again[:3]}")
    expect(witness["repeats"] <= AGAIN_A_KILL * killed, f"{counted}; at most {AGAIN_A_KILL} a kill are allowed")
    expect(not left.get("urls_due"), f"{counted}; {left}")
    sound(options, out)
    return counted


def under_fire(options, web, out, random, durable):
    """Runs and kills the crawl; how many kills hit it. Notes the epoch in which each URL's visit became durable."""
    for killed in range(options.times):
        before = web.requests()
        with Crawl(options, out, "--max-pages", "0") as crawl:
            # One in five is hit while it starts, the others at work.
            if random.random() < 0.2:
                time.sleep(random.random() * 0.5)
            else:
                more = random.randint(5, FIRST_PAGES // options.times + 50)
                wait_until(START_S, lambda: web.requests() > before + more or not crawl.running(), 0.02)
                time.sleep(random.random() * 0.2)
            if not crawl.running():
                code, report = crawl.end()
                expect(code == 0 and report.get("stopped_by") == "done", f"a run ended by itself: {crawl.said()[-300:]}")
                return killed
            crawl.kill()
        # The server may still read what the killed one had sent: that belongs to the epoch before.
        time.sleep(SETTLE_S)
        wait_until(START_S, lambda: at_rest(web))
        # The first run was epoch 0.
        for url in urls(options, out, "visited"):
            durable.setdefault(url, killed + 1)
        web.ask("mark")
    return options.times


def at_rest(web):
    seen = web.ask("witness")
    return seen["requests"] == seen["served"] + seen["aborted"]


def urls(options, out, state):
    code, printed, error = ask(options, "urls", out, "--json", "--state", state)
    expect(code == 0, f"portolan urls: {last_line(error)}")
    return [json.loads(line)["url"] for line in printed.splitlines()]
