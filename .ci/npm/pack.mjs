// Lays out npm's packages: one for each platform, with the program, and one that starts it.
//
//   node pack.mjs platform PLATFORM VERSION PROGRAM DIRECTORY
//   node pack.mjs launcher VERSION DIRECTORY
//
// NPM_NAME is the name of the package that people install, such as `@owner/tandem`; without it, `tandem`.
// There is no install script: npm chooses the package of the platform by `os` and `cpu`, and so the packages work
// with `--ignore-scripts`, too.

import { chmodSync, copyFileSync, mkdirSync, writeFileSync } from 'node:fs'
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

const NAME = process.env.NPM_NAME ?? 'tandem'

const packageName = ({ os, cpu }) => `${NAME}-${os}-${cpu}`

/** The directory of a package; without its owner. */
const directoryOf = (name, into) => join(into, name.split('/').pop())

const COMMON = { license: 'Apache-2.0', repository: process.env.REPOSITORY }

function write(directory, description) {
  writeFileSync(join(directory, 'package.json'), JSON.stringify({ ...description, ...COMMON }, null, 2) + '\n')
}

function platformPackage(platform, version, program, into) {
  const { os, cpu } = PLATFORMS[platform]
  const name = packageName({ os, cpu })
  const directory = directoryOf(name, into)
  mkdirSync(join(directory, 'bin'), { recursive: true })
  copyFileSync(program, join(directory, 'bin/tandem'))
  chmodSync(join(directory, 'bin/tandem'), 0o755)
  write(directory, {
    name,
    version,
    description: `The program of tandem for ${os}, ${cpu}`,
    os: [os],
    cpu: [cpu],
    files: ['bin/tandem'],
    preferUnplugged: true,
  })
}

function launcherPackage(version, into) {
  const directory = directoryOf(NAME, into)
  mkdirSync(join(directory, 'bin'), { recursive: true })
  copyFileSync(join(HERE, 'tandem.js'), join(directory, 'bin/tandem.js'))
  chmodSync(join(directory, 'bin/tandem.js'), 0o755)
  write(directory, {
    name: NAME,
    version,
    description: 'A coding agent for your editor and your terminal',
    bin: { tandem: 'bin/tandem.js' },
    files: ['bin/tandem.js'],
    engines: { node: '>=18' },
    optionalDependencies: Object.fromEntries(
      Object.values(PLATFORMS).map((platform) => [packageName(platform), version]),
    ),
  })
}

const [what, ...rest] = process.argv.slice(2)
if (what === 'platform') platformPackage(...rest)
else launcherPackage(...rest)
