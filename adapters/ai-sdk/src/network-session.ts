import {
  HarnessCapabilityUnsupportedError,
  type HarnessV1NetworkSandboxSession,
  type HarnessV1PortEndpoint,
} from '@ai-sdk/harness';
import { type Preview, previewLink, type Sandbox } from '@cloche/sdk';
import { ClocheSandboxSession, type SandboxSession } from './sandbox-session.ts';

type PortOptions = Parameters<HarnessV1NetworkSandboxSession['getPortEndpoint']>[0];

/**
 * What ends the sandbox. `caller`: neither `stop` nor `destroy`. `session`: both. `resumable-session`: `destroy`,
 * because a stopped session is resumed with its files.
 */
export type Ownership = 'caller' | 'session' | 'resumable-session';

/** A sandbox of a harness session: files and commands, ports, and its end. */
export class ClocheNetworkSession extends ClocheSandboxSession implements HarnessV1NetworkSandboxSession {
  readonly id: string;
  readonly defaultWorkingDirectory = '/workspace';
  readonly #sandbox: Sandbox;
  readonly #ownership: Ownership;
  readonly #previews = new Map<number, Preview>();
  #ports: readonly number[];

  constructor(sandbox: Sandbox, { ports, ownership }: { ports: readonly number[]; ownership: Ownership }) {
    super(sandbox);
    this.id = sandbox.id;
    this.#sandbox = sandbox;
    this.#ports = ports;
    this.#ownership = ownership;
  }

  get ports(): readonly number[] {
    return this.#ports;
  }

  restricted(): SandboxSession {
    return new ClocheSandboxSession(this.#sandbox);
  }

  /** Returns the URL of a private preview, and the header with its token. */
  async getPortEndpoint({ port, protocol }: PortOptions): Promise<HarnessV1PortEndpoint> {
    const { url, accessToken = '' } = await this.#preview(port);
    return { url: withProtocol(url, protocol), headers: { 'x-cloche-preview-token': accessToken } };
  }

  /** Returns a URL that has the token of the preview in its query. */
  async getPortUrl({ port, protocol }: PortOptions): Promise<string> {
    return withProtocol(previewLink(await this.#preview(port)), protocol);
  }

  async setPorts(ports: readonly number[], { abortSignal }: { abortSignal?: AbortSignal } = {}): Promise<void> {
    for (const [port, { id }] of this.#previews) {
      if (ports.includes(port)) continue;
      await this.#sandbox.previews.close(id, { signal: abortSignal });
      this.#previews.delete(port);
    }
    this.#ports = [...ports];
  }

  /** @throws always: without this method, the host would go on as if the policy were in force. */
  async setNetworkPolicy(): Promise<void> {
    throw new HarnessCapabilityUnsupportedError({
      message:
        'The network policy of a sandbox of Cloche cannot be changed. Set it at creation: createClocheSandbox({ create: { networkPolicy } }).',
    });
  }

  /**
   * Ends all commands. The sandbox and its files stay until its lifetime ends, so that the session can be resumed. A
   * sandbox without a session id is destroyed, because nothing could find it again.
   */
  async stop(): Promise<void> {
    if (this.#ownership === 'caller') return;
    if (this.#ownership === 'session') return this.destroy();
    const { status } = (await this.#sandbox.refresh()).info;
    if (status === 'destroyed' || status === 'expiring' || status === 'failed') return;
    const commands = (await this.#sandbox.commands.list()).filter(({ info }) => info.status === 'running');
    await Promise.all(commands.map((command) => command.kill()));
  }

  async destroy(): Promise<void> {
    if (this.#ownership !== 'caller') await this.#sandbox.kill();
  }

  /** Opens a preview once, and again when its time is over: the lifetime of the sandbox may have been extended. */
  async #preview(port: number): Promise<Preview> {
    if (!this.#ports.includes(port)) {
      const message = `Port ${port} is not one of those of the session (${this.#ports.join(', ')}). Add it to \`ports\` of createClocheSandbox, or call setPorts.`;
      throw new HarnessCapabilityUnsupportedError({ message });
    }
    const open = this.#previews.get(port);
    if (open !== undefined && Date.parse(open.expiresAt) > Date.now()) return open;
    const preview = await this.#sandbox.previews.open(port);
    this.#previews.set(port, preview);
    return preview;
  }
}

/** The service decides whether connections are encrypted. */
function withProtocol(url: string, protocol: PortOptions['protocol']): string {
  return protocol === 'ws' ? url.replace(/^http/, 'ws') : url;
}
