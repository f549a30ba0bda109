/**
 * Starts a service, runs code in a sandbox, ends both, and prints what it saw as JSON. Tests run it in surroundings of
 * their own, such as a network namespace.
 */
import { execFileSync } from 'node:child_process';
import { setTimeout as delay } from 'node:timers/promises';
import { testService } from '../../support/service.ts';

/** Longest time in which the kernel removes the link of a sandbox whose processes have ended. */
const LINK_MS = 10_000;
const LOOK_UP = `import socket
try: socket.getaddrinfo('cloche.test', 80)
except OSError: pass`;

/** Returns the names of the links of this network namespace. */
function links(): string[] {
  const lines = execFileSync('ip', ['-brief', 'link'], { encoding: 'utf8' }).trim().split('\n');
  return lines.map((line) => line.split(/[ @]/)[0] ?? '');
}

const before = links();
const service = await testService();
let seen: object;
try {
  const { id } = await service.api.readySandbox();
  const { outputs } = await service.api.run(id, '6 * 7');
  // Asks the gateway, whose address is on another link than the sandbox's.
  await service.api.run(id, LOOK_UP);
  const { metrics } = (await service.api.get(`/v1/sandboxes/${id}/metrics`)).body;
  seen = { outputs, networkBytes: metrics.now.networkBytes };
} finally {
  await service.close();
}
const isLeft = (name: string) => !before.includes(name);
for (const ends = Date.now() + LINK_MS; links().some(isLeft) && Date.now() < ends; ) await delay(100);
console.log(JSON.stringify({ ...seen, left: links().filter(isLeft) }));
