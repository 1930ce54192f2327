"""Two nodes of the binary that share a database, behind nginx as the manual sets it up, with TLS and tokens."""

import http.client
import os
import re
import shutil
import socket
import subprocess
import tempfile
import time
from contextlib import ExitStack
from pathlib import Path

DOCS = Path(__file__).resolve().parent.parent.parent / 'docs'
KEY = Path(__file__).resolve().parent / 'card-key.pem'


def postgres_programs():
    """The directory of Postgres' programs, if the package is installed."""
    found = sorted(Path('/usr/lib/postgresql').glob('*/bin/initdb'))
    return found[-1].parent if found else None


def nginx():
    # Where Debian has servers, whose users need not have it in their path.
    return shutil.which('nginx', path=f'{os.environ["PATH"]}:/usr/sbin')


def missing():
    """What is not installed of what a team needs, and the variable by which it must be."""
    needed = {
        'postgresql': (postgres_programs(), 'TANDEM_REQUIRE_POSTGRES'),
        'nginx': (nginx(), 'TANDEM_REQUIRE_PROXIES'),
        'openssl': (shutil.which('openssl'), 'TANDEM_REQUIRE_PROXIES'),
    }
    return {package: variable for package, (found, variable) in needed.items() if not found}


KEPT_SOCKETS = []


def kept_port():
    """A port that no other program gets as long as this one runs.

    A bound socket keeps it, which does not listen. So a server that sets SO_REUSEADDR, as all do here, can listen at the
    port, and listen there again after its end.
    """
    kept = socket.socket()
    kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    kept.bind(('127.0.0.1', 0))
    KEPT_SOCKETS.append(kept)
    return kept.getsockname()[1]


def run(*command, **more):
    done = subprocess.run(
        list(map(str, command)), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        text=True, timeout=60, **more,
    )
    if done.returncode:
        raise RuntimeError(f'{" ".join(map(str, command))}:\n{done.stdout}')
    return done.stdout


def get(port, path):
    """The body of a page on this machine; nothing if there is none."""
    try:
        connection = http.client.HTTPConnection('127.0.0.1', port, timeout=5)
        connection.request('GET', path)
        response = connection.getresponse()
        return response.read().decode() if response.status == 200 else None
    except OSError:
        return None
    finally:
        connection.close()


def wait(condition, what, process=None, seconds=20):
    """Waits for something to be so; returns what it is."""
    for _ in range(20 * seconds):
        found = condition()
        if found:
            return found
        if process and process.poll() is not None:
            break
        time.sleep(0.05)
    raise RuntimeError(f'{what} is not there')


def end(process):
    process.terminate()
    try:
        process.wait(5)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


def temporary():
    return tempfile.TemporaryDirectory(prefix='tandem-interop-')


class Postgres:
    """A database server in a directory of its own."""

    def __enter__(self):
        self.port = kept_port()
        with ExitStack() as stack:
            home = Path(stack.enter_context(temporary()))
            more = {'cwd': home}
            if os.getuid() == 0:  # as whom it refuses to run
                shutil.chown(home, 'postgres')
                more.update(user='postgres', group='postgres', extra_groups=[])
            programs = postgres_programs()
            run(
                programs / 'initdb', '-D', home / 'data', '-U', 'tandem', '--auth=trust', '-E', 'UTF8',
                '--locale=C', '--no-sync', **more,
            )
            log = stack.enter_context(open(home / 'log', 'w'))
            process = subprocess.Popen(
                [
                    programs / 'postgres', '-D', home / 'data', '-p', str(self.port),
                    '-c', 'listen_addresses=127.0.0.1', '-c', 'unix_socket_directories=',
                ],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, **more,
            )
            stack.callback(end, process)
            self.programs = programs
            ready = [programs / 'pg_isready', '-q', '-h', '127.0.0.1', '-p', str(self.port)]
            wait(lambda: subprocess.run(ready).returncode == 0, 'Postgres', process)
            self.stack = stack.pop_all()
        return self

    def client(self, program, *arguments):
        return run(self.programs / program, '-h', '127.0.0.1', '-p', self.port, '-U', 'tandem', *arguments)

    def database(self, name):
        self.client('createdb', name)
        return f'postgres://tandem@127.0.0.1:{self.port}/{name}'

    def __exit__(self, *error):
        self.stack.__exit__(*error)


