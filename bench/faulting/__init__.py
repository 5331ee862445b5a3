"""The parts of bench/faults: running (Webs, crawls, what is compared), and a file for each case."""
