"""A2A's official conformance kit against the server at $TANDEM_URL: tck.py tck03|tck10 DIRECTORY-OF-THE-KIT.

../tck/tck03.toml and ../tck/tck10.toml list the tests that fail, each with the reason. Any other that fails, and one of
these that does not, is a failure.
"""

import asyncio
import json
import subprocess
import sys
import tomllib
from pathlib import Path
from xml.etree import ElementTree

from check import BASE, check, finish, must

NAME, KIT = sys.argv[1], Path(sys.argv[2])
LISTED = tomllib.loads((Path(__file__).parent.parent / f'tck/{NAME}.toml').read_text())
REPORTS = KIT / 'reports'
# Seconds.
LIMIT = 300


def outcomes_03():
    """What became of each test, from the reports of all categories."""
    reports = [json.loads(each.read_text()) for each in REPORTS.glob('*_results.json')]
    return {test['nodeid']: test['outcome'] for report in reports for test in report['tests']}


def outcomes_10():
    """What became of each test, from the one report."""
    outcomes = {}
    for test in ElementTree.parse(REPORTS / 'junitreport.xml').iter('testcase'):
        *places, last = test.get('classname').split('.')
        # The class of a test is not among the names of its file's path.
        places, inside = ([*places, last], []) if last.startswith('test_') else (places, [last])
        path = '::'.join(['/'.join(places) + '.py', *inside, test.get('name')])
        ends = {'failure': 'failed', 'error': 'failed', 'skipped': 'skipped'}
        outcomes[path] = next((ends[each.tag] for each in test if each.tag in ends), 'passed')
    return outcomes


def played():
    """Plays the whole kit by its own program, and returns what became of each test."""
    how = ['--sut-host', BASE]
    if NAME == 'tck03':
        # Without a report of all, none is written.
        how = ['--sut-url', BASE, '--category', 'all', '--compliance-report', 'all.json']
    for report in [*REPORTS.glob('*_results.json'), *REPORTS.glob('*.xml')]:
        report.unlink()
    done = subprocess.run(
        [sys.executable, 'run_tck.py', *how], cwd=KIT,
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=LIMIT,
    )
    outcomes = outcomes_03() if NAME == 'tck03' else outcomes_10()
    must(outcomes, f'the kit has played nothing: {done.stdout.decode()[-500:]}')
    return outcomes


async def main():
    outcomes = {}
    listed = {test for group in LISTED['failing'] for test in group['tests']}

    def counted(state):
        return [test for test, outcome in outcomes.items() if outcome == state]

    async def kit():
        outcomes.update(await asyncio.to_thread(played))

    async def failing():
        unknown = sorted(set(counted('failed')) - listed)
        must(not unknown, f'{len(unknown)} fail that are not listed: {", ".join(unknown)}')

    async def passing():
        mended = sorted(listed - set(counted('failed')))
        must(not mended, f'{len(mended)} are listed and do not fail: {", ".join(mended)}')

    async def many():
        passed, least = len(counted('passed')), LISTED['passed']
        must(passed >= least, f'only {passed} have passed, not {least}')

    await check('the kit is played', kit, LIMIT + 10)
    await check('no test fails but those that are listed', failing)
    await check('those that are listed fail', passing)
    await check('as many tests pass as are listed', many)
    finish()


asyncio.run(main())
