"""Damage to one file of a finished crawl. It is told or refused, unless nothing is lost with it; nothing panics, and no WARC
file loses a byte."""

import shutil
import subprocess

from .running import Crawl, Web, ask, expect, last_line

HOSTS, PAGES = 12, 150
FIRST_PAGES = 1_500
SETTINGS = """
[archive]
file_bytes = 200000
[registry]
checkpoint_log_mb = 1
partitions = 2
[partition]
unlisted = "discoverer"
"""
COMMANDS = {"check": ["check"], "warc verify": ["warc", "verify"], "crawl": ["crawl", "--quiet", "--out"]}
LIMIT_S = 120


def cases(options):
    yield "one file of each kind changed, cut, emptied, removed", lambda folder, random: damage(options, folder, random)


def damage(options, folder, random):
    whole = folder / "whole"
    with Web(options, folder, "--hosts", HOSTS, "--pages", PAGES, "--set", "content.page_bytes=2000") as web:
        make(options, web, whole)
        code, _, error = ask(options, "check", whole)
        expect(code == 0, f"the crawl is not sound before any damage: {last_line(error)}")
        kinds = by_kind(whole)
        known = urls(options, whole)
        wrong, untold, done, told = [], [], 0, dict.fromkeys(COMMANDS, 0)
        for kind, files in sorted(kinds.items()):
            for how in (flip, cut, empty, remove):
                file = random.choice(files)
                copy = folder / "copy"
                shutil.copytree(whole, copy)
                if not how(copy / file, random):
                    shutil.rmtree(copy)
                    continue
                done += 1
                sayers, faults = judge(options, copy, file)
                for sayer in sayers:
                    told[sayer] += 1
                if not sayers and urls(options, copy) == known:
                    untold.append(f"{file} {how.__name__}")
                elif not sayers:
                    faults.append("nobody told, and other URLs are known or visited than before")
                wrong += [f"{file} {how.__name__}: {fault}" for fault in faults]
                shutil.rmtree(copy)
    by = ", ".join(f"{n} by {name}" for name, n in told.items())
    counted = f"{done} damages to {len(kinds)} kinds of files, told: {by}; {len(wrong)} wrong; "
    counted += f"{len(untold)} told by nobody with every URL as it was ({', '.join(untold)})"
    expect(not wrong, f"{counted}: " + "; ".join(wrong))
    return counted


def make(options, web, out):
    """A finished crawl with a checkpoint, a log behind it and several WARC files."""
    begin = ["http://h0.sim.test/", "--scope", "any", "--delay", "0s", "--resolve", web.resolve]
    for arguments, stopped_by in (
        ([*begin, "--max-pages", str(FIRST_PAGES)], "max-pages"),
        (["--max-pages", "0"], "done"),
    ):
        with Crawl(options, out, *arguments, settings=SETTINGS if len(arguments) > 2 else "") as crawl:
            code, report = crawl.end()
            expect(code == 0 and report["stopped_by"] == stopped_by, f"exit code {code}: {last_line(crawl.said())}")


def urls(options, out):
    code, printed, error = ask(options, "urls", out, "--json")
    return sorted(printed.splitlines()) if code == 0 else last_line(error)


def by_kind(whole):
    """Files that have the same purpose: their names without numbers."""
    kinds = {}
    for file in sorted(path for path in whole.rglob("*") if path.is_file()):
        name = str(file.relative_to(whole))
        kind = "".join("#" if letter.isdigit() else letter for letter in name)
        kinds.setdefault(kind, []).append(name)
    for kind in list(kinds):
        # The last WARC file may have a torn tail: it is a kind of its own.
        if kind.startswith("archive/") and len(kinds[kind]) > 1:
            kinds[kind + " (the last)"] = [kinds[kind].pop()]
    return kinds


def judge(options, copy, file):
    """Who told of the damage, and what went wrong."""
    before = warc_files(copy)
    sayers, faults = [], []
    for name, command in COMMANDS.items():
        try:
            done = subprocess.run(
                [options.program, *command, copy], capture_output=True, text=True, errors="replace", timeout=LIMIT_S
            )
        except subprocess.TimeoutExpired:
            faults.append(f"{name} had not ended after {LIMIT_S} s")
            continue
        if done.returncode not in (0, 1, 2, 3) or "panicked" in done.stderr:
            faults.append(f"{name} ended with {done.returncode}: {last_line(done.stderr)}")
        if done.returncode in (1, 2):
            sayers.append(name)
            if not done.stderr.strip() and not done.stdout.strip():
                faults.append(f"{name} failed without a word")
        elif name == "crawl" and file.split("/")[-1] in done.stderr:
            # It told on its way.
            sayers.append(name)
    after = warc_files(copy)
    held = b"".join(after.values())
    for name, content in before.items():
        if after.get(name, b"")[: len(content)] != content and content not in held:
            faults.append(f"{name} was {len(content)} bytes and is {len(after.get(name, b''))}")
    return sayers, faults


def warc_files(out):
    """The bytes of all WARC files, also of those set aside."""
    return {str(path.relative_to(out)): path.read_bytes() for path in (out / "archive").rglob("*.warc*")}


def flip(path, random):
    content = bytearray(path.read_bytes())
    if not content:
        return False
    content[random.randrange(len(content))] ^= 1 << random.randrange(8)
    path.write_bytes(content)
    return True


def cut(path, random):
    size = path.stat().st_size
    if size < 2:
        return False
    with open(path, "r+b") as file:
        file.truncate(random.randrange(1, max(2, size * 3 // 4)))
    return True


def empty(path, _):
    if path.stat().st_size == 0:
        return False
    path.write_bytes(b"")
    return True


def remove(path, _):
    path.unlink()
    return True
