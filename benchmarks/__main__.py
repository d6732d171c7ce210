"""``python -m benchmarks``; imports nothing itself, as every process that a part spawns imports it too."""

if __name__ == "__main__":
    from benchmarks.command import main

    main()
