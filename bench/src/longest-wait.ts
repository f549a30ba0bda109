import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';

/** Program of a process of its own, whose thread nothing else keeps: asks a process again and again until told to end. */
const PROBE = `
const { request, Agent } = require('node:http');
const target = JSON.parse(process.argv[1]);
const agent = new Agent({ keepAlive: true, maxSockets: 1 });
let longest = 0, isOver = false;
const ask = () => {
  const startedAt = performance.now();
  const asked = request({ ...target, agent }, (answer) => {
    answer.resume().on('end', () => {
      longest = Math.max(longest, performance.now() - startedAt);
      if (isOver) process.stdout.write(String(longest), () => process.exit());
      else setTimeout(ask, 1);
    });
  });
  asked.on('error', (error) => { throw error; }).end();
};
process.stdin.on('data', () => { isOver = true; }).on('end', () => process.exit());
ask();
setTimeout(() => process.stderr.write('ready'), 200);`;

/** A path that a process answers at once, without waiting for others. */
export type Probed =
  | { readonly port: number; readonly path: string }
  | { readonly socketPath: string; readonly path: string };

/** Returns where a server answers at once. */
export function healthOf(port: number): Probed {
  return { port, path: '/healthz' };
}

/** Returns the longest time that a process took to answer while `act` was going on, in milliseconds. */
export async function longestWait(probed: Probed, act: () => Promise<void>): Promise<number> {
  const probe: ChildProcess = spawn(process.execPath, [
    '--eval',
    PROBE,
    JSON.stringify({ host: '127.0.0.1', ...probed }),
  ]);
  const ended = once(probe, 'exit');
  ended.catch(() => undefined);
  let text = '';
  probe.stdout?.on('data', (chunk) => {
    text += chunk;
  });
  if (probe.stderr) await once(probe.stderr, 'data');
  try {
    await act();
  } finally {
    probe.stdin?.write('end\n');
    await ended;
  }
  const longest = Number.parseFloat(text);
  if (Number.isNaN(longest)) throw new Error(`the process did not answer ${probed.path}`);
  return longest;
}