class Node:
    """A server of sessions, and its figures."""

    def __init__(self, team):
        self.team = team
        self.port, self.figures_port = kept_port(), kept_port()
        self.process = None

    def start(self):
        team = self.team
        self.process = subprocess.Popen(
            [
                team.tandem, 'serve', '--store', team.store, '--workspace-root', team.workspace,
                '--port', str(self.port), '--metrics', f'127.0.0.1:{self.figures_port}',
                '--public-url', f'{team.url}/', '--trust-proxy', '127.0.0.1',
                '--tokens', team.tokens, '--card-key', KEY, '--a2a-webhook-loopback', *team.more,
            ],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=team.log,
            cwd=team.workspace, env=team.environment,
        )

    def ready(self):
        wait(lambda: get(self.port, '/readyz'), 'a node', self.process)

    def roles(self):
        """Whether a turn runs at the node, and whether a client reads from it."""
        figures = get(self.figures_port, '/metrics') or ''
        roles = {'owner': 'tandem_sessions{state="running"}', 'reader': 'tandem_clients{transport="sse"}'}
        return {
            role for role, figure in roles.items()
            if re.search(rf'^{re.escape(figure)} [1-9]', figures, re.MULTILINE)
        }

    def kill(self):
        self.process.kill()
        self.process.wait()


