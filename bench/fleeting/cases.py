"""The cases of bench/fleet-faults: each does one kind of harm to a fleet at a random moment, lets it go on to its end, and judges."""

import shutil
import subprocess
import time

from faulting.clock import SOURCE, build, set_to
from faulting.running import expect, wait_until

from . import network
from .judge import judge, reference
from .servers import Client
from .store import Bucket, Directory
from .world import LEASE_S, NAME, PARTITIONS, World, brief, shape

# What a node does in a second with these delays, and a little: moments are counted in requests.
EARLY, LATE = 0.1, 0.6
# So long after its lease a lost node's partitions are others': the margin, and a coordinator that may have to be found first.
TAKEN_OVER_S = LEASE_S + 12
NODES = ("a", "b", "c")
# Servers that elect a leader answer nothing for some seconds; a lease that is not longer than that is lost.
LONG_LEASE_S = 15
# Room for two or three of the largest messages.
NARROW_BYTES, PAYLOAD_BYTES = 40_960, 16_384
LINKED = shape() + ["--set", "links.off_host_share=0.8", "--set", "links.per_page=60"]


def moment(options, random):
    """After how many requests harm is done."""
    return int(len(reference(options, shape())) * random.uniform(EARLY, LATE))


def begin(options, world, random, names=NODES):
    nodes = {name: world.node(name) for name in names}
    world.wait_for(moment(options, random))
    world.web.ask("mark")
    return nodes


def store_of(options):
    return Bucket if options.store == "s3" else Directory


def kill(options, folder, random):
    """kill -9; it comes back with its disk, within its lease or after it."""
    with World(options, folder, store_of(options)) as world:
        victim = begin(options, world, random)[random.choice(NODES)]
        victim.kill()
        away_s = random.choice((random.uniform(0, LEASE_S * 0.7), random.uniform(LEASE_S + 2, 2 * LEASE_S)))
        time.sleep(away_s)
        world.web.ask("mark")
        victim.start()
        world.end()
        return f"{victim.name} killed, back after {away_s:.1f} s; {judge(options, world)}"


def lose(options, folder, random):
    """kill -9, and its directory is gone; now and then a second one while its share is taken over."""
    with World(options, folder, store_of(options)) as world:
        nodes = begin(options, world, random, ("a", "b", "c", "d"))
        first, second = random.sample(sorted(nodes), 2)
        remove(world, nodes[first])
        words = f"{first} lost"
        if random.random() < 0.5:
            time.sleep(random.uniform(0, TAKEN_OVER_S))
            if world.nodes[0].running():
                world.web.ask("mark")
                remove(world, nodes[second])
                words += f", then {second}"
        world.end()
        return f"{words}; {judge(options, world)}"


def remove(world, node):
    node.kill()
    shutil.rmtree(node.dir)
    world.forget(node)


def sleep(options, folder, random):
    """SIGSTOP past the lease, then SIGCONT."""
    with World(options, folder, store_of(options)) as world:
        victim = begin(options, world, random)[random.choice(NODES)]
        victim.signal("STOP")
        asleep_s = LEASE_S + random.uniform(0, 8)
        time.sleep(asleep_s)
        world.web.ask("mark")
        victim.signal("CONT")
        world.end()
        return f"{victim.name} asleep for {asleep_s:.1f} s, {world.fenced()} joined anew; {judge(options, world)}"


def split_world(options, folder, victim, lease_s=LEASE_S):
    """Three servers and one node, each in a namespace of its own; the other nodes, the store and the Web are out here."""
    bridges = network.Bridges()
    try:
        parties = [bridges.party(11 + number, "cs") for number in range(3)]
        places = [(party.address("c"), party.address("s"), party.enter) for party in parties]
        apart = bridges.party(101, "cw")
        world = World(options, folder, Directory, places=places, door=network.WebDoor, lease_s=lease_s)
    except BaseException:
        bridges.stop()
        raise
    world.to_stop.insert(0, bridges.stop)
    for name in NODES:
        world.node(name, runner=apart.enter if name == victim else ())
    return world, parties, apart


