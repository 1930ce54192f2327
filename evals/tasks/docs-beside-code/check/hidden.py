import subprocess
import sys

sys.path.insert(0, ".")
from server import options

parsed = options.parse([])
assert (parsed.port, parsed.clients) == (8080, 8000), parsed
shown = subprocess.run(
    [sys.executable, "-c", "from server import options; options.parse(['--help'])"],
    capture_output=True, text=True, check=True,
).stdout
assert "on [8080]" in shown and "once [8000]" in shown, shown
