/** MCP's router on a port of its own, with sessions in memory, before a service that the test scripts. */
import { once } from 'node:events';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { type Script, startScriptedServer } from '@cloche/sdk/testing';
import { Client, type ClientOptions, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { pino } from 'pino';
import { McpRouter } from '../src/mcp-router.ts';
import { ProcessSession } from '../src/sessions/process-session.ts';
import type { McpSessions } from '../src/sessions/session.ts';

/** Options with which a client connects in each revision. */
export const REVISIONS: Readonly<Record<string, ClientOptions>> = {
  '2026-07-28': { versionNegotiation: { mode: 'auto' } },
  '2025-11-25': {},
};

export async function startRouter(script: Script) {
  const service = await startScriptedServer(script);
  const publicUrl = 'https://cloche.example';
  const log = pino({ level: 'silent' });
  const sessions = sessionsInMemory();
  let refusal: { status: number; message: string } | undefined;
  const held = new Set<AbortController>();
  const holdConnection = async () => {
    if (refusal) throw refusal;
    const controller = new AbortController();
    held.add(controller);
    return { signal: controller.signal, [Symbol.dispose]: () => void held.delete(controller) };
  };
  const router = new McpRouter({ apiUrl: () => service.url, publicUrl, version: '1', sessions, holdConnection, log });
  const server = createServer((request, response) => router.handle(request, response));
  await once(server.listen(0, '127.0.0.1'), 'listening');
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`;
  return {
    service,
    url,
    /** Refuses streams from now on; undefined: none. */
    refuse(answer: typeof refusal) {
      refusal = answer;
    },
    /** Aborts all streams, as the revocation of their key does. */
    endKey() {
      for (const controller of held) controller.abort();
    },
    async connect(options: ClientOptions): Promise<Client> {
      const client = new Client({ name: 'test', version: '1' }, options);
      const requestInit = { headers: { authorization: 'Bearer clk_test' } };
      await client.connect(new StreamableHTTPClientTransport(new URL(url), { requestInit }));
      return client;
    },
    async [Symbol.asyncDispose]() {
      await router.close();
      server.closeAllConnections();
      server.close();
      await service[Symbol.asyncDispose]();
    },
  };
}

/** Those of a server are in its database. */
function sessionsInMemory(): McpSessions {
  const open = new Map<string, ProcessSession>();
  return {
    async open() {
      const session = new ProcessSession();
      open.set(session.name, session);
      return session.name;
    },
    find: async (_apiKey, id) => open.get(id),
    async end(_apiKey, id) {
      const session = open.get(id);
      open.delete(id);
      return session && { sandboxId: session.end() };
    },
  };
}
