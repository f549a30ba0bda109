/** A service that a test file has for itself, but that other files have had before it. */
import { once } from 'node:events';
import { connect } from 'node:net';
import { createInterface } from 'node:readline';
import type { ProcessName } from '@cloche/setup';
import { type LentService, serviceOfAnOrg, testService } from './service.ts';
import type { Whereabouts } from './service-access.ts';

/** Environment variable of test files whose stage lends services: the path of the lender's socket. */
export const LENDER = 'E2E_LENDER';

/** A request of a test file to the lender: one line of JSON. */
export type Request =
  | { readonly verb: 'borrow'; readonly settings: string }
  | { readonly verb: 'give back'; readonly settings: string }
  | { readonly verb: 'kill' | 'restart'; readonly part: ProcessName };

/** The answer to each request. `place` and `servers` answer `borrow`. */
export interface Answer {
  readonly pids: Readonly<Partial<Record<ProcessName, number>>>;
  readonly place?: Whereabouts;
  readonly servers?: number;
  readonly error?: string;
}

/**
 * Returns a service that no other file uses meanwhile, so a test may kill its processes; each must run again when the
 * file closes it. The file has an organization of its own. Starts a service where none is lent, as when a file is run
 * alone.
 */
export async function lentService(env: Record<string, string> = {}): Promise<LentService> {
  const path = process.env[LENDER];
  if (path === undefined) return testService(env);
  const socket = connect(path);
  await once(socket, 'connect');
  const lines = createInterface({ input: socket })[Symbol.asyncIterator]();
  let pids: Answer['pids'] = {};
  let last: Promise<unknown> = Promise.resolve();
  const ask = (request: Request): Promise<Answer> => {
    const answer = last.then(async () => {
      socket.write(`${JSON.stringify(request)}\n`);
      const { value, done } = await lines.next();
      if (done) throw new Error('the process that lends services has ended');
      const answer: Answer = JSON.parse(value);
      if (answer.error !== undefined) throw new Error(answer.error);
      pids = answer.pids;
      return answer;
    });
    last = answer.catch(() => undefined);
    return answer;
  };
  const settings = JSON.stringify(env);
  const { place, servers = 1 } = await ask({ verb: 'borrow', settings });
  if (!place) throw new Error('the lender has given nothing');
  const service = await serviceOfAnOrg(place, (part) => pids[part === 'server' && servers > 1 ? 'server-1' : part]);
  const giveBack = async () => {
    await service.close();
    await ask({ verb: 'give back', settings });
    socket.destroy();
  };
  let closed: Promise<void> | undefined;
  return {
    ...service,
    servers,
    kill: async (part) => void (await ask({ verb: 'kill', part })),
    restart: async (part) => void (await ask({ verb: 'restart', part })),
    signal: (part, signal) => void process.kill(service.pid(part), signal),
    close() {
      closed ??= giveBack();
      return closed;
    },
  };
}
