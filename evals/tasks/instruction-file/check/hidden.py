import json
import re
import sys

sys.path.insert(0, ".")
import hello

assert list(hello.COMMANDS) == ["bye", "hello", "welcome"], "the commands are not in order"
with open("texts/de.json", encoding="utf-8") as file:
    texts = list(json.load(file))
assert len(texts) == 3 and texts == sorted(texts), "the texts are not in order"
with open("CHANGES", encoding="utf-8") as file:
    changes = file.read().splitlines()
assert len(changes) == 4 and changes[2].startswith("3. The command `welcome`"), "CHANGES"
assert re.fullmatch(r"4\. [A-Z`].*\.", changes[3]), f"the line in CHANGES: {changes[3]}"
