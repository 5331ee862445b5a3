"""What a person sees: crawls in tmux terminals of several widths, recorded while they run. The line of figures stays on its row,
never wraps and scrolls nothing away, also when the terminal is resized."""

import os
import re
import shutil
import subprocess
import time

import crawler
from verdicts import Verdicts

WIDTHS = (80, 50, 200)
ROWS = 24
CRAWL_S = 8
MAX_START_S = 30
LOOK_EVERY_S = 0.1
FIGURES = re.compile(r"[\d,]+ pages?  ")
REPORT = "The crawl ended because"


class Screen:
    """One look at a terminal."""

    def __init__(self, rows, joined, escapes, state):
        self.rows = rows
        self.joined = joined
        self.escapes = escapes
        self.cursor_y, self.cursor_x, self.scrolled, self.width = state

    def figures(self):
        return [row for row in self.rows if FIGURES.search(row)]

    def has_report(self):
        return any(REPORT in row for row in self.rows)


class Terminal:
    """A tmux server of its own with one window."""

    def __init__(self, name, width, command, env=()):
        self.socket = f"portolan-{os.getpid()}-{name}"
        settings = [part for pair in env for part in ("-e", pair)]
        self.tmux("-f", "/dev/null", "new-session", "-d", "-s", "t", "-x", str(width), "-y", str(ROWS), *settings,
                  f"{command}; echo END; sleep 600")

    def tmux(self, *arguments):
        done = subprocess.run(["tmux", "-L", self.socket, *arguments], capture_output=True, text=True, timeout=30)
        return done.stdout

    def look(self):
        form = "#{cursor_y} #{cursor_x} #{history_size} #{pane_width}"
        mark = "== next =="
        between = ("display-message", "-p", mark, ";")
        # All in one command, so that they are of the same moment.
        told = self.tmux("display-message", "-p", "-t", "t", form, ";", *between, "capture-pane", "-p", "-t", "t", ";",
                         *between, "capture-pane", "-p", "-J", "-t", "t", ";", *between,
                         "capture-pane", "-p", "-e", "-t", "t")
        state, rows, joined, escapes = told.split(mark + "\n")
        lines = [[row.rstrip() for row in text.rstrip("\n").split("\n")] for text in (rows, joined)]
        return Screen(*lines, escapes, [int(n) for n in state.split()])

    def resize(self, width):
        self.tmux("resize-window", "-t", "t", "-x", str(width))

    def close(self):
        self.tmux("kill-server")


def serve(scratch):
    """A simulated Web of hosts that share a few addresses; its process and its port."""
    log = open(scratch / "simweb.log", "w+", encoding="utf-8")
    # The page bodies are small and the hosts many: there is always something to tell.
    command = [crawler.binary(), "simweb", "--port", "0", "--hosts", "30", "--pages", "200", "--preset", "small"]
    process = subprocess.Popen(command, stdout=log, stderr=log)
    until = time.monotonic() + MAX_START_S
    while time.monotonic() < until:
        port = re.search(r"127\.0\.0\.1:(\d+)", (scratch / "simweb.log").read_text("utf-8"))
        if port:
            return process, port.group(1)
        time.sleep(0.05)
    return process, None


def command(scratch, name, port, *options):
    words = [os.path.abspath(crawler.binary()), "crawl", "http://h0.sim.test/", "--scope", "any", "--out", scratch / name,
             "--resolve", f"'*.sim.test=127.0.0.1:{port}'", "--delay", "50ms", "--time-limit", f"{CRAWL_S}s", *options]
    return " ".join(map(str, words))


def record(terminal, steps=()):
    """Looks at the terminal until the report is there. `steps`: (seconds, width) at which it is resized."""
    looks, steps, begun = [], list(steps), time.monotonic()
    while time.monotonic() < begun + CRAWL_S + 60:
        if steps and time.monotonic() - begun > steps[0][0]:
            terminal.resize(steps.pop(0)[1])
            # What is on the screen between the two is the terminal's; the line is drawn anew at once.
            time.sleep(0.4)
        looks.append(terminal.look())
        if looks[-1].has_report():
            break
        time.sleep(LOOK_EVERY_S)
    return looks


def judge(verdicts, name, looks):
    """What holds for every width."""
    live = [look for look in looks if look.figures() and not look.has_report()]
    verdicts.check(len(live) > 10, f"{name}: the line of figures is there ({len(live)} looks)",
                   looks[-1].rows if looks else ())
    verdicts.none_of((look.rows for look in live if len(look.figures()) != 1), f"{name}: there is one line of figures")
    verdicts.none_of((look.rows for look in live if look.figures()[0] not in look.joined),
                     f"{name}: it does not wrap")
    verdicts.none_of((f"{look.cursor_x} of {look.width}: {look.figures()[0]}" for look in live
                      if look.cursor_x >= look.width or len(look.figures()[0]) >= look.width),
                     f"{name}: it is narrower than the terminal")
    # A terminal that is resized moves rows away by itself; after that none may follow.
    first = {}
    moved = [(look.width, look.scrolled) for look in live if look.scrolled != first.setdefault(look.width, look.scrolled)]
    verdicts.none_of(moved, f"{name}: nothing scrolls away")
    verdicts.none_of((look.rows for look in live if look.rows[look.cursor_y] != look.figures()[0]),
                     f"{name}: it is the last line")
    verdicts.check(bool(looks) and looks[-1].has_report() and not looks[-1].figures(),
                   f"{name}: the report takes its place", looks[-1].rows if looks else ())
    return live


