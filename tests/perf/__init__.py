"""Benchmarks: ``python -m tests.perf`` (``make bench``). No tests: nothing here passes or fails by a time."""
