import type { LaunchSpec } from '@cloche/protocol';
import { describeRuntimeDriver } from '@cloche/testkit';
import { type HostdFixture, openHostd } from './hostd.fixture.ts';

const RESOURCES: LaunchSpec['resources'] = { cpu: 1, memoryBytes: 2 ** 29, diskBytes: 2 ** 28, pids: 128 };

async function versionOf(slug: string, { driver }: HostdFixture): Promise<string> {
  const newest = (await driver.templateVersions())
    .filter((version) => version.slug === slug)
    .reduce((one, other) => (other.builtAt > one.builtAt ? other : one));
  return newest.id;
}

describeRuntimeDriver('hostd with python', async () => {
  const hostd = await openHostd();
  const templateVersionId = await versionOf('python-node', hostd);
  return {
    driver: hostd.driver,
    spec: { templateVersionId, resources: RESOURCES, network: { mode: 'deny-all' } },
    language: 'python',
    programs: {
      print: (text) => `print(${JSON.stringify(text)})`,
      set: (name, value) => `${name} = ${JSON.stringify(value)}`,
      get: (name) => `print(${name})`,
      printAndHang: (text) => `import time\nprint(${JSON.stringify(text)})\nwhile True: time.sleep(1)`,
    },
    close: () => hostd.close(),
  };
});

describeRuntimeDriver('hostd with javascript', async () => {
  const hostd = await openHostd();
  const templateVersionId = await versionOf('node', hostd);
  return {
    driver: hostd.driver,
    spec: { templateVersionId, resources: RESOURCES, network: { mode: 'deny-all' } },
    language: 'javascript',
    programs: {
      print: (text) => `console.log(${JSON.stringify(text)})`,
      set: (name, value) => `const ${name} = ${JSON.stringify(value)}`,
      get: (name) => `console.log(${name})`,
      printAndHang: (text) => `console.log(${JSON.stringify(text)})\nfor (;;) {}`,
    },
    close: () => hostd.close(),
  };
});
