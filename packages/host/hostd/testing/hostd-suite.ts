import assert from 'node:assert/strict';
import { after, afterEach, before } from 'node:test';
import { FakeEgress } from './fake-egress.ts';
import { HostdProcess } from './hostd-process.ts';
import type { TestInstallation } from './installation.ts';
import { hostLeftovers } from './leftovers.ts';

/** A time after every version was made: a removal with it removes the version. */
export const EVER = 10 ** 15 - 1;

/** Parts that the tests of a suite share. A test that kills hostd puts the next one in its place. */
export interface HostdSuite {
  installation: TestInstallation;
  hostd: HostdProcess;
  egress: FakeEgress;
}

/**
 * Starts hostd and a fake egress before the tests of a suite. Stops the instances after each test, and asserts after
 * the last one that nothing is left on the host.
 *
 * @param command runs in each instance in place of the agent
 * @returns the parts, which are there once the first test begins
 */
export function hostdSuite(makeInstallation: () => TestInstallation, command: string[]): HostdSuite {
  const suite = {} as HostdSuite;
  before(async () => {
    suite.installation = makeInstallation();
    suite.hostd = await HostdProcess.start(suite.installation, command);
    suite.egress = new FakeEgress(suite.installation.config);
    await suite.egress.start();
  });
  afterEach(async () => {
    for (const { sandboxId } of await suite.hostd.list()) await suite.hostd.stop(sandboxId);
  });
  after(async () => {
    await suite.hostd.close();
    await suite.egress.stop();
    assert.deepEqual(hostLeftovers(suite.installation.config), []);
    suite.installation[Symbol.dispose]();
  });
  return suite;
}
