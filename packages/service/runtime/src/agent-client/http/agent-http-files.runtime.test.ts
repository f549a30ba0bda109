import { describeAgentFiles } from '@cloche/testkit';
import { agentInSandbox } from '../../../testing/agent-in-sandbox.ts';

describeAgentFiles('an agent in a sandbox', async () => {
  const { agent, close } = await agentInSandbox();
  return { files: agent.files, close };
});
