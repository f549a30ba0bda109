import { Deadline } from '@cloche/node-support';
import type { Instances } from '@cloche/runtime';
import type { Logger } from 'pino';
import { toLaunchSpec } from '../../sandbox-records/sandbox.ts';
import type { SandboxSettings } from '../../sandbox-records/sandbox-settings.ts';
import { checkCreation, resourcesOfVersion } from '../../sandboxes/lifecycle/create-request.ts';
import type { CustomVersionRecord } from '../../template-catalogue/custom/custom-template.ts';

/** Longest wait for an instance of a new version. It exceeds the wait of the host. */
const EXPECT_MS = 90_000;

export interface ExpectLaunchesDeps {
  readonly driver: Pick<Instances, 'expectLaunch'>;
  readonly settings: SandboxSettings;
  readonly log: Logger;
}

/**
 * Announces a new version to the host, so that an instance of it waits for the first sandbox when its build succeeds. It
 * is launched for a creation without options. A failure is logged: the first sandbox then takes longer.
 */
export async function expectLaunches(
  { driver, settings, log }: ExpectLaunchesDeps,
  { id, orgId, resources }: CustomVersionRecord,
  signal: AbortSignal,
): Promise<void> {
  const { networkPolicy } = checkCreation({}, settings);
  const ofSandbox = {
    templateVersionId: id,
    networkPolicy,
    resources: resourcesOfVersion(resources ?? {}, {}, settings),
  };
  try {
    using limit = new Deadline(EXPECT_MS, signal);
    await driver.expectLaunch?.(toLaunchSpec(ofSandbox), orgId, limit.signal);
  } catch (err) {
    if (!signal.aborted) log.warn({ err, templateVersionId: id }, 'no instance of a new version is launched ahead');
  }
}
