"""The database of people."""

import pathlib
import sqlite3


def connect(path):
    """Open a database, and bring it to the newest version."""
    connection = sqlite3.connect(path)
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    for script in sorted(pathlib.Path("migrations").glob("*.sql")):
        number = int(script.name.split("_")[0])
        if number > version:
            connection.executescript(script.read_text(encoding="utf-8"))
            connection.execute(f"PRAGMA user_version = {number}")
    return connection
