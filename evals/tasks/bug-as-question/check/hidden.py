import os
import subprocess
import sys
import tempfile

sys.path.insert(0, ".")
import sales

printed = subprocess.run([sys.executable, "report.py", "sales.csv"], capture_output=True, text=True, check=True)
assert [line.split() for line in printed.stdout.splitlines()] == [
    ["January", "15.70"], ["February", "28.00"], ["March", "30.90"],
], printed.stdout
with tempfile.TemporaryDirectory() as directory:
    path = os.path.join(directory, "sales.csv")
    with open(path, "w", encoding="utf-8") as file:
        file.write("1.1.2026;A;1.00\n01.01.2026;B;2.00\n2.02.2026;C;3.00\n03.3.2026;D;4.00\n")
    totals = sales.totals(path)
assert (totals["January"], totals["February"], totals["March"]) == (300, 300, 400), totals
