import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { EGRESS_PORTS } from '@cloche/protocol';

/** Addresses from the documentation ranges: one link for the client, one for the server. */
const CLIENT = { host: '198.51.100.245', theirs: '198.51.100.246' };
const SERVER = { host: '198.51.100.249', theirs: '198.51.100.250' };

/** A client whose traffic the host redirects like a gated sandbox's, and a server. Each has its own namespace. */
export class GatedNetwork implements Disposable {
  readonly gatewayAddress = CLIENT.host;
  readonly clientAddress = CLIENT.theirs;
  readonly clientCidr = '198.51.100.244/30';
  readonly serverAddress = SERVER.theirs;
  /** The host's own address on the server's link. */
  readonly hostAddress = SERVER.host;
  readonly #client = `cec${process.pid}`;
  readonly #server = `ces${process.pid}`;
  readonly #table = `cloche_egress_test_${process.pid}`;

  constructor() {
    try {
      this.#link(this.#client, CLIENT);
      this.#link(this.#server, SERVER);
      execFileSync('nft', ['-f', '-'], { input: this.#rules() });
    } catch (error) {
      this[Symbol.dispose]();
      throw error;
    }
  }

  /** Runs a program at the client and returns its output. Rejects if it fails. */
  async runAtClient(...command: string[]): Promise<string> {
    const child = spawn('ip', ['netns', 'exec', this.#client, ...command], { stdio: ['ignore', 'pipe', 'pipe'] });
    let output = '';
    for (const stream of [child.stdout, child.stderr]) {
      stream.on('data', (chunk) => {
        output += chunk;
      });
    }
    const [code] = await once(child, 'close');
    if (code !== 0) throw new Error(`${command[0]} ended with ${code}: ${output}`);
    return output;
  }

  /** Starts a program at the server, which runs until it is killed. Resolves with its first output. */
  async startAtServer(...command: string[]) {
    const child = spawn('ip', ['netns', 'exec', this.#server, ...command], { stdio: ['ignore', 'pipe', 'inherit'] });
    await once(child.stdout, 'data');
    return child;
  }

  [Symbol.dispose](): void {
    for (const [program, ...args] of [
      ['nft', 'delete', 'table', 'inet', this.#table],
      ['ip', 'netns', 'delete', this.#client],
      ['ip', 'netns', 'delete', this.#server],
      // Deleting the namespace deletes these too, but not at once.
      ['ip', 'link', 'delete', this.#client],
      ['ip', 'link', 'delete', this.#server],
    ] as const) {
      try {
        execFileSync(program, args, { stdio: 'ignore' });
      } catch {
        // It was not created, or is deleted already.
      }
    }
  }

  #link(name: string, { host, theirs }: typeof CLIENT): void {
    const ip = (...args: string[]) => execFileSync('ip', args);
    ip('netns', 'add', name);
    ip('link', 'add', name, 'type', 'veth', 'peer', 'name', 'eth0', 'netns', name);
    ip('addr', 'add', `${host}/30`, 'dev', name);
    ip('link', 'set', name, 'up');
    ip('-n', name, 'addr', 'add', `${theirs}/30`, 'dev', 'eth0');
    for (const link of ['lo', 'eth0']) ip('-n', name, 'link', 'set', link, 'up');
    ip('-n', name, 'route', 'add', 'default', 'via', host);
  }

  #rules(): string {
    const from = `iifname "${this.#client}"`;
    return `table inet ${this.#table} {
      chain to_egress {
        type nat hook prerouting priority dstnat; policy accept;
        ${from} udp dport 53 dnat ip to ${CLIENT.host}:${EGRESS_PORTS.dns}
        ${from} tcp dport 53 dnat ip to ${CLIENT.host}:${EGRESS_PORTS.dns}
        ${from} meta l4proto tcp dnat ip to ${CLIENT.host}:${EGRESS_PORTS.tcp}
      }
    }`;
  }
}
