// Writes the entry of the ACP registry (agent.json) for the archives that are in a directory.
//
//   REPOSITORY=https://github.com/OWNER/NAME NPM_NAME=@OWNER/tandem node entry.mjs VERSION DIRECTORY
//
// Without NPM_NAME the entry has no `npx`: editors would start whatever the owner of the bare name has published.

import { readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'

const [version, directory] = process.argv.slice(2)
const repository = process.env.REPOSITORY ?? 'https://example.com/tandem'
const beginning = `tandem-${version}-`
const end = '.tar.gz'

const archives = readdirSync(directory).filter((name) => name.startsWith(beginning) && name.endsWith(end))
const binary = Object.fromEntries(
  archives.sort().map((name) => [
    name.slice(beginning.length, -end.length),
    {
      archive: `${repository}/releases/download/v${version}/${name}`,
      cmd: './tandem',
      args: ['--acp'],
      env: {},
    },
  ]),
)

const npmName = process.env.NPM_NAME
const npx = npmName ? { package: `${npmName}@${version}`, args: ['--acp'] } : undefined

const entry = {
  id: 'tandem',
  name: 'tandem',
  version,
  description: 'A coding agent whose one live session an editor, other agents and a person in a terminal share',
  repository,
  website: repository,
  authors: ['The tandem authors'],
  license: 'Apache-2.0',
  distribution: { binary, npx },
}
writeFileSync(join(directory, 'agent.json'), JSON.stringify(entry, null, 2) + '\n')
