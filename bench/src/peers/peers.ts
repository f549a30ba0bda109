import { DockerPeer } from './docker.ts';
import { FastifyPeer } from './fastify.ts';
import { JupyterPeer } from './jupyter.ts';
import { KernelGatewayPeer } from './kernel-gateway.ts';

/**
 * Programs that Cloche is compared with. Each is installed and started by the first call for it. A peer that cannot be
 * started is undefined, and the report says so.
 */
export class Peers {
  /** Versions of the peers that were started, for the report. */
  readonly versions: Record<string, string> = {};
  readonly #started = new Map<string, Promise<AsyncDisposable | undefined>>();
  readonly #say: (line: string) => void;

  constructor(say: (line: string) => void) {
    this.#say = say;
  }

  docker(): Promise<DockerPeer | undefined> {
    return this.#once('docker', async () => {
      const docker = await DockerPeer.start(this.#say);
      this.versions.docker = docker.version;
      return docker;
    });
  }

  fastify(): Promise<FastifyPeer | undefined> {
    return this.#once('fastify', () => FastifyPeer.start());
  }

  jupyter(): Promise<JupyterPeer | undefined> {
    return this.#once('jupyter', async () => {
      const jupyter = await JupyterPeer.start(this.#say);
      this.versions.jupyter = jupyter.version;
      return jupyter;
    });
  }

  kernelGateway(): Promise<KernelGatewayPeer | undefined> {
    return this.#once('kernel gateway', () => KernelGatewayPeer.start(this.#say));
  }

  async close(): Promise<void> {
    const started = [...this.#started.values()];
    this.#started.clear();
    for (const peer of started) await peer.then((one) => one?.[Symbol.asyncDispose]()).catch(() => {});
  }

  #once<P extends AsyncDisposable>(name: string, start: () => Promise<P>): Promise<P | undefined> {
    const running = this.#started.get(name) ?? start().catch((error: unknown) => this.#leaveOut(name, error));
    this.#started.set(name, running);
    // Only the call with the same name stores an entry, so the entry has the type of this peer.
    return running as Promise<P | undefined>;
  }

  #leaveOut(name: string, error: unknown): undefined {
    const reason = error instanceof Error ? error.message.split('\n')[0] : String(error);
    this.#say(`${name} could not be started: ${reason}`);
    this.versions[name] = `could not be started: ${reason}`;
  }
}
