import type { IncomingMessage, ServerResponse } from 'node:http';
import type { LeavingConnection } from '@cloche/node-support';
import type { Logger } from 'pino';
import { Counter, Gauge, type Registry } from 'prom-client';
import type { Clock } from '../../../platform/base/clock.ts';
import type { IdSource } from '../../../platform/base/id-source.ts';
import type { HostRouter } from '../../../platform/http/host-router.ts';
import { REQUEST_ID_HEADER, requestIdOf } from '../../../platform/http/request-id.ts';
import { liftTimeLimit } from '../../../platform/http/uploads.ts';
import type { Executions } from '../../sandbox-records/executions.ts';
import type { PreviewHosts } from '../preview-hosts.ts';
import type { PreviewRepository } from '../preview-repository.ts';
import type { Served } from '../public-ports.ts';
import { sendErrorPage } from './error-page.ts';
import type { ExchangeRegistry } from './exchange-registry.ts';
import { requestFields } from './fields.ts';
import { deliver, type Forwarding, forward, forwardUpgrade, join } from './forward.ts';
import { enter, tokenCookieName } from './gate.ts';
import { PreviewError } from './preview-error.ts';
import type { ReachPort } from './reach-port.ts';

/** After an early response, how long the client may continue to send its body. */
const REST_MS = 5_000;

export interface PreviewRouterDeps {
  readonly hosts: PreviewHosts;
  readonly previews: PreviewRepository;
  readonly exchanges: ExchangeRegistry;
  readonly reachPort: ReachPort;
  readonly executions: Executions;
  /** Whether the load balancer of this host appends the client's address to `X-Forwarded-For`. */
  readonly isBalanced: boolean;
  /** Whether an Authorization header is an API key of this service. */
  readonly isApiKey: (authorization: string) => Promise<boolean>;
  readonly clock: Clock;
  readonly ids: IdSource;
  readonly metrics: Registry;
  readonly log: Logger;
}

/** How a gateway serves a port: another preview than that of the host, or another status for a paused sandbox. */
export interface Serving {
  readonly served?: Served | undefined;
  /** Status of the answer while the sandbox is paused and the request does not wake it. Default: that of previews. */
  readonly pausedStatus?: number;
}

interface Asked extends Serving {
  readonly request: IncomingMessage;
  readonly response: ServerResponse;
}

/** Serves the hosts of previews. Their requests never reach the API. */
export class PreviewRouter implements HostRouter {
  readonly #deps: PreviewRouterDeps;
  readonly #outcomes: Counter<'outcome'>;

