/**
 * Runs Chromium in a network namespace that has a loopback interface and nothing else. Connections to a port there go
 * to a Unix socket.
 *
 * Usage: `unshare --net node chromium-in-namespace.ts SOCKET PORT PROGRAM OPTION…`
 */
import { execFileSync, spawn } from 'node:child_process';
import { connect, createServer } from 'node:net';
import { relay } from './relay.ts';

const [path = '', port, program = '', ...options] = process.argv.slice(2);
execFileSync('ip', ['link', 'set', 'lo', 'up']);
createServer((socket) => relay(socket, connect(path))).listen(Number(port), '127.0.0.1');
// Playwright speaks to Chromium by the descriptors 3 and 4.
spawn(program, options, { stdio: ['inherit', 'inherit', 'inherit', 3, 4] }).on('exit', (code) =>
  process.exit(code ?? 1),
);
