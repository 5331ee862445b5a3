"""The program under test, run as people run it. What it reports of itself is not proof of anything here."""

import json
import os
import shutil
import subprocess
from pathlib import Path

MAX_CRAWL_S = 300


def binary():
    return os.environ.get("PORTOLAN_BIN", "target/debug/portolan")


def scratch(name):
    """An empty folder of this test's own."""
    folder = Path(os.environ.get("PORTOLAN_TEST_TOOLS", "target/test-tools")).absolute() / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder


def crawl(out, seeds, *options):
    """(exit code, the object of --json or None, what was said on stderr)"""
    command = [binary(), "crawl", *seeds, "--out", str(out), "--json", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=MAX_CRAWL_S)
    try:
        summary = json.loads(done.stdout)
    except ValueError:
        summary = None
    return done.returncode, summary, done.stderr


def warcs(out):
    return sorted(Path(out).glob("archive/*.warc.gz"))
