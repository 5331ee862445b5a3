"""Somebody sets the machine's time of day while a crawl runs, and between two runs. A preloaded library does that to the
crawler alone; the Web's witness judges the gaps by a clock that nobody sets."""

import os
import shutil
import struct
import subprocess
from pathlib import Path

from .running import Crawl, Skipped, Web, complete, ended_well, expect, sound, wait_until

SOURCE = Path(__file__).resolve().parents[2] / "crates" / "portolan" / "tests" / "harness" / "clock_set.c"
HOSTS, PAGES = 30, 40
DELAY_MS = 500
HOUR_S, DAY_S = 3_600, 86_400
STEPS = 8
LIMIT_S = 300
SETTINGS = "[politeness]\nip_delay_ms = 0\nresponse_time_factor = 0.0\n"


def cases(options):
    title = f"the time of day set {STEPS} times by up to 10 days, kill -9 between, {DELAY_MS} ms delay"
    yield title, lambda folder, random: clock(options, folder, random)


def clock(options, folder, random):
    library = build(SOURCE, folder)
    file = folder / "seconds"
    steps = [random.choice((-1, 1)) * random.choice((1, 60, HOUR_S, DAY_S, 10 * DAY_S)) for _ in range(STEPS)]
    # The worst is always among them.
    steps[1], steps[2], steps[-1] = -HOUR_S, 10 * DAY_S, -10 * DAY_S
    set_to(file, 0)
    environment = {"LD_PRELOAD": str(library), "CLOCK_SET": str(file)}
    with Web(options, folder, "--hosts", HOSTS, "--pages", PAGES) as web:
        web.ask(f"expect?delay_ms={DELAY_MS}")
        begin = ["http://h0.sim.test/", "--scope", "any", "--delay", f"{DELAY_MS}ms", "--resolve", web.resolve]
        a_step = HOSTS * PAGES // (STEPS + 2)
        stalled = []
        with Crawl(options, folder / "crawl", *begin, settings=SETTINGS, environment=environment) as crawl:
            step_through(web, crawl, file, steps[: STEPS // 2], a_step, stalled)
            crawl.kill()
        web.ask("mark")
        set_to(file, steps[STEPS // 2])
        with Crawl(options, folder / "crawl", environment=environment) as crawl:
            step_through(web, crawl, file, steps[STEPS // 2 + 1 :], a_step, stalled)
            code, report = crawl.end(LIMIT_S)
            left = ended_well(code, report, crawl)
        pages = complete(web, options, folder / "crawl")
        witness = web.ask("witness")
    counted = (
        f"steps of {', '.join(f'{step:+} s' for step in steps)}; {pages} of {pages} pages archived, "
        f"{witness['short_gaps']} gaps too short of {witness['requests']} requests, the shortest {witness['min_gap_ms']:.0f} ms, "
        f"{witness['overlaps']} overlaps, {len(stalled)} stalls"
    )
    expect(not left and not stalled, f"{counted}; {left} {stalled}")
    expect(witness["short_gaps"] == 0 and witness["overlaps"] == 0, counted)
    sound(options, folder / "crawl")
    return counted


def step_through(web, crawl, file, steps, a_step, stalled):
    for step in steps:
        before = web.requests()
        set_to(file, step)
        if not wait_until(60, lambda: web.requests() >= before + a_step or not crawl.running()):
            stalled.append(step)


def set_to(file, seconds):
    file.write_bytes(struct.pack("<q", seconds))


def build(source, folder):
    """A shared library of one C file."""
    compiler = os.environ.get("CC", "cc")
    if not shutil.which(compiler):
        raise Skipped("no C compiler is there")
    if not source.is_file():
        raise Skipped(f"{source} is not there")
    library = folder / f"{source.stem}.so"
    built = subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl"], capture_output=True, text=True)
    expect(built.returncode == 0, f"{compiler} {source.name}: {built.stderr[-200:]}")
    return library