def check_widths(verdicts, scratch, port):
    for width in WIDTHS:
        terminal = Terminal(str(width), width, command(scratch, f"w{width}", port))
        try:
            live = judge(verdicts, f"{width} columns", record(terminal))
        finally:
            terminal.close()
        lines = [look.figures()[0] for look in live]
        for line in lines[-1:]:
            verdicts.note(line)
        verdicts.check(any(re.search(r"pages? +[\d.]+/s", line) for line in lines), f"{width} columns: with a rate", lines)
        verdicts.check(any(" due" in line for line in lines), f"{width} columns: with what is due", lines)
        # The line of a narrow terminal has no room for an estimate beside a rate and what is due.
        if width >= 80:
            verdicts.check(any(re.search(r"about \d+ s left", line) for line in lines),
                           f"{width} columns: with an estimate", lines)
        verdicts.check(any("http://h" in line for line in lines), f"{width} columns: with a URL now and then", lines)
        if width >= 200:
            verdicts.check(any(re.search(r"\d+ wait for their address", line) for line in lines),
                           f"{width} columns: with what hosts wait for", lines)
        rows = [row for look in live for row in look.joined]
        verdicts.check(any("politeness.ip_delay_ms" in row for row in rows),
                       f"{width} columns: it is said that the address's delay rules", rows[-ROWS:])


def check_resizing(verdicts, scratch, port):
    terminal = Terminal("resized", 150, command(scratch, "resized", port))
    try:
        judge(verdicts, "resized", record(terminal, [(2, 60), (4, 40), (6, 120)]))
    finally:
        terminal.close()


def check_colours(verdicts, scratch, port):
    for name, env, coloured in (("colours", (), True), ("no-colours", ("NO_COLOR=1",), False)):
        terminal = Terminal(name, 100, command(scratch, name, port, "--max-pages", "60"), env)
        try:
            looks = record(terminal)
        finally:
            terminal.close()
        lines = [line for look in looks for line in look.escapes.split("\n")
                 if re.search(r"[\d,]+ pages?(\x1b|  )", line)]
        has = any("\x1b[" in line for line in lines)
        verdicts.check(bool(lines) and has == coloured, f"the line has {'colours' if coloured else 'no colours with NO_COLOR'}",
                       lines[:2])


def check_log(verdicts, scratch, port):
    """With -vv lines come in between, each of which takes the line of figures away until it is drawn again below."""
    terminal = Terminal("log", 120, command(scratch, "log", port, "-vv"))
    try:
        looks = [look for look in record(terminal) if not look.has_report()]
    finally:
        terminal.close()
    live = [look for look in looks if look.figures()]
    verdicts.check(len(live) > 1, f"-vv: the line of figures is there ({len(live)} looks)")
    verdicts.check(any(" DEBUG answered url=http://h" in row for look in looks for row in look.joined),
                   "-vv: requests are told above it", looks[-1].rows if looks else ())
    verdicts.none_of((look.rows for look in live
                      if len(look.figures()) != 1 or look.rows[look.cursor_y] != look.figures()[0]),
                     "-vv: there is one line of figures, the last one")


def check_watching(verdicts, scratch, port):
    """status --watch draws in place, and ends when the crawl has ended."""
    process = subprocess.Popen(command(scratch, "watched", port) + " --quiet", shell=True)
    until = time.monotonic() + MAX_START_S
    while not (scratch / "watched" / "registry" / "meta").exists() and time.monotonic() < until:
        time.sleep(0.05)
    time.sleep(0.5)
    terminal = Terminal("watch", 60, f"{os.path.abspath(crawler.binary())} status {scratch / 'watched'} --watch 300ms")
    looks, until = [], time.monotonic() + CRAWL_S + 60
    try:
        while time.monotonic() < until and not any("END" in row for look in looks[-1:] for row in look.rows):
            looks.append(terminal.look())
            time.sleep(LOOK_EVERY_S)
    finally:
        terminal.close()
        process.wait()
    shown = [look for look in looks if any("The crawl in" in row for row in look.rows)]
    verdicts.check(len(shown) > 10, f"status --watch: it shows the crawl ({len(shown)} looks)", looks[-1].rows)
    verdicts.none_of((look.rows for look in shown if sum("The crawl in" in row for row in look.rows) != 1 or look.scrolled),
                     "status --watch: it draws in place")
    verdicts.check(any("since the last look" in row for look in shown for row in look.rows),
                   "status --watch: with a rate", looks[-1].rows)
    verdicts.check(any("END" in row for row in looks[-1].rows), "status --watch: it ends with the crawl", looks[-1].rows)


def main():
    verdicts = Verdicts()
    if not shutil.which("tmux"):
        verdicts.not_run("no tmux")
        verdicts.exit()
    scratch = crawler.scratch("terminal")
    process, port = serve(scratch)
    try:
        verdicts.check(port is not None, "the simulated Web is there")
        if port:
            check_widths(verdicts, scratch, port)
            check_resizing(verdicts, scratch, port)
            check_colours(verdicts, scratch, port)
            check_log(verdicts, scratch, port)
            check_watching(verdicts, scratch, port)
    finally:
        process.terminate()
        process.wait()
    verdicts.exit()


if __name__ == "__main__":
    main()
