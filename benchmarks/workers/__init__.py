"""Programs that train one model each, a turn at a time; started by ``benchmarks.race``."""
