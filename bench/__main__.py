"""``python -m bench``; imports nothing by itself, because every process that a part spawns imports it too."""

if __name__ == "__main__":
    from bench.command import main

    main()
