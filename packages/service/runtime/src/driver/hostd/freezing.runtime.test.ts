/** The steps of a pause and of a wake, as a server takes them, with real sandboxes. */
import assert from 'node:assert/strict';
import { randomBytes } from 'node:crypto';
import { test } from 'node:test';
import { setTimeout as delay } from 'node:timers/promises';
import { GATE_TICKS, type LaunchSpec } from '@cloche/protocol';
import { eventually } from '@cloche/testkit/eventually';
import { openHostd } from '../../../testing/hostd.ts';
import { type AgentClient, AgentError } from '../runtime-driver.ts';

const RESOURCES: LaunchSpec['resources'] = { cpu: 1, memoryBytes: 2 ** 29, diskBytes: 2 ** 28, pids: 128 };
const LIMITS = { stdoutBytes: 2 ** 20, stderrBytes: 2 ** 20, outputBytes: 2 ** 20, outputsBytes: 2 ** 20 };
const NAME = { sandboxId: 'sbx_frozen', generation: 1 };
const PATIENCE_MS = 60_000;
const patience = () => AbortSignal.timeout(PATIENCE_MS);

let runs = 0;
async function run(agent: AgentClient, code: string): Promise<string> {
  runs += 1;
  const request = { runId: `run_${runs}`, code, timeoutMs: PATIENCE_MS, limits: LIMITS };
  let stdout = '';
  for await (const event of agent.run('cctx_1', request, patience())) {
    if (event.type === 'stdout') stdout += event.data;
    if (event.type === 'done') assert.deepEqual([event.data.error, event.data.stateLost], [undefined, undefined]);
  }
  return stdout;
}

/** Counts in a file, ten times a second. */
const COUNT = 'i=0; while :; do i=$((i + 1)); echo $i > /tmp/count; sleep 0.1; done';
const readCount = async (agent: AgentClient) => Number(await run(agent, "print(open('/tmp/count').read() or '0')"));

for (const runtime of ['crun', 'runsc']) {
  test(`a sandbox of ${runtime} that is frozen uses no processor, and keeps its variables and commands`, async (t) => {
    const hostd = await openHostd({ CLOCHE_OCI_RUNTIME: runtime });
    const { driver } = hostd;
    try {
      const versions = (await driver.templateVersions()).filter(({ slug }) => slug === 'python-node');
      const newest = versions.reduce((one, other) => (other.builtAt > one.builtAt ? other : one));
      const source = { kind: 'template', templateVersionId: newest.id } as const;
      const spec: LaunchSpec = { source, resources: RESOURCES, network: { mode: 'deny-all' } };
      const { instance } = await driver.launch(NAME.sandboxId, 1, spec, patience());
      const agent = await driver.connect(instance, patience());
      await agent.openContext('cctx_1', { language: 'python', cwd: '/workspace', timeoutMs: PATIENCE_MS }, patience());
      await run(agent, 'x = 41');
      const argv = ['/bin/sh', '-c', COUNT];
      const command = { argv, cwd: '/', env: {}, user: 'user', stdinOpen: false, logBytes: 1000 } as const;
      await agent.commands.start('cmd_count', { ...command, argv }, patience());
      await eventually(async () => (await readCount(agent).catch(() => 0)) > 0, { because: 'it counts' });

      const { freezing } = driver;
      assert.ok(freezing);
      assert.equal(await agent.pause('pse_1', { force: false }, patience()), undefined);
      const begun = performance.now();
      await freezing.freeze(NAME, patience());
      const frozenMs = performance.now() - begun;
      assert.equal((await driver.find(instance, patience()))?.isFrozen, true);
      const [before] = await driver.uses();
      // Longer than a gate stays closed, had its ticks gone on.
      await delay((GATE_TICKS + 1) * 1000);
      const [after] = await driver.uses();
      assert.equal(after?.cpuMs, before?.cpuMs);

      const thawedAt = performance.now();
      await freezing.thaw(NAME, patience());
      const thawedMs = performance.now() - thawedAt;
      await assert.rejects(run(agent, 'x'), (error) => error instanceof AgentError && error.kind === 'pausing');
      await agent.resume('pse_1', { entropy: randomBytes(32).toString('base64'), now: Date.now() }, patience());
      const count = await readCount(agent);
      const answeredMs = performance.now() - thawedAt;
      assert.equal(await run(agent, 'print(x + 1)'), '42\n');
      await eventually(async () => (await readCount(agent)) > count, { because: 'it goes on counting' });
      const figures = { freeze: frozenMs, thaw: thawedMs, 'first run after the thaw': answeredMs };
      for (const [name, ms] of Object.entries(figures)) t.diagnostic(`${runtime}: ${name} ${ms.toFixed(2)} ms`);
      await agent.close();
    } finally {
      await driver.stop(NAME.sandboxId, 1);
      await hostd.close();
    }
  });
}
