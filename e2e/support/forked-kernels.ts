/** Finds kernels that were forked from hostd's zygote, and the zygotes themselves. */
import { readdirSync, readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { eventually } from '@cloche/testkit/eventually';
import type { TestService } from './service.ts';

/**
 * Prints whether a kernel was forked: its parent is outside of the sandbox, and so has no id there, or is the sandbox's
 * own zygote.
 */
const IS_FORKED = `import os
def parent():
    with open(f'/proc/{os.getppid()}/cmdline', 'rb') as line: return line.read()
print(os.getppid() == 0 or b'cloche_zygote' in parent())`;
/** Python reads such a file only when it starts, so a context that needs it cannot get a forked kernel. */
const PATHS_FILE = 'os.path.join(site.getusersitepackages(), "own.pth")';
const WRITE_PATHS_FILE = `import os, site; os.makedirs(site.getusersitepackages(), exist_ok=True); open(${PATHS_FILE}, "w").close()`;
const REMOVE_PATHS_FILE = `os.remove(${PATHS_FILE})`;
/** First pause between attempts to get a forked kernel, and the longest time of all attempts. */
const FIRST_PAUSE_MS = 125;
const FORKED_MS = 60_000;

/**
 * Opens a context in a forked kernel. Retries, as the zygote may not be ready yet. Each pause is longer, because a
 * zygote in the sandbox loads only while no code runs: attempts that follow each other closely keep it from loading.
 */
export async function forkedContext(service: TestService, sandboxId: string): Promise<string> {
  let forked = '';
  let pauseMs = FIRST_PAUSE_MS;
  await eventually(
    async () => {
      const contextId = await openContext(service, sandboxId);
      const { stdout } = await service.api.run(sandboxId, IS_FORKED, { contextId });
      if (stdout === 'True\n') forked = contextId;
      else {
        await service.api.delete(`/v1/sandboxes/${sandboxId}/code/contexts/${contextId}`);
        await delay(pauseMs);
        pauseMs *= 2;
      }
      return forked !== '';
    },
    { within: FORKED_MS },
  );
  return forked;
}

/** Opens a context whose kernel the agent started. */
export async function startedContext(service: TestService, sandboxId: string): Promise<string> {
  await service.api.run(sandboxId, WRITE_PATHS_FILE);
  const contextId = await openContext(service, sandboxId);
  await service.api.run(sandboxId, REMOVE_PATHS_FILE);
  const { stdout } = await service.api.run(sandboxId, IS_FORKED, { contextId });
  if (stdout !== 'False\n') throw new Error(`the kernel was not started inside: ${stdout}`);
  return contextId;
}

export async function openContext(service: TestService, sandboxId: string): Promise<string> {
  const answer = await service.api.post(`/v1/sandboxes/${sandboxId}/code/contexts`, { language: 'python' });
  if (answer.status !== 201) throw new Error(JSON.stringify(answer.body));
  return answer.body.context.id;
}

/** Returns the process ids of the zygotes of the service's hostd. */
export function zygotePids(service: TestService): number[] {
  const hostd = service.pid('hostd');
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => parentOf(pid) === hostd && /cloche_zygote/.test(read(`/proc/${pid}/cmdline`)));
}

function parentOf(pid: number): number | undefined {
  const parent = /^PPid:\t(\d+)$/m.exec(read(`/proc/${pid}/status`))?.[1];
  return parent === undefined ? undefined : Number(parent);
}

function read(path: string): string {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return '';
  }
}
