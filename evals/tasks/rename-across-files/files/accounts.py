"""Accounts by their name."""

ACCOUNTS = {"ada": "Ada Lovelace", "grace": "Grace Hopper"}
usr_count = len(ACCOUNTS)


def usr(name):
    """Return the full name of a user."""
    return ACCOUNTS[name]


def usr_dir(name):
    """Return the directory of a user's files."""
    return f"/usr/share/people/{name}"
