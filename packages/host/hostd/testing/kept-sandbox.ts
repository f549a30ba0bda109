import assert from 'node:assert/strict';
import { globSync } from 'node:fs';
import type { LaunchSpec } from '@cloche/protocol';
import type { HostdConfig } from '../src/host/config.ts';
import type { Answer, HostdProcess } from './hostd-process.ts';
import { runInside } from './inside.ts';
import { makeSpec, type SpecChanges, type TestInstallation } from './installation.ts';

/** Calls of a hostd for one sandbox, and what is inside of it. */
export function sandboxOf(installation: TestInstallation, sandboxId = 'sbx_a') {
  const { config } = installation;
  return {
    id: sandboxId,
    async launch(hostd: HostdProcess, generation: number, from?: number, changes: SpecChanges = {}) {
      const spec = await makeSpec(config, changes);
      const body: LaunchSpec =
        from === undefined ? spec : { ...spec, source: { ...spec.source, kind: 'parked', generation: from } };
      return hostd.call('PUT', `/instances/${sandboxId}/${generation}`, body);
    },
    async inside(script: string): Promise<string> {
      const { exitCode, stdout, stderr } = await runInside(config, sandboxId, script);
      assert.equal(exitCode, 0, stdout + stderr);
      return stdout;
    },
    park: (hostd: HostdProcess, generation: number) => hostd.call('POST', `/instances/${sandboxId}/${generation}/park`),
    keep: (hostd: HostdProcess, generation: number) => hostd.call('POST', `/instances/${sandboxId}/${generation}/keep`),
    remove: (hostd: HostdProcess, generation: number) => hostd.call('DELETE', `/parked/${sandboxId}/${generation}`),
    stop: (hostd: HostdProcess, generation: number) =>
      hostd.call('DELETE', `/instances/${sandboxId}/${generation}?until=gone`),
  };
}

/** Returns the disks that a hostd keeps. */
export const parkedOf = async (hostd: HostdProcess) => (await hostd.call('GET', '/parked')).body.disks;

export function ok({ status, body }: { status: number; body: unknown }): void {
  assert.equal(status, 200, JSON.stringify(body));
}

export function refusedBy({ status, body }: Answer, expected: number, code: string): void {
  assert.deepEqual([status, body.error?.code], [expected, code], JSON.stringify(body));
}

/** Returns the files of disks of the installation, kept or not. */
export function keptFiles({ hostdDir }: HostdConfig): string[] {
  return globSync('{disks,parked}/*', { cwd: hostdDir });
}
