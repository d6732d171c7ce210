"""The benchmarks, side by side with peers: ``./run bench [part …] [--quick | --full]``."""
