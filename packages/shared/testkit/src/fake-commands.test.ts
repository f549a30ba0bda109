import { describeAgentCommands } from './agent-commands-suite.ts';
import { FakeCommands } from './fake-commands.ts';

describeAgentCommands('a fake agent', async () => ({
  commands: new FakeCommands(() => undefined),
  shell: ['toy'],
  programs: {
    print: (text) => `print ${text}`,
    warn: (text) => `warn ${text}`,
    exit: (code) => `exit ${code}`,
    echoLine: 'read',
    env: (name) => `env ${name}`,
    hang: 'hang',
  },
  close: async () => undefined,
}));
