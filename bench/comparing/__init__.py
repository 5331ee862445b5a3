"""The parts of bench/compare: peers (who is compared), running (how a run is measured), telling (tables)."""
