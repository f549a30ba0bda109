/**
 * Lends services to test files, one file after another, because most files take less processor time than the start of
 * a service. Runs in the process that starts the files.
 */
import { once } from 'node:events';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer, type Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { type Answer, LENDER, type Request } from './lent-service.ts';
import { type OwnService, processNames, testService } from './service.ts';

/** Offers services to test files that start from now on. */
export async function openLender(): Promise<AsyncDisposable> {
  const folder = mkdtempSync(join(tmpdir(), 'cloche-lender-'));
  /** Services that no file has now, by their settings. */
  const free = new Map<string, OwnService[]>();
  const loans = new Set<Promise<void>>();
  const server = createServer((socket) => {
    const loan = lend(socket, free).catch((error) => void socket.destroy(error));
    loans.add(loan.then(() => void loans.delete(loan)));
  });
  server.listen(join(folder, 'socket'));
  await once(server, 'listening');
  process.env[LENDER] = join(folder, 'socket');
  return {
    async [Symbol.asyncDispose]() {
      delete process.env[LENDER];
      server.close();
      await Promise.all(loans);
      await Promise.all([...free.values()].flat().map((service) => service.close()));
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** Serves one file. A service that the file does not give back, or not as it was, is closed. */
async function lend(socket: Socket, free: Map<string, OwnService[]>): Promise<void> {
  socket.on('error', () => undefined);
  const say = (answer: Answer) => socket.write(`${JSON.stringify(answer)}\n`);
  let service: OwnService | undefined;
  let isGivenBack = false;
  try {
    for await (const line of createInterface({ input: socket })) {
      const request: Request = JSON.parse(line);
      try {
        if (request.verb === 'borrow') {
          const others = free.get(request.settings) ?? [];
          service = others.pop() ?? (await testService(JSON.parse(request.settings)));
          free.set(request.settings, others);
          const { url, apiKey, installationId, runDir, dataDir, servers } = service;
          say({ place: { url, apiKey, installationId, runDir, dataDir }, servers, pids: pidsOf(service) });
        } else if (!service) throw new Error('nothing was borrowed');
        else if (request.verb === 'give back') {
          isGivenBack = processNames(service.servers).every((name) => name in pidsOf(service as OwnService));
          if (isGivenBack) free.get(request.settings)?.push(service);
          say({ pids: {} });
        } else {
          await service[request.verb](request.part);
          say({ pids: pidsOf(service) });
        }
      } catch (error) {
        say({ error: String(error), pids: {} });
      }
    }
  } finally {
    if (!isGivenBack) await service?.close();
    socket.end();
  }
}

function pidsOf(service: OwnService): Answer['pids'] {
  return Object.fromEntries(
    processNames(service.servers).flatMap((name) => {
      try {
        return [[name, service.pid(name)]];
      } catch {
        return [];
      }
    }),
  );
}
