import type { Step } from './steps.ts';

/**
 * Test files that run in the virtual machine, because what they show depends on the kind of control groups. The most
 * telling ones are first.
 */
export const TESTS_ON_V2 = [
  'packages/host/hostd/src/cgroups/divided-group.test.ts',
  'packages/host/hostd/src/launch/confinement.runtime.test.ts',
  'packages/host/hostd/src/launch/processor-and-swap.runtime.test.ts',
  'packages/host/hostd/src/launch/launcher.runtime.test.ts',
  'packages/host/hostd/src/network/sandbox-network.runtime.test.ts',
  'packages/host/hostd/src/host/killed-hostd.runtime.test.ts',
  'packages/guest/agent/src/memory/memory.runtime.test.ts',
  'packages/host/hostd/src/metering/instance-meter.runtime.test.ts',
  'packages/host/hostd/src/host/confined-hostd.runtime.test.ts',
  'packages/host/hostd/src/host/hostd.runtime.test.ts',
] as const;

/** Steps that run test files of this checkout, which start a hostd of their own. */
export const TESTS: readonly Step[] = [
  {
    title: 'the services stop, and the machine gets swap',
    minutes: 5,
    script: `
      systemctl stop cloche.target
      fallocate --length 512M /swap
      chmod 600 /swap
      mkswap --quiet /swap
      swapon /swap`,
  },
  ...TESTS_ON_V2.map((file) => ({
    title: `test ${file}`,
    minutes: 20,
    // What one file has compiled is there for the next.
    script: `
      cd /content/checkout
      export CLOCHE_TEST_SLOWNESS="$slowness" NODE_COMPILE_CACHE=/content/compiled
      node_modules/.bin/node --test ${file}`,
  })),
];
