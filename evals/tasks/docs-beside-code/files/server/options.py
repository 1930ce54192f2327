"""Options of the server."""

import argparse

DEFAULT_PORT = 8000
MAX_CLIENTS = 8000


def parse(arguments):
    """Return the options of a command line."""
    parser = argparse.ArgumentParser(description="Serve files. See docs/usage.md.")
    parser.add_argument("--port", type=int, default=DEFAULT_PORT, help="port to listen on [8000]")
    parser.add_argument("--clients", type=int, default=MAX_CLIENTS, help="clients at once [8000]")
    return parser.parse_args(arguments)
