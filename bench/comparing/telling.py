"""Tables of what was measured: for a terminal, for docs/benchmarks.md and, shorter, for README.md."""

import datetime
import os
import platform
from pathlib import Path

BEGIN, END = "<!-- bench/compare: begin -->", "<!-- bench/compare: end -->"


def full(results, web, missing, versions, command):
    """Everything, as Markdown."""
    lines = [
        f"Measured {datetime.date.today().isoformat()} with `{command}` on {machine()}.",
        "",
        f"The Web: {web['hosts']} hosts × {web['pages']} pages of {web['page_kb']:.0f} KB with 50 links; "
        f"{web['required']:,} of them to be had, the rest forbidden by robots.txt. The load of the machine "
        f"was {least_load(results):.1f} to {most_load(results):.1f}.",
        "",
        "| crawler | stores | pages/s | CPU µs a page | peak RSS | coverage | repeats | against robots.txt "
        "| connections on a host |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    lines += [row(result) for result in results]
    notes = dict.fromkeys(note for result in results if (note := footnote(result)))
    if notes:
        lines += ["", *notes]
    if missing:
        lines += ["", "Missing: " + "; ".join(f"{name} ({why})" for name, why in missing.items()) + "."]
    lines += ["", "Versions and settings:", ""]
    told = set()
    for result in results:
        if result["crawler"] not in told:
            told.add(result["crawler"])
            version = versions.get(result["crawler"], result["crawler"])
            lines.append(f"- {version}: {result['settings']}.")
    return "\n".join(lines)


def short(results, web, command):
    """The few columns that people choose by."""
    lines = [
        f"`{command}`, {datetime.date.today().isoformat()}: one Web of {web['hosts']} hosts × "
        f"{web['pages']} pages of {web['page_kb']:.0f} KB, each crawler on one core, the server on the other,",
        "counted by the Web's own witness. Settings and versions are in `docs/benchmarks.md`.",
        "",
        "| crawler | stores | pages/s | CPU µs a page | peak RSS | coverage | repeats | against robots.txt |",
        "|---|---|---:|---:|---:|---:|---:|---:|",
    ]
    lines += ["|".join(row(result).split("|")[:-2]) + "|" for result in results]
    notes = dict.fromkeys(note for result in results if (note := footnote(result)))
    lines += ["", *notes, "Against robots.txt: requests for forbidden pages + to hosts whose robots.txt was not asked for."]
    return "\n".join(lines)


def row(result):
    witness = result["witness"]
    cpu = result["cpu_us_per_page"]
    cells = [
        result["crawler"],
        result["stores"],
        f"{result['pages_per_second']:,.0f}",
        "-" if cpu is None else f"{cpu:,.0f}",
        f"{result['peak_rss_bytes'] / 2**20:,.0f} MB",
        coverage(result),
        f"{witness['repeats']:,}",
        f"{witness['forbidden']:,} + {witness['before_robots']:,}",
        f"{witness['most_connections_on_a_host']:,}",
    ]
    return "| " + " | ".join(cells) + " |"


def coverage(result):
    witness = result["witness"]
    share = 100 * witness["fetched"] / witness["required"]
    # 99.96 is not all.
    text = "100 %" if witness["fetched"] == witness["required"] else f"{min(share, 99.9):.1f} %"
    return text + (" ¹" if result["stopped_by_time"] else "")


def footnote(result):
    if result["stopped_by_time"]:
        return f"¹ Stopped after {result['limit_s']:.0f} s, so this says how far it came, not what it leaves out."
    if result["exit_code"] != 0:
        return f"{result['crawler']} ({result['stores']}) ended with code {result['exit_code']}."
    return None


def update(file, text, begin=BEGIN, end=END):
    """Puts the text between the markers of a file."""
    path = Path(file)
    old = path.read_text() if path.exists() else ""
    if begin not in old or end not in old:
        raise SystemExit(f"{file} has no lines '{begin}' and '{end}' to write between")
    before, rest = old.split(begin, 1)
    path.write_text(f"{before}{begin}\n{text}\n{end}{rest.split(end, 1)[1]}")


def machine():
    model = "an unknown processor"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.split(":", 1)[1].strip()
            break
    return f"{os.cpu_count()} cores of {model}, Linux {platform.release()}"


def least_load(results):
    return min(min(result["load_average"]) for result in results)


def most_load(results):
    return max(max(result["load_average"]) for result in results)
