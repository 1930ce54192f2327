#!/usr/bin/env node
// Starts the program of this platform's package in place of itself where node can do that, else as a child that
// has this process's input, output and signals, and whose exit status becomes this one's.

'use strict'

const { spawn } = require('node:child_process')

const name = `${require('../package.json').name}-${process.platform}-${process.arch}`
let program
try {
  program = require.resolve(`${name}/bin/tandem`)
} catch {
  console.error(
    `tandem: the package ${name} is missing. Install tandem again without --omit=optional; if there is ` +
      'no such package, tandem is not made for this platform.',
  )
  process.exit(1)
}
const args = process.argv.slice(2)

if (typeof process.execve === 'function') {
  // Node says on standard error that this is new.
  process.removeAllListeners('warning')
  process.execve(program, [program, ...args], process.env)
}

const child = spawn(program, args, { stdio: 'inherit' })
const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP', 'SIGQUIT', 'SIGUSR1', 'SIGUSR2', 'SIGCONT', 'SIGWINCH']
for (const signal of SIGNALS) {
  // Node keeps SIGUSR1 for its debugger unless somebody else listens.
  process.on(signal, () => child.kill(signal))
}
child.on('error', (error) => {
  console.error(`tandem: ${program} cannot be started: ${error.message}`)
  process.exit(1)
})
child.on('exit', (code, signal) => {
  if (signal === null) process.exit(code)
  // Ends by the same signal, so that whoever waits is told the same.
  for (const listened of SIGNALS) process.removeAllListeners(listened)
  process.kill(process.pid, signal)
})
