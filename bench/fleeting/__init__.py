"""The parts of bench/fleet-faults and bench/fleet: servers, store, network and world (a fleet of nodes), judging, and the cases."""
