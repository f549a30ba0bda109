import { DockerPeer } from './docker.ts';
import { FastifyPeer } from './fastify.ts';
import { JupyterPeer } from './jupyter.ts';
import { KernelGatewayPeer } from './kernel-gateway.ts';

/** What Cloche is measured beside, each installed and started when it is first asked for. */
export class Peers {
  /** Of those that were started, for the report. */
  readonly versions: Record<string, string> = {};
  readonly #started = new Map<string, Promise<AsyncDisposable>>();
  readonly #say: (line: string) => void;

  constructor(say: (line: string) => void) {
    this.#say = say;
  }

  docker(): Promise<DockerPeer> {
    return this.#once('docker', async () => {
      const docker = await DockerPeer.start(this.#say);
      this.versions.docker = docker.version;
      return docker;
    });
  }

  fastify(): Promise<FastifyPeer> {
    return this.#once('fastify', () => FastifyPeer.start());
  }

  jupyter(): Promise<JupyterPeer> {
    return this.#once('jupyter', async () => {
      const jupyter = await JupyterPeer.start(this.#say);
      this.versions.jupyter = jupyter.version;
      return jupyter;
    });
  }

  kernelGateway(): Promise<KernelGatewayPeer> {
    return this.#once('gateway', () => KernelGatewayPeer.start(this.#say));
  }

  async close(): Promise<void> {
    const started = [...this.#started.values()];
    this.#started.clear();
    for (const peer of started) await peer.then((one) => one[Symbol.asyncDispose]()).catch(() => {});
  }

  #once<P extends AsyncDisposable>(name: string, start: () => Promise<P>): Promise<P> {
    const running = this.#started.get(name) ?? start();
    this.#started.set(name, running);
    // Only ever put in by the call of the same name.
    return running as Promise<P>;
  }
}
