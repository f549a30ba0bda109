import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';

/** Runs a program of the simulation in a process of its own: beside the hooks of a test runner, promises take far longer. */
export async function runSimulation(
  program: string,
  ...given: readonly (string | number)[]
): Promise<{ code: number; output: string }> {
  const path = join(import.meta.dirname, program);
  const child = spawn(process.execPath, [path, ...given.map(String)], { stdio: ['ignore', 'pipe', 'inherit'] });
  const [output, [code]] = await Promise.all([text(child.stdout), once(child, 'close')]);
  return { code, output };
}
