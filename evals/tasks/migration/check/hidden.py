import os
import sqlite3
import sys
import tempfile

sys.path.insert(0, ".")
import database
import people

COLUMNS = {"id", "city", "first_name", "last_name"}
OLD = ["migrations/1_people.sql", "migrations/2_city.sql"]


def rows(connection):
    assert {row[1] for row in connection.execute("PRAGMA table_info(people)")} == COLUMNS, "the columns"
    return list(connection.execute("SELECT id, first_name, last_name, city FROM people ORDER BY id"))


with tempfile.TemporaryDirectory() as directory:
    for version in [1, 2]:
        path = os.path.join(directory, f"{version}.db")
        connection = sqlite3.connect(path)
        for script in OLD[:version]:
            with open(script, encoding="utf-8") as file:
                connection.executescript(file.read())
        connection.execute(f"PRAGMA user_version = {version}")
        for id, name in [(3, "Ada Lovelace"), (5, "Plato"), (8, "Ludwig van Beethoven")]:
            connection.execute("INSERT INTO people (id, name) VALUES (?, ?)", (id, name))
        if version == 2:
            connection.execute("UPDATE people SET city = 'Athens' WHERE id = 5")
        connection.commit()
        connection.close()
        city = "Athens" if version == 2 else "unknown"
        wanted = [(3, "Ada", "Lovelace", "unknown"), (5, "Plato", "", city), (8, "Ludwig", "van Beethoven", "unknown")]
        for _ in range(2):
            connection = database.connect(path)
            assert rows(connection) == wanted, rows(connection)
            connection.commit()
            connection.close()

connection = database.connect(":memory:")
people.add(connection, "Grace", "Hopper", "New York")
people.add(connection, "Plato", "", "Athens")
assert rows(connection) == [(1, "Grace", "Hopper", "New York"), (2, "Plato", "", "Athens")]
assert people.listing(connection) == ["Grace Hopper (New York)", "Plato (Athens)"], people.listing(connection)
