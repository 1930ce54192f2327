import ast
import itertools
import sys

sys.path[:0] = [".", sys.argv[1]]
import before
import readers


def result(read, text):
    try:
        return list(read(text).items())
    except ValueError as error:
        return f"ValueError: {error}"


LINES = [
    "", "  ", "A = 1", "a=2", "A = 3", "key: value", "key: other: more", "b = \"x\"", "b=\"\"", "# c = 1", "; c = 1",
    "! c: 1", "alone", "  d=  e = f ", "C\t:\t1", "=x", ":x", "#", "q='1'", "A =", "A:",
]
for count in [1, 2, 3]:
    for lines in itertools.product(LINES, repeat=count):
        text = "\n".join(lines)
        for name in ["read_ini", "read_env", "read_properties"]:
            was, now = result(getattr(before, name), text), result(getattr(readers, name), text)
            assert was == now, f"{name}({text!r}) is {now}, and was {was}"

with open("readers.py", encoding="utf-8") as file:
    code = file.read()
calls = [node.func for node in ast.walk(ast.parse(code)) if isinstance(node, ast.Call)]
methods = [call.attr for call in calls if isinstance(call, ast.Attribute)]
loops, splits = methods.count("splitlines"), methods.count("split") + methods.count("partition")
assert loops <= 1 or splits <= 1, f"{loops} loops over lines"
