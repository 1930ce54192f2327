"""Writes .cargo/startup.ld: which functions run between start and the first answer, in that order.

Run it when startup has changed much, with a program that has its symbols:

    CARGO_PROFILE_RELEASE_STRIP=none cargo build --release
    gdb --batch --nx -x .cargo/startup.py target/release/tandem
"""

import os
import re
import subprocess
import tempfile
from collections import Counter

import gdb

# What would bring more than the kernel maps at once gains nothing.
MOST = 64 * 1024
INITIALIZE = '{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"0.0.9"}}'
HEAD = """/* Written by startup.py. What runs at every start stands together: the kernel maps 64 KiB around
   each page that is touched first, and in a program of 20 MB few of these are next to each other.
   It saves a third of the memory of an idle agent. What a build does not have is passed over. */
SECTIONS
{
  .text.startup :
  {
"""
TAIL = """  }
}
INSERT BEFORE .text;
"""


def pattern(symbol):
    """Without what differs from build to build: hashes, in the old and in the new mangling."""
    symbol = re.sub(r'17h[0-9a-f]{16}E.*', '17h*', symbol)
    return re.sub(r'Cs[0-9A-Za-z]+_', 'Cs*_', symbol)


class Called(gdb.Breakpoint):
    """Notes that a function has been called, once."""

    def __init__(self, address, pattern):
        super().__init__(f'*0x{address}', internal=True)
        self.pattern = pattern

    def stop(self):
        called.setdefault(self.pattern)
        self.enabled = False
        return False


called, sizes = {}, Counter()
nm = ['nm', '--defined-only', '--print-size', gdb.current_progspace().filename]
for line in subprocess.check_output(nm, text=True).splitlines():
    found = re.fullmatch('(\\w+) (\\w+) [tT] (_ZN.*|_R.*)', line)
    if found:
        address, size, symbol = found.groups()
        sizes[pattern(symbol)] += int(size, 16)
        Called(address, pattern(symbol))
with tempfile.TemporaryDirectory() as empty:
    pipe = os.path.join(empty, 'stdin')
    os.mkfifo(pipe)
    feeder = subprocess.Popen(f"{{ echo '{INITIALIZE}'; sleep 30; }} > {pipe}", shell=True)
    gdb.execute(f'set cwd {empty}')
    gdb.execute('set environment GEMINI_API_KEY none')
    gdb.execute(f'run < {pipe} > /dev/null')
    feeder.wait()
together = [each for each in called if sizes[each] <= MOST]
path = os.path.join(os.path.dirname(__file__), 'startup.ld')
with open(path, 'w') as script:
    script.write(HEAD)
    script.writelines(f'    *(.text.*{each})\n' for each in together)
    script.write(TAIL)
print(f'{len(called)} functions, {sum(map(sizes.get, together))} bytes together')
