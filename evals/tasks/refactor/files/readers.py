"""Readers of three formats of settings."""


def read_ini(text):
    """Read lines such as `Key = value`. Keys are in lower case."""
    values = {}
    for line in text.splitlines():
        line = line.strip()
        if not line or line.startswith(";"):
            continue
        if "=" not in line:
            raise ValueError(f"no value: {line}")
        key, value = line.split("=", 1)
        values[key.strip().lower()] = value.strip()
    return values


def read_env(text):
    """Read lines such as `KEY="value"`. The first of two values counts."""
    values = {}
    for line in text.splitlines():
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        if "=" not in line:
            raise ValueError(f"no value: {line}")
        key, value = line.split("=", 1)
        if key.strip() not in values:
            values[key.strip()] = value.strip().strip('"')
    return values


def read_properties(text):
    """Read lines such as `key: value`. Comments begin with `#` or `!`, and a key alone has an empty value."""
    values = {}
    for line in text.splitlines():
        line = line.strip()
        if not line or line.startswith("#") or line.startswith("!"):
            continue
        if ":" not in line:
            values[line] = ""
            continue
        key, value = line.split(":", 1)
        values[key.strip()] = value.strip()
    return values