class Team:
    """Nodes, and nginx in front of them.

    `more`: the nodes' other flags.
    """

    def __init__(self, tandem, postgres, *more):
        self.tandem, self.postgres, self.more = tandem, postgres, more
        self.proxy = self.draining = None

    def __enter__(self):
        with ExitStack() as stack:
            self.home = Path(stack.enter_context(temporary())).resolve()
            self.environment = {'HOME': str(self.home)} | {
                name: os.environ[name] for name in ('PATH', 'TANDEM_LOG') if name in os.environ
            }
            self.log = stack.enter_context(open(self.home / 'stderr', 'a+'))
            self.workspace = self.home / 'workspace'
            self.workspace.mkdir()
            self.database = self.home.name
            self.store = self.postgres.database(self.database)
            self.tokens = self.home / 'tokens.json'
            self.token, self.stranger = self.add_token('alice', 'acme'), self.add_token('bob', 'other')
            self.certificate = self.make_certificate()
            self.port = kept_port()
            self.url = f'https://127.0.0.1:{self.port}/agent'
            self.nodes = [Node(self), Node(self)]
            stack.callback(self.end)
            for node in self.nodes:
                node.start()
            for node in self.nodes:
                node.ready()
            self.write_nginx_settings()
            self.start_proxy()
            self.stack = stack.pop_all()
        return self

    def __exit__(self, *error):
        self.stack.__exit__(*error)

    def end(self):
        for process in [self.proxy, *(node.process for node in self.nodes)]:
            if process:
                end(process)

    def add_token(self, name, tenant):
        said = run(
            self.tandem, 'serve', 'token', 'add', name, '--tenant', tenant, '--tokens', self.tokens,
            env=self.environment,
        )
        return re.search(r'^tdm_\S+$', said, re.MULTILINE)[0]

    def make_certificate(self):
        certificate = self.home / 'certificate.pem'
        run(
            'openssl', 'req', '-x509', '-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes',
            '-days', '2', '-subj', '/CN=tandem.example', '-addext', 'subjectAltName=IP:127.0.0.1',
            '-addext', 'keyUsage=critical,digitalSignature,keyCertSign',
            '-keyout', self.home / 'key.pem', '-out', certificate,
        )
        return certificate

    def write_nginx_settings(self):
        """Writes the settings of the manual, for these ports and files."""
        [server, *_], [upstream] = (
            re.findall(r'```nginx\n(.*?)```', (DOCS / page).read_text(), re.DOTALL)
            for page in ('network.md', 'team.md')
        )
        for n, node in enumerate(self.nodes, 1):
            upstream = upstream.replace(f'node-{n}.example:41242', f'127.0.0.1:{node.port}')
        server = (
            server.replace('listen 443', f'listen 127.0.0.1:{self.port}')
            .replace('http://127.0.0.1:41242/', 'http://tandem/')
            .replace('/etc/ssl/tandem.example.pem', str(self.certificate))
            .replace('/etc/ssl/private/tandem.example.key', str(self.home / 'key.pem'))
        )
        directories = ''.join(
            f'{name}_temp_path {self.home}/{name};\n'
            for name in ('client_body', 'proxy', 'fastcgi', 'uwsgi', 'scgi')
        )
        (self.home / 'nginx.conf').write_text(
            f'daemon off; master_process off; pid {self.home}/pid; error_log {self.home}/error.log;\n'
            f'events {{}}\nhttp {{\naccess_log off;\n{directories}{upstream}{server}}}\n'
        )

    def start_proxy(self):
        self.proxy = subprocess.Popen(
            [nginx(), '-p', self.home, '-c', self.home / 'nginx.conf', '-e', self.home / 'error.log'],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )

        def listens():
            with socket.socket() as client:
                return client.connect_ex(('127.0.0.1', self.port)) == 0

        wait(listens, 'nginx', self.proxy)

    # Orders of a client.

    def restart(self):
        """Kills all nodes, and starts them again; they must not go on with turns."""
        for node in self.nodes:
            node.kill()
        for node in self.nodes:
            node.start()
        for node in self.nodes:
            node.ready()
        # For a moment they cannot know that the others are dead, and show these turns as they were.
        busy = 'select count(*) from tandem.session where busy'
        settled = lambda: self.postgres.client('psql', '-qAt', '-d', self.database, '-c', busy).strip() == '0'
        wait(settled, 'the end of turns that were interrupted', seconds=10)

    def find(self, roles):
        """The one node that is all of this and nothing else, once there is one."""
        def found():
            return [node for node in self.nodes if node.roles() == set(roles)]

        [node] = wait(found, f'a node that is {" and ".join(roles)}', seconds=5)
        return node

    def kill(self, *roles):
        self.find(roles).kill()

    def drain(self, *roles):
        """Has a node end as soon as its turn has ended."""
        node = self.find(roles)
        node.process.terminate()
        wait(lambda: not get(node.port, '/readyz'), 'the end of a node', seconds=5)
        self.draining = node

    def revive(self):
        """Starts the nodes that have ended, and has nginx forget that they did not answer."""
        if self.draining:
            self.draining.process.wait(10)
        dead = [node for node in self.nodes if node.process.poll() is not None]
        for node in dead:
            node.start()
        for node in dead:
            node.ready()
        end(self.proxy)
        self.start_proxy()

    def order(self, what, *more):
        orders = {'restart': self.restart, 'kill': self.kill, 'drain': self.drain, 'revive': self.revive}
        orders[what](*more)

    def client_environment(self):
        return {
            'TANDEM_NODES': str(len(self.nodes)), 'TANDEM_TOKEN': self.token, 'TANDEM_STRANGER': self.stranger,
            'SSL_CERT_FILE': str(self.certificate), 'NODE_EXTRA_CA_CERTS': str(self.certificate),
        }

    def ended(self):
        codes = (process.poll() for process in [self.proxy, *(node.process for node in self.nodes)])
        return next((code for code in codes if code is not None), None)

    def said(self):
        return (self.home / 'stderr').read_text() + (self.home / 'error.log').read_text()
