import { describeAgentFiles } from './agent-files-suite.ts';
import { FakeFiles } from './fake-files.ts';

describeAgentFiles('a fake agent', async () => ({
  files: new FakeFiles(() => undefined),
  close: async () => undefined,
}));
