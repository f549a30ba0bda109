import { reportFailure } from '@cloche/node-support';
import { TERMINAL_PROTOCOL } from '@cloche/protocol';
import { Gate } from './base/gate.ts';
import { CommandRegistry } from './commands/command-registry.ts';
import { Supervisors } from './commands/supervisors.ts';
import { readConfig } from './config.ts';
import { ContextRegistry } from './contexts/context-registry.ts';
import { createAgentServer } from './http/agent-server.ts';
import { DialOut } from './http/dial-out.ts';
import { FileRequests } from './http/file-requests.ts';
import { guardMemory } from './memory/memory.ts';
import { KernelsGroup } from './processes/kernels-group.ts';
import { KernelArrivals } from './provisioning/kernel-arrivals.ts';
import { SandboxProvisioner } from './provisioning/sandbox-provisioner.ts';
import { SudoServer } from './sudo/sudo-server.ts';
import { TerminalRegistry } from './terminals/terminal-registry.ts';
import { warmUp, warmUpCommandOnceIdle } from './warm-up/warm-up.ts';

const config = readConfig(process.env);
const isOver = new AbortController();
const arrivals = new KernelArrivals(config.kernelsFolder ?? '');
if (config.kernelsFolder !== undefined) arrivals.listen(config.hasOwnZygote ? config : undefined);
const group = new KernelsGroup(config.kernelsGroupFds);
const kernels = new SandboxProvisioner(config, arrivals, group);
if (config.guardedMemoryBytes !== undefined) {
  guardMemory(config.guardedMemoryBytes, config, () => kernels.release(), isOver.signal);
}
const contexts = new ContextRegistry(config, kernels);
const supervisors = new Supervisors(config, group);
kernels.onWaiting = (kernel, isWaiting) => warmUp({ config, supervisors, kernel, isWaiting });
const gate = new Gate();
const commands = new CommandRegistry(config, () => contexts.environment, supervisors, gate);
const terminals = new TerminalRegistry(config, () => contexts.environment, supervisors, gate);
const sudo = new SudoServer(config, supervisors);
const server = createAgentServer(
  { contexts, kernels, commands, terminals, sudo, gate, files: new FileRequests(config) },
  {
    [TERMINAL_PROTOCOL]: terminals.join,
  },
);
warmUpCommandOnceIdle(server, () => kernels.hasSpare('python'), { config, supervisors });
const dialOut = 'dial' in config.listen ? new DialOut(server, config.listen.dial) : undefined;
if (dialOut) dialOut.start();
else server.listen(config.listen);

async function shutDown(): Promise<void> {
  isOver.abort();
  dialOut?.stop();
  server.close();
  arrivals.close();
  sudo.close();
  supervisors.close();
  await Promise.all([contexts.closeAll(), commands.killAll(), terminals.killAll()]);
  process.exit(0);
}
// Does nothing, so that the signal neither ends the agent nor opens its debugger.
process.on('SIGUSR1', () => undefined);
for (const signal of ['SIGTERM', 'SIGINT'] as const) {
  process.once(signal, () => {
    shutDown().catch((error: unknown) => {
      reportFailure(error);
      process.exit(1);
    });
  });
}
