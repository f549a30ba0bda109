/** Holds the numbers of cells to those of ipykernel: one counter for all messages of a cell, from 1 in each kernel. */
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { JupyterClient, type KernelChannels } from '../../packages/service/server/testing/jupyter-client.ts';
import { sharedService, type TestService } from '../support/service.ts';

let service: TestService;
let jupyter: JupyterClient;
before(async () => {
  service = await sharedService();
  jupyter = new JupyterClient(service.url, service.apiKey);
});
after(() => service?.close());

type Step =
  | string
  | { readonly code: string; readonly options: object }
  | { readonly act: 'restart' | 'message' | 'api' };

/** Returns the number of each cell, which all its messages must have. */
async function numbersOf(name: string, steps: readonly Step[]): Promise<number[]> {
  const { id } = (await jupyter.post('/api/kernels', { name })).body;
  try {
    await using channels = await jupyter.open(id);
    const numbers: number[] = [];
    for (const step of steps) {
      if (typeof step === 'object' && 'act' in step) await restart(step.act, id, channels);
      else numbers.push(await numberOf(channels, typeof step === 'string' ? { code: step, options: {} } : step));
    }
    return numbers;
  } finally {
    await jupyter.delete(`/api/kernels/${id}`);
  }
}

async function numberOf(
  channels: KernelChannels,
  { code, options }: { code: string; options: object },
): Promise<number> {
  const earlier = channels.messages.length;
  const { reply } = await channels.execute(code, options);
  const told = channels.messages
    .slice(earlier)
    .map(({ content }) => content.execution_count)
    .filter((count) => count !== undefined);
  assert.deepEqual(new Set(told).size, 1, `${code}: ${told.join()}`);
  return reply.execution_count;
}

async function restart(act: 'restart' | 'message' | 'api', id: string, channels: KernelChannels): Promise<void> {
  const [, sandboxId, contextId] = /(sbx_\w+)-(cctx_\w+)/.exec(id) ?? [];
  if (act === 'restart') await jupyter.post(`/api/kernels/${id}/restart`, {});
  else if (act === 'message') await channels.ask('shutdown_request', { restart: true }, 'control');
  else await service.api.post(`/v1/sandboxes/${sandboxId}/code/contexts/${contextId}/restart`, {});
}

const PYTHON: Readonly<Record<string, { steps: readonly Step[]; numbers: readonly number[] }>> = {
  'a kernel that died by os._exit': {
    steps: ['1', '2', 'import os; os._exit(1)', '3', '4', '5'],
    numbers: [1, 2, 3, 1, 2, 3],
  },
  'a kernel that a signal killed, twice': {
    steps: ['1', 'import os; os.kill(os.getpid(), 9)', '2', 'import os; os.kill(os.getpid(), 9)', '3', '4'],
    numbers: [1, 2, 1, 2, 1, 2],
  },
  'a kernel that died in its first cell': { steps: ['import os; os._exit(1)', '1', '2'], numbers: [1, 1, 2] },
  'a cell that asks for more memory than there is': { steps: ['1', 'x = bytearray(1 << 40)', '2'], numbers: [1, 2, 3] },
  'cells that fail': { steps: ['1', '1 / 0', '2', 'x x', '3'], numbers: [1, 2, 3, 4, 5] },
  'cells that are silent or not stored': {
    steps: ['1', { code: '2', options: { store_history: false } }, '3', { code: '4', options: { silent: true } }, '5'],
    numbers: [1, 1, 2, 2, 3],
  },
  'a restart by the API': { steps: ['1', '2', { act: 'restart' }, '3', '4'], numbers: [1, 2, 1, 2] },
  'a restart by a message': { steps: ['1', '2', { act: 'message' }, '3', '4'], numbers: [1, 2, 1, 2] },
  'a death, a restart and a death': {
    steps: ['1', 'import os; os._exit(1)', '2', { act: 'restart' }, '3', 'import os; os._exit(1)', '4'],
    numbers: [1, 2, 1, 1, 2, 1],
  },
};

describe('the numbers of Python cells', () => {
  for (const [name, { steps, numbers }] of Object.entries(PYTHON)) {
    it(`the numbers of Python cells are one counter with ${name}`, async () => {
      assert.deepEqual(await numbersOf('python3', steps), numbers);
    });
  }

  it('the numbers of Python cells stay one counter within each cell when the kernel died or was restarted without the gateway’s knowledge', async () => {
    const dies = 'import os, threading; threading.Timer(0.3, os._exit, [1]).start()';
    // The first cell after it finds out: it has been announced with the next number.
    const waits = { code: '', options: { user_expressions: { x: '__import__("time").sleep(1)' } } };
    for (const end of [[dies, waits] as const, [{ act: 'api' }] as const]) {
      const numbers = await numbersOf('python3', ['1', '2', ...end, '3', '4', '5']);
      assert.deepEqual(numbers.slice(-1), [3]);
    }
  });
});

for (const name of ['javascript', 'typescript']) {
  describe(`the numbers of cells of ${name}`, () => {
    it(`the numbers of cells of ${name} are one counter over failures, deaths and restarts`, async () => {
      const dies = 'process.kill(process.pid, 9); await new Promise(() => undefined)';
      const steps: Step[] = ['1', 'null.x', '2', dies, '3', '4', { act: 'restart' }, '5', '6'];
      assert.deepEqual(await numbersOf(name, steps), [1, 2, 3, 4, 1, 2, 1, 2]);
    });
  });
}
