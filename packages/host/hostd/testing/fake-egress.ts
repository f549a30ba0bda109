import { execFileSync } from 'node:child_process';
import { createSocket, type Socket as DatagramSocket } from 'node:dgram';
import { once } from 'node:events';
import { mkdirSync, readFileSync, rmSync } from 'node:fs';
import { createServer as createHttpServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { createServer, type Socket, type Server as TcpServer } from 'node:net';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { EGRESS_PORTS, EGRESS_PROTOCOL_VERSION, type GatedSandbox, type GatedSandboxList } from '@cloche/protocol';
import type { HostdConfig } from '../src/host/config.ts';

type Entry = GatedSandboxList['sandboxes'][number];

/**
 * A substitute for egress: it accepts every registration and answers all traffic that is redirected to it, DNS look-ups
 * included, with `egress`, whatever the policy. Tests see where traffic ends, but not how egress would handle it.
 */
export class FakeEgress {
  readonly certificate: string;
  readonly sandboxes = new Map<string, GatedSandbox>();
  /** Called before a policy is accepted; egress refuses the policy with the error that it throws. */
  onPut: (address: string) => void = () => {};
  readonly #config: HostdConfig;
  #servers: (Server | TcpServer)[] = [];
  #dns: DatagramSocket | undefined;
  readonly #sockets = new Set<Socket>();

  constructor(config: HostdConfig) {
    this.#config = config;
    this.certificate = makeAuthority();
  }

  /** Starts to serve, without earlier registrations. */
  async start(): Promise<void> {
    this.sandboxes.clear();
    const { controlDir, controlSocket } = this.#config.egress;
    mkdirSync(controlDir, { recursive: true, mode: 0o700 });
    rmSync(controlSocket, { force: true });
    const { gatewayAddress } = JSON.parse(readFileSync(join(this.#config.run.egressDir, 'network.json'), 'utf8'));
    const control = createHttpServer((request, response) => void this.#answer(request, response));
    const answer = (socket: Socket) => void socket.on('error', () => {}).end('egress\n');
    const [tcp, dns] = [createServer(answer), createServer(answer)];
    this.#servers = [control, tcp, dns];
    for (const server of this.#servers) {
      server.on('connection', (socket: Socket) => this.#sockets.add(socket));
    }
    control.listen(controlSocket);
    tcp.listen(EGRESS_PORTS.tcp, gatewayAddress);
    dns.listen(EGRESS_PORTS.dns, gatewayAddress);
    await Promise.all(this.#servers.map((server) => once(server, 'listening')));
    const datagrams = createSocket('udp4');
    datagrams.on('message', (_message, from) => datagrams.send('egress', from.port, from.address));
    datagrams.bind(EGRESS_PORTS.dns, gatewayAddress);
    await once(datagrams, 'listening');
    this.#dns = datagrams;
  }

  /** Ends as abruptly as a killed egress: all connections are closed. */
  async stop(): Promise<void> {
    this.#dns?.close();
    this.#dns = undefined;
    const closed = this.#servers.splice(0).map(async (server) => {
      const end = once(server, 'close');
      server.close();
      await end;
    });
    for (const socket of this.#sockets) socket.destroy();
    this.#sockets.clear();
    await Promise.all(closed);
  }

  async #answer(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const [, collection = '', address] = (request.url ?? '').split('/');
    const body = await text(request);
    if (collection === 'lifetime') {
      response.writeHead(200).flushHeaders();
    } else if (collection === 'health') {
      const { certificate: authorityCertificate } = this;
      response.end(JSON.stringify({ status: 'ready', protocolVersion: EGRESS_PROTOCOL_VERSION, authorityCertificate }));
    } else {
      this.#change(request.method, address, body, response);
    }
  }

  #change(method: string | undefined, address: string | undefined, body: string, response: ServerResponse): void {
    try {
      if (method === 'DELETE' && address) this.sandboxes.delete(address);
      else if (address) {
        this.onPut(address);
        this.sandboxes.set(address, JSON.parse(body));
      } else {
        this.sandboxes.clear();
        for (const { address: at, ...entry } of JSON.parse(body).sandboxes as Entry[]) this.sandboxes.set(at, entry);
      }
      response.writeHead(204).end();
    } catch (error) {
      response.writeHead(400).end(JSON.stringify({ error: { code: 'bad_request', message: String(error) } }));
    }
  }
}

function makeAuthority(): string {
  const key = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:prime256v1', '-nodes', '-keyout', '/dev/null'];
  const request = ['req', '-x509', ...key, '-subj', '/CN=fake egress', '-days', '2'];
  return execFileSync('openssl', request, { encoding: 'utf8', stdio: ['ignore', 'pipe', 'ignore'] });
}
