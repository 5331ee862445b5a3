"""Network namespaces: one for the whole benchmark, and in it one for each party whose cable is to be cut. All of them vanish
with their processes; nothing of the machine's network is touched."""

import os
import subprocess
import sys

from faulting.network import Forwarder
from faulting.running import Skipped, wait_until

INSIDE = "PORTOLAN_FLEET_FAULTS_INSIDE"
# Of clients, of servers among themselves, and of the Web.
NETS = {"c": "10.77.14", "s": "10.77.15", "w": "10.77.16"}
LIFE_S = 3_600


def enter():
    """Goes on in a network namespace of its own, where this machine has them."""
    if INSIDE in os.environ:
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        return
    unshare = ["unshare", "--net"] + (["--map-root-user"] if os.geteuid() != 0 else [])
    probe = "ip link set lo up && ip link add v0 type veth peer name v1 && ip link add b0 type bridge"
    try:
        able = subprocess.run([*unshare, "sh", "-c", probe], capture_output=True).returncode == 0
    except FileNotFoundError:
        able = False
    if able:
        os.environ[INSIDE] = "1"
        os.execvp(unshare[0], [*unshare, sys.executable, *sys.argv])


def check():
    if INSIDE not in os.environ:
        raise Skipped("no network namespaces with veth pairs and bridges can be made here")


def run(words, runner=()):
    subprocess.run([*runner, *words.split()], check=True)


class Bridges:
    """The switches of the three nets, with this namespace at .1 of each."""

    def __init__(self):
        check()
        for net, prefix in NETS.items():
            run(f"ip link add b{net} type bridge")
            run(f"ip addr add {prefix}.1/24 dev b{net}")
            run(f"ip link set b{net} up")
        self.parties = []

    def party(self, number, nets):
        party = Party(number, nets)
        self.parties.append(party)
        return party

    def stop(self):
        for party in self.parties:
            party.stop()
        for net in NETS:
            run(f"ip link del b{net}")


class Party:
    """A namespace with a cable to each of some nets; it is .NUMBER on all of them."""

    def __init__(self, number, nets):
        self.number, self.nets = number, nets
        self.sleeper = subprocess.Popen(["unshare", "--net", "sleep", str(LIFE_S)])
        mine = os.readlink("/proc/self/ns/net")
        wait_until(10, lambda: os.readlink(f"/proc/{self.sleeper.pid}/ns/net") != mine)
        self.enter = ["nsenter", "--net", "--target", str(self.sleeper.pid)]
        run("ip link set lo up", self.enter)
        for net in nets:
            run(f"ip link add {self.cable(net)} type veth peer name {net}0 netns {self.sleeper.pid}")
            run(f"ip link set {self.cable(net)} master b{net}")
            run(f"ip link set {self.cable(net)} up")
            run(f"ip addr add {self.address(net)}/24 dev {net}0", self.enter)
            run(f"ip link set {net}0 up", self.enter)

    def address(self, net):
        return f"{NETS[net]}.{self.number}"

    def cable(self, net):
        return f"v{net}{self.number}"

    def cut(self, net):
        run(f"ip link set {self.cable(net)} down")

    def heal(self, net):
        run(f"ip link set {self.cable(net)} up")

    def stop(self):
        # A namespace lives on for a moment, and its cables with it.
        for net in self.nets:
            subprocess.run(["ip", "link", "del", self.cable(net)], capture_output=True)
        self.sleeper.kill()
        self.sleeper.wait()


class WebDoor(Forwarder):
    """Where the Web, which listens on loopback alone, is reached from other namespaces."""

    listens_on = f"{NETS['w']}.1"

    @property
    def place(self):
        return f"{self.listens_on}:{self.port}"

    def stop(self):
        self.__exit__()
