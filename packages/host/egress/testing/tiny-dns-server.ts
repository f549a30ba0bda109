import { createSocket, type Socket } from 'node:dgram';
import { once } from 'node:events';
import { createServer, type Server } from 'node:net';
import { decode, encode, streamEncode } from 'dns-packet';
import { listening, portOf, SERVER_ADDRESS } from './test-servers.ts';

/** A resolver on the loopback. It answers all queries with the addresses of the name, or none while it is silent. */
export class TinyDnsServer implements AsyncDisposable {
  readonly asked: string[] = [];
  /** Addresses of names that have others than the default. A function can return a new address for each query. */
  readonly addresses = new Map<string, () => readonly string[]>();
  readonly #datagrams: Socket;
  readonly #server: Server;
  isSilent = false;

  private constructor(datagrams: Socket, server: Server) {
    this.#datagrams = datagrams;
    this.#server = server;
    datagrams.on('message', (query, from) => {
      if (!this.isSilent) datagrams.send(encode(this.#answer(query)), from.port, from.address);
      else this.asked.push('');
    });
    server.on('connection', (socket) => {
      socket.on('data', (query: Buffer) => {
        if (!this.isSilent) socket.write(streamEncode(this.#answer(query.subarray(2))));
      });
    });
  }

  static async open(): Promise<TinyDnsServer> {
    const server = await listening(createServer());
    const datagrams = createSocket('udp4');
    datagrams.bind(portOf(server), SERVER_ADDRESS);
    await once(datagrams, 'listening');
    return new TinyDnsServer(datagrams, server);
  }

  get port(): number {
    return this.#datagrams.address().port;
  }

  #answer(query: Buffer) {
    const { id = 0, questions = [] } = decode(query);
    const name = questions[0]?.name ?? '';
    this.asked.push(name);
    const addresses = this.addresses.get(name)?.() ?? ['203.0.113.7'];
    return {
      type: 'response' as const,
      id,
      questions,
      answers: addresses.map((data) => ({ type: 'A' as const, name, ttl: 60, data })),
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#datagrams.close();
    this.#server.close();
  }
}
