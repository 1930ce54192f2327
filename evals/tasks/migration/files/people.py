"""People in the database."""


def add(connection, name, city):
    """Add a person."""
    connection.execute("INSERT INTO people (name, city) VALUES (?, ?)", (name, city))
    connection.commit()


def listing(connection):
    """Return a line for each person, in the order of their names."""
    rows = connection.execute("SELECT name, city FROM people ORDER BY name")
    return [f"{name} ({city})" for name, city in rows]
