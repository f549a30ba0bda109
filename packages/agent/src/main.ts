import { TERMINAL_PROTOCOL } from '@cloche/protocol';
import { createAgentServer } from './agent-server.ts';
import { CommandRegistry } from './commands/command-registry.ts';
import { readConfig } from './config.ts';
import { ContextRegistry } from './context-registry.ts';
import { DialOut } from './dial-out.ts';
import { FileRequests } from './files/file-requests.ts';
import { ForkedKernels } from './forked-kernels.ts';
import { KernelSupply } from './kernel-supply.ts';
import { guardMemory } from './memory.ts';
import { rehearse } from './rehearsal.ts';
import { TerminalRegistry } from './terminals/terminal-registry.ts';

const config = readConfig(process.env);
const isOver = new AbortController();
if (config.guardedMemoryBytes !== undefined) guardMemory(config.guardedMemoryBytes, config, isOver.signal);
const forkedKernels = new ForkedKernels(config.kernelsFolder ?? '');
if (config.kernelsFolder !== undefined) forkedKernels.listen();
const supply = new KernelSupply(config, forkedKernels);
supply.onWaiting = (kernel) => rehearse(kernel, config);
const contexts = new ContextRegistry(config, supply);
const commands = new CommandRegistry(config, () => contexts.environment);
const terminals = new TerminalRegistry(config, () => contexts.environment);
const server = createAgentServer(contexts, commands, new FileRequests(config), {
  [TERMINAL_PROTOCOL]: terminals.join,
});
const dialOut = 'dial' in config.listen ? new DialOut(server, config.listen.dial) : undefined;
if (dialOut) dialOut.start();
else server.listen(config.listen);

async function shutDown(): Promise<void> {
  isOver.abort();
  dialOut?.stop();
  server.close();
  forkedKernels.close();
  await Promise.all([contexts.closeAll(), commands.killAll(), terminals.killAll()]);
  process.exit(0);
}
process.once('SIGTERM', shutDown);
process.once('SIGINT', shutDown);
