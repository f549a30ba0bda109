import { describeAgentCommands } from '@cloche/testkit';
import { agentInSandbox } from '../../../testing/agent-in-sandbox.ts';

describeAgentCommands('an agent in a sandbox', async () => {
  const { agent, close } = await agentInSandbox();
  return {
    commands: agent.commands,
    shell: ['sh', '-c'],
    programs: {
      print: (text) => `echo ${text}`,
      warn: (text) => `echo ${text} >&2`,
      exit: (code) => `exit ${code}`,
      echoLine: 'read -r line; echo "$line"',
      env: (name) => `printenv ${name}`,
      hang: 'sleep infinity',
    },
    close,
  };
});
