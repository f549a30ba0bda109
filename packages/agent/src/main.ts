import { TERMINAL_PROTOCOL } from '@cloche/protocol';
import { CommandRegistry } from './commands/command-registry.ts';
import { Supervisors } from './commands/supervisors.ts';
import { readConfig } from './config.ts';
import { ContextRegistry } from './contexts/context-registry.ts';
import { createAgentServer } from './http/agent-server.ts';
import { DialOut } from './http/dial-out.ts';
import { FileRequests } from './http/file-requests.ts';
import { ForkedKernels } from './kernels/forked-kernels.ts';
import { KernelSupply } from './kernels/kernel-supply.ts';
import { guardMemory } from './memory/memory.ts';
import { rehearse, rehearseCommandOnceIdle } from './rehearsal/rehearsal.ts';
import { TerminalRegistry } from './terminals/terminal-registry.ts';

const config = readConfig(process.env);
const isOver = new AbortController();
const forkedKernels = new ForkedKernels(config.kernelsFolder ?? '');
if (config.kernelsFolder !== undefined) forkedKernels.listen(config.hasOwnZygote ? config : undefined);
const supply = new KernelSupply(config, forkedKernels);
if (config.guardedMemoryBytes !== undefined) {
  guardMemory(config.guardedMemoryBytes, config, () => supply.release(), isOver.signal);
}
const contexts = new ContextRegistry(config, supply);
const supervisors = new Supervisors(config);
supply.onWaiting = (kernel, isWaiting) => rehearse({ config, supervisors, kernel, isWaiting });
const commands = new CommandRegistry(config, () => contexts.environment, supervisors);
const terminals = new TerminalRegistry(config, () => contexts.environment, supervisors);
const server = createAgentServer(contexts, commands, new FileRequests(config), {
  [TERMINAL_PROTOCOL]: terminals.join,
});
rehearseCommandOnceIdle(server, () => supply.hasSpare('python'), { config, supervisors });
const dialOut = 'dial' in config.listen ? new DialOut(server, config.listen.dial) : undefined;
if (dialOut) dialOut.start();
else server.listen(config.listen);

async function shutDown(): Promise<void> {
  isOver.abort();
  dialOut?.stop();
  server.close();
  forkedKernels.close();
  supervisors.close();
  await Promise.all([contexts.closeAll(), commands.killAll(), terminals.killAll()]);
  process.exit(0);
}
process.once('SIGTERM', shutDown);
process.once('SIGINT', shutDown);
