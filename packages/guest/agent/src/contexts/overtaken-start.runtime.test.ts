/** Kernels whose processes and threads are refused half way, because other code took the last ones after the check. */
import assert from 'node:assert/strict';
import { closeSync, existsSync, mkdirSync, openSync, rmdirSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, describe, test } from 'node:test';
import type { Language } from '@cloche/protocol';
import { eventually } from '@cloche/testkit/eventually';
import { newInstallationId } from '@cloche/testkit/installation-ids';
import { CACHE_DIR, findPythonPackages } from '../../testing/test-cache.ts';
import { AgentError } from '../base/agent-error.ts';
import { readConfig } from '../config.ts';
import { buildGuest } from '../guest/build-guest.ts';
import { KernelsGroup } from '../processes/kernels-group.ts';
import type { KernelProvisioner } from '../provisioning/kernel-provisioner.ts';
import { SpawnProvisioner } from '../provisioning/spawn-provisioner.ts';
import { Context } from './context.ts';

/** More processes and threads than any kernel has when it is ready. */
const AMPLE = 10;
const START_MS = 30_000;
const PROMPT_MS = 10_000;
const HIERARCHY = existsSync('/sys/fs/cgroup/pids') ? '/sys/fs/cgroup/pids' : '/sys/fs/cgroup';

/** A group that finds room when it is asked, except for `fullFor` times, and then has the room that its limit leaves. */
class OvertakenGroup extends KernelsGroup {
  fullFor = 0;

  override hasRoomFor(): boolean {
    this.fullFor -= 1;
    return this.fullFor < 0;
  }
}

describe('a kernel that is refused a process or thread while it starts', () => {
  const folder = join(HIERARCHY, `cloche-${newInstallationId()}`);
  let members: number;
  let group: OvertakenGroup;
  let kernels: KernelProvisioner;

  before(async () => {
    const { guestDir } = await buildGuest({ cacheDir: CACHE_DIR });
    if (!existsSync(join(HIERARCHY, 'pids.max'))) allowLimits();
    mkdirSync(folder);
    members = openSync(join(folder, 'cgroup.procs'), 'w');
    const config = readConfig({ ...process.env, CLOCHE_LISTEN_PATH: 'none', CLOCHE_GUEST_PATH: guestDir });
    group = new OvertakenGroup([members], [folder]);
    const spawn = new SpawnProvisioner(config, group, () => undefined);
    const env = { ...config.baseEnv, PYTHONPATH: findPythonPackages() ?? '', PYTHONDONTWRITEBYTECODE: '1' };
    const place = { cwd: tmpdir(), env };
    kernels = {
      environment: {},
      provision: (language, { listener, room }) =>
        spawn.provision(language, { place, listener, room, kernelWaitMs: 0 }),
      hasProcessesFor: (language) => spawn.hasProcessesFor(language),
      countRefusals: () => spawn.countRefusals(),
      recordUse: () => undefined,
      close: async () => undefined,
    };
  });
  after(async () => {
    closeSync(members);
    await eventually(() => tryToRemove(folder), { because: 'the group is empty' });
  });

  const skip = findPythonPackages() === undefined && 'no python-node template is built';
  for (const [language, options] of [
    ['python', { skip }],
    ['javascript', {}],
  ] as const) {
    test(
      `a kernel that is refused a process or thread while it starts ends soon, and its context with process_limit: ${language}`,
      options,
      async (t) => {
        const seen: string[] = [];
        for (let most = 0; most <= AMPLE; most += 1) {
          writeFileSync(join(folder, 'pids.max'), String(most));
          const from = performance.now();
          seen.push(`${most}: ${await start(language)}`);
          assert.ok(performance.now() - from < PROMPT_MS, seen.join('; '));
        }
        t.diagnostic(seen.join('; '));
        assert.equal(seen.at(-1), `${AMPLE}: ready`);
        for (const each of seen) assert.match(each, /: (ready|process_limit)$/, seen.join('; '));
      },
    );
  }

  test('a kernel that is refused a process or thread while it starts ends its context with process_limit also if processes end right after the check', async () => {
    writeFileSync(join(folder, 'pids.max'), String(AMPLE));
    group.fullFor = 1;
    assert.equal(await start('javascript'), 'process_limit');
  });

  async function start(language: Language): Promise<string> {
    const context = new Context({ contextId: 'context', language, cwd: tmpdir() }, kernels);
    try {
      await context.start(START_MS);
      return 'ready';
    } catch (error) {
      return error instanceof AgentError ? error.code : String(error);
    } finally {
      await context.close();
    }
  }
});

/** Lets groups of version 2 limit processes, as hostd does. */
function allowLimits(): void {
  const control = join(HIERARCHY, 'cgroup.subtree_control');
  if (existsSync(control)) writeFileSync(control, '+pids');
}

function tryToRemove(folder: string): boolean {
  try {
    rmdirSync(folder);
    return true;
  } catch {
    return false;
  }
}
