"""The command-line client acpx, used as by hand: acpx.py PROGRAM. It starts the program at $TANDEM, which
records all lines in $TANDEM_RECORDS."""

import json
import os
import shlex
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from check import must, same

COMMAND = """#!/bin/sh
exec {tandem} --acp --record {records}/$$.jsonl --model {model}
"""


class Shell:
    """Where the commands are typed."""

    def __init__(self, home):
        self.home = home
        self.workspace = home / 'workspace'
        self.workspace.mkdir()
        self.agent = home / 'agent'
        self.agent.write_text(COMMAND.format(
            tandem=shlex.quote(os.environ['TANDEM']),
            records=shlex.quote(os.environ['TANDEM_RECORDS']),
            model=shlex.quote(f'replay:{os.environ["TANDEM_SCRIPT"]}'),
        ))
        self.agent.chmod(0o755)

    def start(self, *arguments):
        # What keeps a session open ends a second after its last prompt.
        return subprocess.Popen(
            [sys.argv[1], '--agent', self.agent, '--ttl', '1', *arguments], text=True,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            cwd=self.workspace, env={'HOME': str(self.home), 'PATH': os.environ['PATH']},
        )

    def acpx(self, *arguments):
        """Its exit status, and what it printed."""
        process = self.start(*arguments)
        printed, _ = process.communicate(timeout=30)
        return process.returncode, printed

    def closed(self):
        """Waits until nothing keeps a session open."""
        for _ in range(1000):
            if not any((self.home / '.acpx/queues').iterdir()):
                return
            time.sleep(0.01)
        must(False, 'a session is kept open')


def says(shell):
    status, printed = shell.acpx('exec', 'say hello')
    must(status == 0 and 'Hello there.' in printed, f'{status}: {printed}')


def edits(shell):
    status, printed = shell.acpx('--approve-all', 'exec', 'write the file')
    must(status == 0 and 'The file is written.' in printed, f'{status}: {printed}')
    same((shell.workspace / 'approved.txt').read_text(), 'from the model\n', 'the file')


def denies(shell):
    status, printed = shell.acpx('--deny-all', 'exec', 'write and reject')
    same(status, 5, f'the status of {printed}')
    must(not (shell.workspace / 'rejected.txt').exists(), 'written')


def runs_a_command(shell):
    status, printed = shell.acpx('--approve-all', 'exec', 'run a command')
    must(status == 0 and 'line3' in printed, f'{status}: {printed}')


def takes_a_session_up_again(shell):
    same(shell.acpx('sessions', 'new')[0], 0, 'the status')
    same(shell.acpx('say hello')[0], 0, 'the status')
    shell.closed()
    status, printed = shell.acpx('--format', 'json', 'say hello')
    messages = [json.loads(line) for line in printed.splitlines()]
    methods = [each['method'] for each in messages if 'id' in each and 'method' in each]
    same((status, methods), (0, ['initialize', 'session/resume', 'session/prompt']), 'the requests')


def cancels(shell):
    prompt = shell.start('--format', 'json', 'talk for long')
    while 'agent_message_chunk' not in prompt.stdout.readline():
        must(prompt.poll() is None, 'it has ended')
    same(shell.acpx('cancel')[0], 0, 'the status')
    printed, _ = prompt.communicate(timeout=30)
    must('"stopReason":"cancelled"' in printed, printed)
    shell.closed()


CHECKS = [says, edits, denies, runs_a_command, takes_a_session_up_again, cancels]


def main():
    failed = False
    with tempfile.TemporaryDirectory(prefix='tandem-acpx-') as home:
        shell = Shell(Path(home).resolve())
        for check in CHECKS:
            name = check.__name__.replace('_', ' ')
            try:
                check(shell)
                print(f'ok {name}', flush=True)
            except Exception as error:
                failed = True
                print(f'FAIL {name}: {" ".join(str(error).split())[:600]}', flush=True)
    sys.exit(failed)


main()
