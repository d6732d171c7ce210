"""The benchmarks: ``python -m bench [part …] [--quick] [--json FILE]``, side by side with peers."""
