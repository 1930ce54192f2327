"""Answers requests with the functions that handlers.json names."""

import importlib
import json


def answer(request, argument):
    """Return the answer to a request."""
    with open("handlers.json", encoding="utf-8") as file:
        module, function = json.load(file)[request].split(":")
    return getattr(importlib.import_module(module), function)(argument)