def cut_node(options, folder, random):
    """The cable between a node and NATS is cut, for less than its lease or for longer."""
    network.check()
    victim = random.choice(NODES)
    world, _, apart = split_world(options, folder, victim)
    with world:
        world.wait_for(moment(options, random))
        world.web.ask("mark")
        cut_s = random.choice((random.uniform(1, LEASE_S * 0.6), random.uniform(LEASE_S + 2, LEASE_S + 12)))
        apart.cut("c")
        time.sleep(cut_s)
        world.web.ask("mark")
        apart.heal("c")
        world.end()
        return f"{victim} cut off from NATS for {cut_s:.1f} s, {world.fenced()} joined anew; {judge(options, world)}"


def cut_servers(options, folder, random):
    """The cable between one NATS server and the others is cut; nodes reach all of them."""
    network.check()
    world, parties, _ = split_world(options, folder, "a", LONG_LEASE_S)
    with world:
        world.wait_for(moment(options, random))
        leader = world.servers.leader(f"portolan_{NAME}_ship") or world.servers.all[0]
        number = random.choice((world.servers.all.index(leader), random.randrange(3)))
        world.web.ask("mark")
        cut_s = random.uniform(3, 25)
        parties[number].cut("s")
        time.sleep(cut_s)
        world.web.ask("mark")
        parties[number].heal("s")
        world.end()
        what = "the ship log's leader" if world.servers.all[number] is leader else f"server {number}"
        return f"{what} cut off for {cut_s:.1f} s, {world.fenced()} joined anew; {judge(options, world)}"


def leader(options, folder, random):
    """kill -9 of the NATS server that leads the ship log; it comes back after a while."""
    with World(options, folder, store_of(options), count=3, lease_s=LONG_LEASE_S) as world:
        begin(options, world, random)
        server = wait_until(20, lambda: world.servers.leader(f"portolan_{NAME}_ship"))
        expect(server, "the ship log has no leader")
        server.kill()
        away_s = random.uniform(1, 20)
        before = world.requests()
        time.sleep(away_s)
        meanwhile = world.requests() - before
        server.start(world.servers.binary)
        world.end()
        return f"{server.name} killed, back after {away_s:.1f} s, {meanwhile} requests meanwhile, {world.fenced()} joined anew; {judge(options, world)}"


