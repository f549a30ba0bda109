import { describeAgentFiles } from '@cloche/testkit';
import { agentInSandbox } from './agent-in-sandbox.fixture.ts';

describeAgentFiles('an agent in a sandbox', async () => {
  const { agent, close } = await agentInSandbox();
  return { files: agent.files, close };
});
