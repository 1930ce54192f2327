"""Tells if the server runs: python3 -m server.check."""

import sys
import urllib.request

URL = "http://localhost:8000/health"

if __name__ == "__main__":
    try:
        urllib.request.urlopen(URL, timeout=5).close()
    except OSError as error:
        sys.exit(f"{URL}: {error}")
