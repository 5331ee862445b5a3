"""Sick hosts beside healthy ones: `portolan bench pace` crawls the healthy ones alone, then beside the others."""

import json

from .running import Skipped, ask, expect, last_line

HEALTHY = 200
SICK = "silent=1000,drip=1000,dns=1000"
SHARE = 0.9


def cases(options):
    title = f"{HEALTHY} healthy hosts, 1 s delay, 100 ms latency, beside 1,000 silent, 1,000 dripping and 1,000 lost ones"
    yield title, lambda *_: sick(options)


def sick(options):
    code, printed, error = ask(options, "bench", "pace", "--hosts", str(HEALTHY), "--sick", SICK, "--json")
    if code == 2:
        raise Skipped(f"this program has no 'bench pace': {last_line(error)}")
    expect(printed.strip(), f"bench pace ended with {code}: {last_line(error)}")
    measured = json.loads(printed)
    alone, beside = measured["alone"], measured["beside_sick"]
    counted = (
        f"{alone['requests_per_second']:.0f} requests/s to healthy hosts alone, {beside['requests_per_second']:.0f} beside "
        f"the sick ones, {100 * measured['share_beside_sick']:.1f} %; {beside['witness']['sick_requests']:,} requests to sick "
        f"hosts, at most {beside['witness']['sick_most_at_once']} at once on one; load {measured['load_average']}"
    )
    expect(code == 0, f"{counted}; exit code {code}: {last_line(error)}")
    expect(measured["share_beside_sick"] >= SHARE, f"{counted}; at least {100 * SHARE:.0f} % are wanted")
    return counted
