/** Runs hostd unchanged, except that the first process of its sandboxes is an agent that lies. */
import { readFileSync } from 'node:fs';
import { AGENT_PROTOCOL_VERSION } from '@cloche/protocol';

const program = new URL('../../../packages/host/hostd/testing/hostd-with-command.ts', import.meta.url);
const agent = readFileSync(new URL('./lying-agent.ts', import.meta.url), 'utf8');
const node = [
  '/opt/cloche/bin/node',
  '--input-type=module-typescript',
  '--eval',
  agent,
  String(AGENT_PROTOCOL_VERSION),
];
process.argv = [process.execPath, program.pathname, ...node];
await import(program.href);
