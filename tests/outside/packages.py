"""Files of Debian packages, downloaded once and not installed."""

import subprocess

MAX_DOWNLOAD_S = 120


def download(package, store):
    """The package's file."""
    debs = store / "debs"
    debs.mkdir(parents=True, exist_ok=True)
    subprocess.run(["apt-get", "-q", "download", package], cwd=debs, check=True, timeout=MAX_DOWNLOAD_S,
                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    return max(debs.glob(f"{package}_*.deb"), key=lambda path: path.stat().st_mtime)


def unpack(name, packages, store):
    """A folder with all files of the packages, where their links to each other lead somewhere."""
    target = store / name
    if target.is_dir():
        return target
    part = store / f"{name}.part"
    for package in packages:
        deb = download(package, store)
        subprocess.run(["dpkg", "-x", str(deb), str(part)], check=True, timeout=MAX_DOWNLOAD_S)
    part.rename(target)
    return target


def why_not(error):
    """What to say where they cannot be had."""
    said = getattr(error, "stderr", None) or b""
    return f"the packages cannot be downloaded ({error} {said.decode()[-200:]})"
