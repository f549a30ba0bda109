#!/usr/bin/env node
// Plain JavaScript for any Node: the command line itself is TypeScript, which only a newer one runs as it is.
import { spawn } from 'node:child_process';
import { existsSync } from 'node:fs';
import * as module from 'node:module';
import { homedir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';

if (process.features.typescript) {
  // Node's default is a folder that every user of the machine can write before this one does.
  module.enableCompileCache?.(join(process.env.XDG_CACHE_HOME || join(homedir(), '.cache'), 'cloche'));
  await import('../src/main.ts');
} else {
  runWith(findNode(), [fileURLToPath(import.meta.url), ...process.argv.slice(2)]);
}

/** The Node that the workspace brings, in the nearest `node_modules` above that has one. */
function findNode() {
  for (let folder = dirname(fileURLToPath(import.meta.url)); folder !== dirname(folder); folder = dirname(folder)) {
    const candidate = join(folder, 'node_modules', '.bin', 'node');
    if (existsSync(candidate)) return candidate;
  }
  process.stderr.write(
    `cloche: Node ${process.version} is too old; run \`npm start\` in the checkout, which brings one.\n`,
  );
  process.exit(1);
}

/** Stands in for the child: passes signals on, and ends as it ends. */
function runWith(node, args) {
  const child = spawn(node, args, { stdio: 'inherit' });
  const signals = ['SIGINT', 'SIGTERM', 'SIGHUP'];
  for (const signal of signals) process.on(signal, () => child.kill(signal));
  child.once('exit', (code, signal) => {
    for (const name of signals) process.removeAllListeners(name);
    if (signal) process.kill(process.pid, signal);
    else process.exit(code ?? 1);
  });
}
