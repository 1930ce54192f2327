"""Says hello: python3 hello.py COMMAND NAME."""

import sys

from vendor.texts import _


def hello(name):
    """Greet somebody."""
    return _("Hello, {}!").format(name)


def welcome(name):
    """Welcome somebody."""
    return _("Welcome, {}!").format(name)


COMMANDS = {
    "hello": hello,
    "welcome": welcome,
}


if __name__ == "__main__":
    print(COMMANDS[sys.argv[1]](sys.argv[2]))