  constructor(deps: PreviewRouterDeps) {
    this.#deps = deps;
    const registers = [deps.metrics];
    this.#outcomes = new Counter({
      name: 'cloche_preview_requests_total',
      help: 'Requests to previews, by outcome: forwarded, or the error code.',
      labelNames: ['outcome'],
      registers,
    });
    new Gauge({
      name: 'cloche_preview_connections',
      help: 'Open requests and WebSockets of previews.',
      registers,
      collect() {
        this.set(deps.exchanges.size);
      },
    });
  }

  matches({ headers }: IncomingMessage): boolean {
    return this.#deps.hosts.idOf(headers.host) !== undefined;
  }

  handle(request: IncomingMessage, response: ServerResponse, serving: Serving = {}): Promise<void> {
    response.on('error', () => undefined);
    return this.#answer({ request, response, ...serving }, async (forwarding) => forward(forwarding, response));
  }

  upgrade(connection: LeavingConnection, serving: Serving = {}): Promise<void> {
    const { request } = connection;
    const response = connection.respond();
    return this.#answer({ request, response, ...serving }, async (forwarding) => {
      const answer = await forwardUpgrade(forwarding);
      if (answer.kind === 'answered') return deliver(answer.answer, response, forwarding);
      const socket = connection.take();
      if (!socket) return;
      try {
        socket.write(answer.head);
        await join(socket, answer.stream, forwarding.exchange);
      } finally {
        socket.destroy();
      }
    });
  }

  /** Never rejects: an error is answered or closes the connection. */
  async #answer(asked: Asked, pass: (forwarding: Forwarding) => Promise<void>): Promise<void> {
    const { request } = asked;
    try {
      this.#outcomes.inc({ outcome: await this.#forward(asked, pass) });
    } catch (error) {
      this.#answerError(error, asked);
      if (!request.complete) drainBody(request);
    }
  }

  /** Answers with the error. Never throws. */
  #answerError(error: unknown, { request, response, pausedStatus }: Asked): void {
    const { ids, log } = this.#deps;
    const requestId = requestIdOf(request.headers[REQUEST_ID_HEADER], ids);
    const problem = error instanceof PreviewError ? error : failed(error);
    this.#outcomes.inc({ outcome: problem.code });
    if (problem !== error) log.error({ err: error, requestId }, 'a preview failed');
    try {
      if (response.headersSent || response.destroyed) response.destroy();
      else sendErrorPage(problem, { request, response, requestId, pausedStatus });
    } catch (fault) {
      log.error({ err: fault, requestId }, 'the error of a preview could not be sent');
      response.destroy();
    }
  }

  async #forward(
    { request, response, served }: Asked,
    pass: (forwarding: Forwarding) => Promise<void>,
  ): Promise<'passed' | 'redirected'> {
    const { hosts, exchanges, reachPort, executions } = this.#deps;
    const { host = '' } = request.headers;
    const preview = served ?? (await this.#find(host));
    const entry = enter(request, preview, host, hosts.isSecure);
    if (entry.kind === 'redirect') {
      redirect(response, hosts.urlOf(preview.id) + entry.target, entry.setCookie);
      return 'redirected';
    }
    using exchange = exchanges.begin(preview, () => executions.touch(preview.sandboxId));
    using _ = liftTimeLimit(request);
    const leave = () => exchange.end(new PreviewError('preview_unavailable', 'The client has disconnected.'));
    response.once('close', leave);
    const tunnel = await reachPort.connect(preview, exchange.signal).finally(() => response.off('close', leave));
    tunnel.on('error', () => tunnel.destroy());
    try {
      const isPrivate = preview.tokenHash !== undefined;
      await pass({ ...(await this.#forwardingOf(request)), target: entry.target, tunnel, exchange, isPrivate });
    } finally {
      tunnel.destroy();
    }
    return 'passed';
  }

  async #find(host: string): Promise<Served> {
    const { hosts, previews, clock } = this.#deps;
    const id = hosts.idOf(host);
    const preview = id && (await previews.findOpen(id, clock.now()));
    if (preview) return preview;
    throw new PreviewError('preview_not_found', 'The preview does not exist, has expired or was deleted.');
  }

  async #forwardingOf(request: IncomingMessage): Promise<Pick<Forwarding, 'request' | 'fields' | 'tokenCookie'>> {
    const { hosts, isApiKey } = this.#deps;
    const { authorization, host = '' } = request.headers;
    const tokenCookie = tokenCookieName(hosts.isSecure);
    const fields = requestFields({
      raw: request.rawHeaders,
      host,
      protocol: hosts.isSecure ? 'https' : 'http',
      clientAddress: this.#deps.isBalanced ? undefined : (request.socket.remoteAddress ?? 'unknown'),
      tokenCookie,
      dropsAuthorization: authorization !== undefined && (await isApiKey(authorization)),
    });
    return { request, fields, tokenCookie };
  }
}

/** Redirects so that the URL with the token is neither displayed nor sent as a referrer. */
function redirect(response: ServerResponse, location: string, setCookie: string): void {
  response.writeHead(302, {
    location,
    'set-cookie': setCookie,
    'cache-control': 'no-store',
    'referrer-policy': 'no-referrer',
    'content-length': 0,
  });
  response.end();
}

/** Reads the rest of the body: closing the connection while the client still writes could lose the response. */
function drainBody(request: IncomingMessage): void {
  request.on('error', () => undefined).resume();
  const timer = setTimeout(() => request.destroy(), REST_MS);
  request.once('close', () => clearTimeout(timer));
}

function failed(cause: unknown): PreviewError {
  return new PreviewError('preview_unavailable', 'The service could not forward the request; try again.', { cause });
}
