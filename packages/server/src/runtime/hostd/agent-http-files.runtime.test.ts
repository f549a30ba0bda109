import { describeAgentFiles } from '@cloche/testkit';
import { openHostd } from './hostd.fixture.ts';

describeAgentFiles('an agent in a sandbox', async () => {
  const hostd = await openHostd();
  const { driver } = hostd;
  const patience = AbortSignal.timeout(60_000);
  const [version] = await driver.templateVersions();
  if (!version) throw new Error('there is no template');
  const { instance } = await driver.launch(
    'sbx_files',
    1,
    {
      templateVersionId: version.id,
      resources: { cpu: 1, memoryBytes: 2 ** 29, diskBytes: 2 ** 28, pids: 128 },
      network: { mode: 'deny-all' },
    },
    patience,
  );
  const agent = await driver.connect(instance, patience);
  return {
    files: agent.files,
    async close() {
      await agent.close();
      await driver.stop('sbx_files', 1);
      await hostd.close();
    },
  };
});
