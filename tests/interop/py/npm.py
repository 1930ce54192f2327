"""Installs the packages that .ci/npm makes, and starts the program as an editor does: through npm's launcher."""

import json
import os
import platform
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
PACK = ['node', ROOT / '.ci/npm/pack.mjs']
PLATFORM = f"{platform.system().lower()}-{platform.machine().replace('arm64', 'aarch64')}"
INITIALIZE = {
    'jsonrpc': '2.0', 'id': 0, 'method': 'initialize', 'params': {'protocolVersion': '0.0.9'},
}


def install(where):
    """Returns the command that a user of npm has."""
    quietly = {'check': True, 'stdout': subprocess.DEVNULL, 'env': {**os.environ, 'NPM_NAME': '@try/tandem'}}
    # Without what a debugger wants, which takes longest to pack.
    program = where / 'tandem'
    subprocess.run(['strip', '-o', program, os.environ['TANDEM']], **quietly)
    subprocess.run([*PACK, 'platform', PLATFORM, '0.0.1', program, where], **quietly)
    subprocess.run([*PACK, 'launcher', '0.0.1', where], **quietly)
    packages = sorted(f'./{path.name}' for path in where.glob('*.tgz'))
    (where / 'package.json').write_text('{"private": true}')
    # The other platforms' packages are published nowhere, and must not be needed.
    command = ['npm', 'install', '--no-audit', '--no-fund', '--ignore-scripts', '--omit=optional']
    subprocess.run([*command, *packages], cwd=where, **quietly)
    return where / 'node_modules/.bin/tandem'


class Agent:
    """The program, started by the launcher."""

    def __init__(self, command, home):
        self.process = subprocess.Popen(
            [command, '--acp'], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=home,
            env={'HOME': str(home), 'PATH': os.environ['PATH']},
        )
        print(json.dumps(INITIALIZE), file=self.process.stdin, flush=True)
        self.answer = json.loads(self.process.stdout.readline())

    def programs(self):
        """Returns the processes that the launcher has started, and itself."""
        me = self.process.pid
        children = Path(f'/proc/{me}/task/{me}/children').read_text().split()
        return [me, *map(int, children)]

    def ended(self):
        """Returns the exit status; a negative signal if one has ended it."""
        return self.process.wait(10)


def alive(process):
    try:
        return Path(f'/proc/{process}/stat').read_text().rsplit(')', 1)[1].split()[0] != 'Z'
    except FileNotFoundError:
        return False


def gone(processes):
    """Waits until all of them have ended, some seconds at most."""
    for _ in range(500):
        if not any(map(alive, processes)):
            return True
        time.sleep(0.01)
    return False


def answers(command, home):
    agent = Agent(command, home)
    agent.process.stdin.close()
    ended = agent.ended()
    return agent.answer['result']['protocolVersion'] == '0.0.9' and ended == 0


def passes_exit_codes_on(command, home):
    return subprocess.run([command, '--nonsense'], stderr=subprocess.DEVNULL).returncode == 2


def passes_signals_on(command, home):
    agent = Agent(command, home)
    programs = agent.programs()
    agent.process.send_signal(signal.SIGTERM)
    return agent.ended() == 128 + signal.SIGTERM and gone(programs)


def leaves_nothing_when_killed(command, home):
    agent = Agent(command, home)
    programs = agent.programs()
    agent.process.kill()
    agent.ended()
    # What an editor does when its agent is gone.
    agent.process.stdin.close()
    return gone(programs)


CHECKS = [answers, passes_exit_codes_on, passes_signals_on, leaves_nothing_when_killed]


def main():
    failed = False
    with tempfile.TemporaryDirectory(prefix='tandem-npm-') as directory:
        command = install(Path(directory))
        for check in CHECKS:
            with tempfile.TemporaryDirectory(prefix='tandem-npm-') as home:
                good = check(command, Path(home))
            failed |= not good
            print(f"{'ok' if good else 'FAIL'} {check.__name__.replace('_', ' ')}", flush=True)
    sys.exit(failed)


main()
