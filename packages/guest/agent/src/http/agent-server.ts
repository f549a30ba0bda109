import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { IdleGarbageCollection, readRest } from '@cloche/node-support';
import {
  AGENT_PROTOCOL_VERSION,
  HEAD_PAUSING,
  PORT_TUNNEL_PROTOCOL,
  RUNS_UPGRADE,
  TIMED_HEADER,
} from '@cloche/protocol';
import { AgentError, StillRunning } from '../base/agent-error.ts';
import type { Gate } from '../base/gate.ts';
import type { CommandRegistry } from '../commands/command-registry.ts';
import { routeCommand } from '../commands/command-routes.ts';
import type { ContextRegistry } from '../contexts/context-registry.ts';
import { serveRuns } from '../contexts/run-connection.ts';
import type { SandboxProvisioner } from '../provisioning/sandbox-provisioner.ts';
import type { SudoServer } from '../sudo/sudo-server.ts';
import type { TerminalRegistry } from '../terminals/terminal-registry.ts';
import { answer, timeAnswer } from '../wire/answer.ts';
import { readAnswerMessage, readEnvironment, readJson, readLanguage, readOpenContext } from '../wire/requests.ts';
import { serveUpgrades, type Upgrade } from '../wire/upgrades.ts';
import type { FileRequests } from './file-requests.ts';
import { isEndless, Pauses, passesClosedGate } from './pauses.ts';
import { openPortTunnel } from './port-tunnel.ts';

/** Longest idle time of a connection. Long, because the server keeps its connections until it ends. */
const KEEP_ALIVE_TIMEOUT_MS = 3_600_000;
/** Idle time after which the agent returns unused memory. Short, because a host runs hundreds of sandboxes. */
const IDLE_MS = 10_000;

export interface AgentServerDeps {
  contexts: ContextRegistry;
  kernels: Pick<SandboxProvisioner, 'prepare' | 'warm' | 'giveUpHostKernel'>;
  commands: CommandRegistry;
  terminals: Pick<TerminalRegistry, 'isBusy'>;
  files: FileRequests;
  sudo: Pick<SudoServer, 'permit'>;
  gate: Gate;
  /** Default: ten seconds. */
  idleMs?: number;
}

/** Returns the agent's HTTP server, as `agent-protocol.ts` describes it. It does not listen yet. */
export function createAgentServer(deps: AgentServerDeps, upgrades: Readonly<Record<string, Upgrade>> = {}): Server {
  const { contexts, files, gate } = deps;
  const pauses = new Pauses(deps);
  const options = { keepAliveTimeout: KEEP_ALIVE_TIMEOUT_MS, requestTimeout: 0 };
  // At a thaw the time is over, and the first request would wait for 40 ms of work.
  const activity = new IdleGarbageCollection(deps.idleMs ?? IDLE_MS, () => gate.isClosed);
  const answerRequest = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    if (!passesClosedGate(request)) gate.requireOpen();
    if (isEndless(request)) gate.endAtClosing(response);
    const isOfFiles = files.takes(request);
    pauses.count(request, response, isOfFiles);
    return isOfFiles ? files.answer(request, response) : route({ ...deps, pauses }, request, response);
  };
  const onRequest = (request: IncomingMessage, response: ServerResponse) => {
    activity.touch();
    if (request.headers[TIMED_HEADER] !== undefined) timeAnswer(response);
    answerRequest(request, response)
      .catch((error: unknown) => answerError(response, error))
      // The connection carries the next request only after the rest of a refused body.
      .finally(() => readRest(request));
  };
  // `Expect: 100-continue` is answered by the code that reads the body.
  const server = createServer(options, onRequest).on('checkContinue', onRequest);
  const gated = Object.entries({ ...upgrades, [PORT_TUNNEL_PROTOCOL]: openPortTunnel });
  serveUpgrades(server, {
    ...Object.fromEntries(gated.map(([protocol, upgrade]) => [protocol, endedByGate(upgrade, gate)])),
    [RUNS_UPGRADE]: serveRuns(contexts, activity, gate),
  });
  return server;
}

/** Refuses the upgrade while the gate is closed, and ends the connection when it closes. */
function endedByGate(upgrade: Upgrade, gate: Gate): Upgrade {
  return async (request, socket, head) => {
    gate.requireOpen();
    gate.endAtClosing(socket);
    await upgrade(request, socket, head);
  };
}

async function route(
  { contexts, commands, terminals, kernels, sudo, pauses }: AgentServerDeps & { pauses: Pauses },
  request: IncomingMessage,
  response: ServerResponse,
): Promise<void> {
  const [resource, contextId, action, ...rest] = (request.url ?? '').split('/').slice(1).map(decodeURIComponent);
  const operation = [request.method, resource, contextId && ':id', action, ...rest].filter(Boolean).join(' ');
  const id = contextId ?? '';
  if (resource === 'commands') return routeCommand(commands, { id, action }, request, response);
  switch (operation) {
    case 'GET health':
      return answer(response, 200, { status: 'ready', protocolVersion: AGENT_PROTOCOL_VERSION });
    case 'GET activity':
      return answer(response, 200, { running: contexts.running > 0 || commands.isBusy || terminals.isBusy });
    case 'POST pause':
      return answer(response, 200, await pauses.pause(request));
    case 'POST resume':
      return answer(response, 200, await pauses.resume(request));
    case 'PUT environment':
      contexts.setEnvironment(readEnvironment(await readJson(request)));
      return answer(response, 204);
    case 'PUT sudo':
      sudo.permit();
      return answer(response, 204);
    case 'DELETE expected-kernel':
      kernels.giveUpHostKernel();
      return answer(response, 204);
    case 'PUT spare-kernels :id':
      kernels.prepare(readLanguage(id));
      return answer(response, 204);
    case 'GET spare-kernels :id':
      if (readLanguage(id) === 'python') await kernels.warm();
      return answer(response, 204);
    case 'GET contexts':
      return answer(response, 200, { contexts: contexts.list().map((context) => context.description) });
    case 'PUT contexts :id':
      return answer(response, 200, (await contexts.open(id, readOpenContext(await readJson(request)))).description);
    case 'DELETE contexts :id':
      await contexts.close(id);
      return answer(response, 204);
    case 'POST contexts :id interrupt':
      contexts.get(id).interrupt();
      return answer(response, 204);
    case 'POST contexts :id messages':
      contexts.get(id).answer(readAnswerMessage(await readJson(request)));
      return answer(response, 204);
    case 'POST contexts :id restart':
      await contexts.get(id).restart();
      return answer(response, 204);
    default:
      throw new AgentError('not_found', `The agent has no ${operation}.`);
  }
}

function answerError(response: ServerResponse, error: unknown): void {
  if (response.headersSent) {
    response.destroy();
    return;
  }
  const known = error instanceof AgentError;
  const code = known ? error.code : 'internal';
  const message = error instanceof Error ? error.message : String(error);
  const path = known ? error.path : undefined;
  const running = error instanceof StillRunning ? error.running : undefined;
  const isBodiless = code === 'pausing' && response.req.method === 'HEAD';
  answer(response, isBodiless ? HEAD_PAUSING : known ? error.status : 500, {
    error: { code, message, ...(path !== undefined && { path }), ...(running !== undefined && { running }) },
  });
}
