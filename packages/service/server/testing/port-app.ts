/** A program that listens at a port of a sandbox with a fake runtime. */
import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';

const SWITCHING = 'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n';

/** Answers each request with `the app`, and each upgrade with the end of the connection. */
export class PortApp {
  /** Headers of the last request. */
  seen: IncomingHttpHeaders = {};
  readonly #server: Server;

  private constructor() {
    this.#server = createServer(({ headers }, response) => {
      this.seen = headers;
      response.end('the app');
    });
    this.#server.on('upgrade', (_, socket) => socket.end(SWITCHING));
  }

  static async open(): Promise<PortApp> {
    const app = new PortApp();
    await once(app.#server.listen(0, '127.0.0.1'), 'listening');
    return app;
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port;
  }

  close(): void {
    this.#server.close();
  }
}
