import type { AgentClient } from '../src/driver/runtime-driver.ts';
import { openHostd } from './hostd.ts';

/** The agent of a sandbox that a host daemon of its own has launched; `close` takes all of them away. */
export async function agentInSandbox(): Promise<{ agent: AgentClient; close(): Promise<void> }> {
  const hostd = await openHostd();
  const { driver } = hostd;
  const patience = AbortSignal.timeout(60_000);
  const [version] = await driver.templateVersions();
  if (!version) throw new Error('there is no template');
  const resources = { cpu: 1, memoryBytes: 2 ** 29, diskBytes: 2 ** 28, pids: 128 };
  const source = { kind: 'template', templateVersionId: version.id } as const;
  const spec = { source, resources, network: { mode: 'deny-all' } } as const;
  const { instance } = await driver.launch('sbx_suite', 1, spec, patience);
  const agent = await driver.connect(instance, patience);
  return {
    agent,
    async close() {
      await agent.close();
      await hostd.close();
    },
  };
}
