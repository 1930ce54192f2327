// Packs npm's packages: one for each platform, with the program, and one that starts it.
//
//   NPM_NAME=@OWNER/tandem node pack.mjs platform PLATFORM VERSION PROGRAM DIRECTORY
//   NPM_NAME=@OWNER/tandem node pack.mjs launcher VERSION DIRECTORY
//
// NPM_NAME is the name of the package that people install. It has no default: the bare name is another owner's.
// There is no install script: npm chooses the package of the platform by `os` and `cpu`, and so the packages work
// with `--ignore-scripts`, too.
//
// A package is packed where it is laid out, because an archive keeps the program executable on its way through
// whatever stores the files of a build. npm makes a `bin` executable as well when it packs and installs a package.

import { execFileSync } from 'node:child_process'
import { chmodSync, copyFileSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const HERE = dirname(fileURLToPath(import.meta.url))

/** Platforms as the ACP registry names them; `os` and `cpu` as node does. */
const PLATFORMS = {
  'linux-x86_64': { os: 'linux', cpu: 'x64' },
  'linux-aarch64': { os: 'linux', cpu: 'arm64' },
  'darwin-x86_64': { os: 'darwin', cpu: 'x64' },
  'darwin-aarch64': { os: 'darwin', cpu: 'arm64' },
}

const NAME = process.env.NPM_NAME
if (!NAME) {
  console.error('NPM_NAME is not set: set it to the name that the package has at npm, such as @OWNER/tandem.')
  process.exit(1)
}

const packageName = ({ os, cpu }) => `${NAME}-${os}-${cpu}`

const COMMON = { license: 'Apache-2.0', repository: process.env.REPOSITORY }

/** Packs a description and one executable file into a directory. */
function pack(description, executable, into) {
  const directory = mkdtempSync(join(tmpdir(), 'tandem-npm-'))
  try {
    const [path] = description.files
    mkdirSync(join(directory, dirname(path)))
    copyFileSync(executable, join(directory, path))
    chmodSync(join(directory, path), 0o755)
    writeFileSync(join(directory, 'package.json'), JSON.stringify({ ...description, ...COMMON }, null, 2) + '\n')
    execFileSync('npm', ['pack', directory, '--silent', '--pack-destination', into])
  } finally {
    rmSync(directory, { recursive: true })
  }
}

function platformPackage(platform, version, program, into) {
  const { os, cpu } = PLATFORMS[platform]
  const description = {
    name: packageName({ os, cpu }),
    version,
    description: `The program of tandem for ${os}, ${cpu}`,
    os: [os],
    cpu: [cpu],
    // Another name than the launcher's: npm may link both into one directory, and only one would stay.
    bin: { [`tandem-${os}-${cpu}`]: 'bin/tandem' },
    files: ['bin/tandem'],
    preferUnplugged: true,
  }
  pack(description, program, into)
}

function launcherPackage(version, into) {
  const description = {
    name: NAME,
    version,
    description: 'A coding agent for your editor and your terminal',
    bin: { tandem: 'bin/tandem.js' },
    files: ['bin/tandem.js'],
    engines: { node: '>=18' },
    optionalDependencies: Object.fromEntries(
      Object.values(PLATFORMS).map((platform) => [packageName(platform), version]),
    ),
  }
  pack(description, join(HERE, 'tandem.js'), into)
}

const [what, ...rest] = process.argv.slice(2)
if (what === 'platform') platformPackage(...rest)
else launcherPackage(...rest)
