// Serves the files in a directory on loopback, the packages among them as npm's registry does, and prints its address.
//
//   node registry.mjs DIRECTORY

import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, readFileSync, readdirSync } from 'node:fs'
import { createServer } from 'node:http'
import { basename, join } from 'node:path'

const [directory] = process.argv.slice(2)

const packages = new Map(
  readdirSync(directory)
    .filter((file) => file.endsWith('.tgz'))
    .map((file) => {
      const archive = readFileSync(join(directory, file))
      const manifest = JSON.parse(execFileSync('tar', ['-xzOf', join(directory, file), 'package/package.json']))
      return [manifest.name, { file, archive, manifest }]
    }),
)

/** What the registry says of a package: its only version. */
function described({ file, archive, manifest }) {
  const integrity = `sha512-${createHash('sha512').update(archive).digest('base64')}`
  const version = { ...manifest, dist: { tarball: `${address()}/${file}`, integrity } }
  return {
    name: manifest.name,
    'dist-tags': { latest: manifest.version },
    versions: { [manifest.version]: version },
  }
}

const server = createServer((request, response) => {
  const path = decodeURIComponent(request.url.slice(1))
  const named = packages.get(path)
  const file = join(directory, basename(path))
  if (named) response.setHeader('content-type', 'application/json').end(JSON.stringify(described(named)))
  else if (existsSync(file)) response.end(readFileSync(file))
  else response.writeHead(404).end('{}')
})

const address = () => `http://127.0.0.1:${server.address().port}`

server.listen(0, '127.0.0.1', () => console.log(address()))