def store(options, folder, random):
    """The store answers 503 for a while; nodes stop at their bound of disk, and say so."""
    bound_mb, web = 2, shape(pages=150) + ["--set", "content.page_bytes=20000"]
    with World(options, folder, Bucket, web=web, delay_ms=5, max_unshipped_mb=bound_mb) as world:
        nodes = [world.node(name) for name in NODES]
        world.wait_for(random.randrange(300, 1_500))
        world.store.relay.down = True
        before = [archived_bytes(node) for node in nodes]
        ended = time.monotonic() + options.down_s
        said, requests = set(), [world.requests()]
        while time.monotonic() < ended:
            time.sleep(1)
            said |= troubles(world)
            requests.append(world.requests())
        grown = [archived_bytes(node) - length for node, length in zip(nodes, before)]
        stood = requests[-1] == requests[-len(requests) // 4]
        refused = world.store.relay.refused
        world.store.relay.down = False
        world.end()
        words = f"503 for {options.down_s} s to {refused} requests; {requests[-1] - requests[0]} requests to the Web meanwhile"
        words += f", in the last quarter {'none' if stood else 'some'}; a node's archive grew by {max(grown) / 1e6:.1f} MB at most (bound {bound_mb} MiB)"
        words += f"; {judge(options, world, web, most_repeats=0)}"
        expect(any("is not shipped" in one and "store" in one for one in said), f"{words}; what was said: {said}")
        # What was under way, and what waited for the archivist, is archived, too.
        expect(stood and max(grown) < (bound_mb + 8) << 20, words)
        expect(max(grown) > bound_mb << 19, f"{words}; the bound was not met: a larger Web is needed")
        return words


def archived_bytes(node):
    return sum(file.stat().st_size for file in (node.dir / "crawl" / "archive").glob("*.warc.gz"))


def full(options, folder, random):
    """The link streams or the ship log take nothing more for a while, or the link streams have hardly any room all the time."""
    which = ("narrow", "links", "ship")[options.time % 3]
    streams = [f"portolan_{NAME}_ship"] if which == "ship" else [f"portolan_{NAME}_links_{n}" for n in range(16)]
    web = LINKED if which == "narrow" else shape()
    more = f"max_payload: {PAYLOAD_BYTES}" if which == "narrow" else ""
    with World(options, folder, store_of(options), web=web, servers=more, max_unshipped_mb=1) as world:
        client = Client(world.servers.all[0])
        if which == "narrow":
            for stream in streams:
                client.set_max_bytes(stream, NARROW_BYTES)
        begin(options, world, random)
        full_s, said = random.uniform(17, 25), set()
        if which != "narrow":
            for stream in streams:
                client.set_max_bytes(stream, 1)
            ended = time.monotonic() + full_s
            while time.monotonic() < ended:
                time.sleep(1)
                said |= troubles(world)
            for stream in streams:
                client.set_max_bytes(stream, 64 << 20)
        world.end(240)
        client.close()
        words = f"{NARROW_BYTES} bytes for each link stream" if which == "narrow" else f"{which} full for {full_s:.1f} s"
        words += f"; {judge(options, world, web, most_repeats=0)}"
        told = which == "narrow" or any(("links do not leave" if which == "links" else "ship log") in one for one in said)
        expect(told, f"{words}; nothing was said of it: {said}")
        return words


def troubles(world):
    """What nodes say is wrong."""
    reported = (node["reported"] for node in world.status()["nodes"].values())
    return {told["status"]["trouble"] for told in reported if told}


def clock(options, folder, random):
    """One node's time of day is 5 s off, and hosts move to and from it."""
    library = build(SOURCE, folder)
    off = random.choice((-5, 5))
    set_to(folder / "seconds", off)
    with World(options, folder, store_of(options), delay_ms=150, ip_delay_ms=0) as world:
        nodes = {name: world.node(name) for name in ("a", "b")}
        world.wait_for(300)
        wrong = world.node("wrong", environment={"LD_PRELOAD": str(library), "CLOCK_SET": str(folder / "seconds")})
        expect(wait_until(60, lambda: world.holds("wrong") > PARTITIONS // 5), f"it has no share: {brief(world.status())}")
        world.wait_for(world.requests() + random.randrange(100, 400))
        world.web.ask("mark")
        goes = random.choice((wrong, nodes["a"]))
        goes.kill()
        time.sleep(TAKEN_OVER_S)
        world.web.ask("mark")
        goes.start()
        world.end()
        return f"a node's clock is {off:+} s, {goes.name} lost and back; {judge(options, world)}"


def twins(options, folder, random):
    """Two nodes under one name: while the first lives the second is refused, and when it is gone, the first may not come back."""
    with World(options, folder, store_of(options)) as world:
        nodes = begin(options, world, random)
        node = [options.program, "node", NAME, "--nats", world.servers.urls, "--node", "a", "--quiet", "--dir"]
        for directory in (world.folder / "twin", nodes["a"].dir):
            done = subprocess.run([*node, directory], capture_output=True, text=True, timeout=60)
            refused = done.returncode == 2 and len(done.stderr.strip().splitlines()) == 1
            expect(refused, f"a second node on {directory.name}: exit code {done.returncode}, {done.stderr.strip()}")
        first = nodes["a"]
        world.web.ask("mark")
        if random.random() < 0.5:
            first.kill()
            twin = world.node("a", directory="twin")
            time.sleep(random.uniform(0, 2 * LEASE_S))
            world.web.ask("mark")
            # It may be refused, or the other one is: one of the two goes on.
            first.start()
        else:
            first.signal("STOP")
            time.sleep(LEASE_S)
            twin = world.node("a", directory="twin")
            time.sleep(random.uniform(2, 2 * LEASE_S))
            world.web.ask("mark")
            first.signal("CONT")
        both = (first, twin)
        expect(wait_until(60, lambda: any(not node.running() for node in both)), f"both go on: {brief(world.status())}")
        gone = [node for node in both if not node.running()]
        codes = [node.process.wait() for node in gone]
        for node in gone:
            world.forget(node)
        world.end()
        return f"refused twice, then {gone[0].dir.name} of a and twin ended with {codes}; {judge(options, world)}"


CASES = {
    "kill": kill,
    "lose": lose,
    "sleep": sleep,
    "cut-node": cut_node,
    "cut-servers": cut_servers,
    "leader": leader,
    "store": store,
    "full": full,
    "clock": clock,
    "twins": twins,
}
