/**
 * A program: a server that was started again beside a live sandbox, whose agent is a real one that listens at the path
 * given. Lists the files beside that path through the API, reads, lists and deletes the sandbox, and prints what came
 * of it. With `equal` as the second argument, the server accepts only agents of its own version of the protocol.
 */
import assert from 'node:assert/strict';
import { registerHooks } from 'node:module';
import { dirname } from 'node:path';
import { operations } from '@cloche/contract';

const WINDOW = 'theirs === own || theirs === own - 1';

/** The names of the files, or the code of the error; and the status of the sandbox as it is read, listed and deleted. */
export interface UseOfAgent {
  readonly files?: readonly string[];
  readonly refused?: string;
  readonly statuses: readonly (string | undefined)[];
}

if (import.meta.main) {
  const [socketPath, versions] = process.argv.slice(2);
  if (versions === 'equal') acceptEqualVersions();
  process.stdout.write(JSON.stringify(await useAgent(socketPath ?? assert.fail())));
}

function acceptEqualVersions(): void {
  registerHooks({
    load(url, context, nextLoad) {
      const loaded = nextLoad(url, context);
      if (!url.endsWith('/protocol/src/version.ts')) return loaded;
      const source = String(loaded.source);
      assert.ok(source.includes(WINDOW), 'the window is this condition');
      return { ...loaded, source: source.replace(WINDOW, 'theirs === own') };
    },
  });
}

/** The imports come after the hooks, which change what is imported. */
async function useAgent(socketPath: string): Promise<UseOfAgent> {
  const { openSandboxes } = await import('./sandboxes.ts');
  const { dialer } = await import('@cloche/runtime/agent-endpoint');
  const { AgentHttpClient } = await import('@cloche/runtime/agent-http-client');
  await using world = await openSandboxes();
  const sandboxId = await world.createReady();
  world.driver.connect = async (_instance, signal, onBroken) => {
    const client = new AgentHttpClient(dialer({ unix: socketPath }), onBroken && { onBroken });
    await client.checkHealth(signal);
    return client;
  };
  await world.crash();
  const asked = { params: { sandboxId }, query: { path: dirname(socketPath) } };
  const use = await world.call(operations.listFiles, asked).then(
    ({ data }) => ({ files: data.map(({ name }) => name) }),
    ({ code }) => ({ refused: code }),
  );
  const read = await world.get(sandboxId);
  const [listed] = (await world.call(operations.listSandboxes, {})).data;
  const deleted = (await world.call(operations.killSandbox, { params: { sandboxId } })).sandbox;
  return { ...use, statuses: [read.status, listed?.status, deleted.status] };
}
