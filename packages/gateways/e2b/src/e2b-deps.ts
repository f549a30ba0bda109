import type { IncomingMessage, ServerResponse } from 'node:http';
import type { WakeMode } from '@cloche/contract';
import type { LeavingConnection } from '@cloche/node-support';
import type { Logger } from 'pino';

/** Encrypts tokens with a key that all servers of an installation share. */
export interface TokenSeal {
  seal(text: string): string;
  /** @throws Error if this installation did not seal the text. */
  open(sealed: string): string;
}

/** Serves previews by the host of a request. */
export interface PreviewServer {
  /** Returns the domain below which previews have their hosts, with the port. */
  domain(): string;
  handle(request: IncomingMessage, response: ServerResponse): void | Promise<void>;
  upgrade(connection: LeavingConnection): void | Promise<void>;
  /** Returns whether the ports of a sandbox need no token. */
  isPublic(sandboxId: string): Promise<boolean>;
  /** Returns what serves a port of a sandbox without a token; undefined if the port needs one. */
  findPublic(sandboxId: string, port: number): Promise<PortServer | undefined>;
}

export type PortServer = Pick<PreviewServer, 'handle' | 'upgrade'>;

/** Texts of sandboxes by names, which every server reads. */
export interface SandboxNotes {
  put(sandboxId: string, name: string, value: string): Promise<void>;
  /** Returns all of a sandbox, by their names. */
  all(sandboxId: string): Promise<ReadonlyMap<string, string>>;
  /** Removes those whose name begins with `prefix` and is not among `names`. */
  keep(sandboxId: string, prefix: string, names: readonly string[]): Promise<void>;
}

/**
 * Features that a client wants for its sandbox. The operator, or a scope that the key lacks, can refuse each silently.
 */
export interface Equipment {
  /** Whether its ports need no token. */
  readonly publicPorts: boolean;
}

export interface BoxState {
  /** Whether it is paused, or on its way into or out of a pause. */
  readonly isPaused: boolean;
  readonly wake: WakeMode;
}

export interface E2bDeps {
  /**
   * Returns the URL at which `/v1` answers. Every request of a client becomes requests to it, with the client's key.
   */
  readonly apiUrl: () => string;
  /** URL at which clients reach the service, if it is configured. Default: the one that a client has used. */
  readonly publicUrl: string | undefined;
  readonly seal: TokenSeal;
  readonly previews: PreviewServer;
  /** Returns the address, or the network, that requests of one client come from. */
  readonly addressOf: (request: IncomingMessage) => string;
  /** Returns the organization of a key that was checked. */
  readonly ownerOf: (apiKey: string) => string;
  /** Returns the state of the sandbox of this id, whosever it is; undefined if it has ended, or never was. */
  readonly stateOf: (sandboxId: string) => Promise<BoxState | undefined>;
  /**
   * Sets the lifetime of a sandbox from now on, also to less than it has, with the rights of the key. `/v1` only extends.
   *
   * @throws GatewayError
   */
  readonly overwriteTtl: (request: IncomingMessage, apiKey: string, sandboxId: string, ttlMs: number) => Promise<void>;
  /**
   * Gives a sandbox that was just created what E2B's sandboxes have beside those of `/v1`. Idempotent.
   *
   * @throws GatewayError
   */
  readonly equip: (request: IncomingMessage, apiKey: string, sandboxId: string, wanted: Equipment) => Promise<void>;
  /** Texts about sandboxes. Those of a sandbox are deleted with its record. */
  readonly notes: SandboxNotes;
  readonly log: Logger;
}
