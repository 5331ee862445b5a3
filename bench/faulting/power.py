"""Power cuts. One crawl in two runs is recorded, down to each write and sync; what a disk would hold after a cut at a random
moment is rebuilt, and the crawl goes on from there to its end."""

from pathlib import Path

from .clock import build
from .disk import Disk, Luck, records
from .kills import HEALING, urls
from .running import Crawl, Failed, Web, complete, ended_well, expect, last_line, sound

HOSTS, PAGES = 16, 80
FIRST_PAGES = 700
LIMIT_S = 180
SETTINGS = """
[limits]
connections = 8
[politeness]
backoff_ms = 20
backoff_max_ms = 100
[archive]
commit_ms = 20
file_bytes = 600000
[registry]
partitions = 2
checkpoint_log_mb = 1
"""


def cases(options):
    title = f"{options.times} power cuts at random moments of a crawl in two runs"
    yield title, lambda folder, random: power(options, folder, random)


def power(options, folder, random):
    library = build(Path(__file__).with_name("power.c"), folder)
    shape = ["--hosts", HOSTS, "--pages", PAGES, *HEALING]
    with Web(options, folder, *shape, preset="demo") as web:
        begin = ["http://h0.sim.test/", "--scope", "any", "--delay", "0s", "--resolve", web.resolve]
        log, root = folder / "record", folder / "disk"
        record(options, begin, root, {"LD_PRELOAD": str(library), "POWER_LOG": str(log), "POWER_ROOT": str(root)})
        operations = sum(1 for _ in records(log))
        moments = sorted(random.sample(range(1, operations), min(options.times, operations - 1)))
        disk, done, wrong, again, kinds = Disk(root), 0, [], 0, {}
        for n, operation in enumerate(records(log)):
            if n in moments:
                luck = Luck(random)
                place = folder / f"cut-{n}"
                disk.after_cut(luck, place)
                try:
                    again += go_on(options, web, begin, place / "crawl")
                except Failed as failure:
                    wrong.append(f"cut at {n} of {operations}, {luck.kind} kept: {failure}")
                done += 1
                kinds[luck.kind] = kinds.get(luck.kind, 0) + 1
            disk.do(*operation)
        same_as_recorded(disk, root, folder / "end")
    kept = ", ".join(f"{kind} {count} times" for kind, count in sorted(kinds.items()))
    counted = (
        f"{done} cuts in {operations:,} operations; kept of what was not synced: {kept}; {done - len(wrong)} crawls whole and "
        f"sound at their end; {again} URLs asked for again whose visit was durable"
    )
    expect(not wrong and again == 0, f"{counted}: {'; '.join(wrong)}")
    return counted


def record(options, begin, root, environment):
    root.mkdir()
    for arguments, settings in ([*begin, "--max-pages", str(FIRST_PAGES)], SETTINGS), (["--max-pages", "0"], ""):
        with Crawl(options, root / "crawl", *arguments, settings=settings, environment=environment) as crawl:
            code, _ = crawl.end(LIMIT_S)
            expect(code == 0, f"the run that is recorded: exit code {code}: {last_line(crawl.said())}")


def same_as_recorded(disk, root, place):
    """The record misses nothing: with all of it kept, the rebuilt directory is the real one."""
    disk.after_cut(Luck(None, "everything"), place)
    contents = [
        {str(file.relative_to(top)): file.read_bytes() for file in (top / "crawl").rglob("*") if file.is_file()}
        for top in (root, place)
    ]
    differ = sorted(name for name in contents[0].keys() | contents[1].keys() if contents[0].get(name) != contents[1].get(name))
    expect(not differ, f"the record is not what was done to {', '.join(differ[:3])}")


def go_on(options, web, begin, out):
    """Goes on after a cut; how many URLs were asked for although their visit was durable."""
    settings = "" if (out / "crawl.toml").exists() else SETTINGS
    durable = visited(options, out)
    web.ask("reset")
    arguments = begin if settings else ["--max-pages", "0"]
    out.parent.mkdir(parents=True, exist_ok=True)
    with Crawl(options, out, *arguments, settings=settings) as crawl:
        code, report = crawl.end(LIMIT_S)
        ended_well(code, report, crawl)
        expect("panicked" not in crawl.said(), last_line(crawl.said()))
    complete(web, options, out)
    sound(options, out)
    return sum(url in durable for url, count in web.ask("urls").items() if count["requests"])


def visited(options, out):
    """URLs whose visit is durable; none where the cut came before there was a registry to ask."""
    try:
        return set(urls(options, out, "visited"))
    except Failed:
        return set()
