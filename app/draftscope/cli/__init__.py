"""The command line: one file a command, each with ``add_parser(subparsers)`` and ``run(options) -> int``; never Qt."""
