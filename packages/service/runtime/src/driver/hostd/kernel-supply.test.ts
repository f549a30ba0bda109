import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import type { IsolationClaims } from '@cloche/protocol';
import type { HostdConnection } from './hostd-connection.ts';
import { KernelSupply } from './kernel-supply.ts';

const INSTANCE = { sandboxId: 'sbx_1', generation: 1, templateVersionId: 'tplv_1', startedAt: '', place: {} };
const OPEN = { language: 'python', cwd: '/workspace', timeoutMs: 1000 } as const;

function openSupply({ pythonKernels = 'forked' as IsolationClaims['pythonKernels'], refuses = false } = {}) {
  const asked: string[] = [];
  const request = async (method: string, path: string) => {
    asked.push(`${method} ${path}`);
    if (refuses) throw new Error('no kernel');
    return { body: { dump: async () => {} } };
  };
  const hostd = { request, claims: { pythonKernels } } as unknown as HostdConnection;
  let unexpected = 0;
  const agent = {
    openContexts: async () => ['cctx_open'],
    expectNoKernel: async () => {
      unexpected += 1;
    },
  };
  return { supply: new KernelSupply(hostd), asked, agent, unexpected: () => unexpected };
}

describe('the supply of kernels', () => {
  it('the supply of kernels asks for a kernel for each context but the one that takes the kernel that waits', () => {
    const { supply, asked, agent } = openSupply();
    const kernels = supply.of(INSTANCE, true);
    for (const [context, requests] of [
      ['cctx_1', 0],
      ['cctx_1', 0],
      ['cctx_2', 1],
      ['cctx_3', 2],
    ] as const) {
      kernels.beforeOpen(agent, context, OPEN);
      assert.equal(asked.length, requests);
    }
  });

  it('the supply of kernels makes the agent wait for a kernel only where one was requested', () => {
    const { supply, agent } = openSupply();
    const kernels = supply.of(INSTANCE, false);
    assert.ok((kernels.beforeOpen(agent, 'cctx_1', OPEN).kernelWaitMs ?? 0) > 0);
    assert.equal(kernels.beforeOpen(agent, 'cctx_1', OPEN).kernelWaitMs, undefined);
    kernels.closed('cctx_1');
    assert.ok((kernels.beforeOpen(agent, 'cctx_1', OPEN).kernelWaitMs ?? 0) > 0);
  });

  it('the supply of kernels asks for none where the runtime forks none, and for none for contexts that are open', async () => {
    const within = openSupply({ pythonKernels: 'forked within' });
    assert.deepEqual(within.supply.of(INSTANCE, false).beforeOpen(within.agent, 'cctx_1', OPEN), OPEN);
    const { supply, asked, agent } = openSupply();
    const kernels = supply.of(INSTANCE, false);
    await kernels.learn(agent, new AbortController().signal);
    assert.deepEqual(kernels.beforeOpen(agent, 'cctx_open', OPEN), OPEN);
    assert.deepEqual([...within.asked, ...asked], []);
  });

  it('the supply of kernels tells the agent at once when the host has no kernel', async () => {
    const { supply, agent, unexpected } = openSupply({ refuses: true });
    supply.of(INSTANCE, false).beforeOpen(agent, 'cctx_1', OPEN);
    await setImmediate();
    assert.equal(unexpected(), 1);
  });

  it('the supply of kernels reports a language of spawned kernels once in a while', () => {
    const { supply, asked, agent } = openSupply();
    const javascript = { ...OPEN, language: 'javascript' } as const;
    for (const context of ['cctx_1', 'cctx_2']) {
      assert.deepEqual(supply.of(INSTANCE, false).beforeOpen(agent, context, javascript), javascript);
    }
    assert.deepEqual(asked, ['PUT /languages/javascript']);
  });
});
