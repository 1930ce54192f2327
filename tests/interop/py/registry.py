"""What the registry of ACP checks of an entry, with the entry, the icon and an archive that .ci makes."""

import json
import os
import platform
import re
import signal
import subprocess
import sys
import tarfile
import tempfile
import time
from pathlib import Path

from check import must, same

ROOT = Path(__file__).resolve().parents[3]
VERSION = '1.2.3'
# The platforms that the release workflow builds.
PLATFORMS = ['darwin-aarch64', 'darwin-x86_64', 'linux-aarch64', 'linux-x86_64']
HERE = f"{platform.system().lower()}-{platform.machine().replace('arm64', 'aarch64')}"
INITIALIZE = {
    'jsonrpc': '2.0', 'id': 1, 'method': 'initialize', 'params': {
        'protocolVersion': 1,
        'clientInfo': {'name': 'ACP Registry Validator', 'version': '1.0.0'},
        'clientCapabilities': {
            'terminal': True, 'fs': {'readTextFile': True, 'writeTextFile': True},
            '_meta': {'terminal_output': True, 'terminal-auth': True},
        },
    },
}


def package(directory):
    """Writes an archive for each platform."""
    for name in PLATFORMS:
        with tarfile.open(directory / f'tandem-{VERSION}-{name}.tar.gz', 'w:gz', compresslevel=1) as archive:
            if name == HERE:
                archive.add(os.environ['TANDEM'], 'tandem')


def described(directory, npm_name):
    """Returns the entry for the archives, where the package has this name at npm."""
    command = ['node', ROOT / '.ci/registry/entry.mjs', VERSION, directory]
    subprocess.run(command, check=True, env={**os.environ, 'NPM_NAME': npm_name})
    return json.loads((directory / 'agent.json').read_text())


def npx_is_offered_only_under_a_name_of_our_own(_, directory):
    npx = described(directory, '@owner/tandem')['distribution']['npx']
    same(npx['package'], f'@owner/tandem@{VERSION}', 'the package')
    must('npx' not in described(directory, '')['distribution'], 'npx without a name')


def the_entry_is_whole(entry, _):
    names = ['id', 'name', 'version', 'description', 'repository', 'website', 'authors', 'license']
    must(all(entry.get(name) for name in names), f'a name is missing: {entry}')
    must(re.fullmatch('[a-z][a-z0-9-]*', entry['id']), f'the id: {entry["id"]}')
    same(entry['version'], VERSION, 'the version')
    binary = entry['distribution']['binary']
    same(sorted(binary), PLATFORMS, 'the platforms')
    for target in binary.values():
        must(re.fullmatch(r'https://\S+\.tar\.gz', target['archive']), target['archive'])
        must(f'/v{VERSION}/' in target['archive'], target['archive'])
        must(target['cmd'].startswith('./'), target['cmd'])


def the_icon_has_the_size_and_no_colours(*_):
    icon = (ROOT / '.ci/registry/icon.svg').read_text()
    for name in ('width', 'height'):
        same(re.findall(rf'<svg[^>]*\s{name}="(\d+)"', icon), ['16'], name)
    colours = re.findall(r'\b(?:fill|stroke)\s*[=:]\s*"?([^";]+)', icon)
    must('currentColor' in colours and set(colours) <= {'currentColor', 'none', 'inherit'}, colours)
    must('<!--' not in icon, 'a comment')


def the_program_in_the_archive_answers_and_ends(entry, directory):
    target = entry['distribution']['binary'][HERE]
    installed, home = directory / 'installed', directory / 'home'
    installed.mkdir()
    home.mkdir()
    with tarfile.open(directory / Path(target['archive']).name) as archive:
        archive.extractall(installed)
    agent = subprocess.Popen(
        [installed / target['cmd'], *target['args']], cwd=installed, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
        env={'HOME': str(home), 'TERM': 'dumb', 'PATH': os.environ['PATH'], **target['env']},
    )
    print(json.dumps(INITIALIZE), file=agent.stdin, flush=True)
    answer = json.loads(agent.stdout.readline())
    methods = [method.get('type', 'agent') for method in answer['result']['authMethods']]
    must({'agent', 'terminal'} & set(methods), f'no way to log in: {answer}')
    begun = time.monotonic()
    agent.send_signal(signal.SIGTERM)
    agent.wait(10)
    must(time.monotonic() - begun < 2, 'it ends late')
    same([agent.stdout.read(), list(home.iterdir())], ['', []], 'what is left')


CHECKS = [
    the_entry_is_whole,
    npx_is_offered_only_under_a_name_of_our_own,
    the_icon_has_the_size_and_no_colours,
    the_program_in_the_archive_answers_and_ends,
]


def main():
    failed = False
    with tempfile.TemporaryDirectory(prefix='tandem-registry-') as directory:
        package(Path(directory))
        entry = described(Path(directory), '@owner/tandem')
        for check in CHECKS:
            name = check.__name__.replace('_', ' ')
            try:
                check(entry, Path(directory))
                print(f'ok {name}', flush=True)
            except Exception as error:
                failed = True
                print(f'FAIL {name}: {" ".join(str(error).split())[:600]}', flush=True)
    sys.exit(failed)


main()
