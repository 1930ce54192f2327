"""Texts in the language that LANGUAGE names."""

import json
import os


def _(text):
    """Return a text in the user's language, or in English if there is no translation."""
    try:
        with open(f"texts/{os.environ.get('LANGUAGE', 'en')}.json", encoding="utf-8") as file:
            return json.load(file).get(text, text)
    except FileNotFoundError:
        return text
