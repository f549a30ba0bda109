/** What the servers of a seed do besides sandboxes, and what its clients do. */
import type { FakeRuntimeDriver } from '@cloche/testkit';
import type { Route } from '../../src/platform/http/route.ts';
import type { Authenticator } from '../../src/platform/keys/authenticator.ts';
import type { Clients } from './clients.ts';
import type { Peer } from './faults.ts';
import type { Mechanism } from './mechanisms.ts';
import type { Seams } from './seams.ts';
import type { ServerParts } from './server-parts.ts';
import type { SharedDatabase } from './shared-database.ts';
import type { VirtualTime } from './virtual-time.ts';

export interface WorkloadWorld {
  readonly database: SharedDatabase;
  readonly runtime: FakeRuntimeDriver;
  readonly seams: Seams;
  readonly time: VirtualTime;
  /** Mechanisms that are switched off. */
  readonly without: ReadonlySet<Mechanism>;
  readonly violate: (what: string) => void;
}

/** What a workload adds to a server. */
export interface Feature {
  readonly routes: readonly Route[];
  /** Finds the credentials of requests that name a key; without it, every request has all scopes. */
  readonly authenticator?: Authenticator;
  start?(): Promise<void>;
}

/** The workload of one simulation, with what it has seen so far. */
export interface Workload {
  compose?(parts: ServerParts, peer: Peer): Feature | Promise<Feature>;
  /** Does what one client does. */
  work(clients: Clients): Promise<void>;
  /** Looks at the database after each commit. */
  committed?(): void;
  /** Called when an agent starts a command that it did not know. */
  commandStarted?(sandboxId: string, commandId: string): void;
  /** Returns what is not at rest. Some time after the last fault this must be empty. */
  unrest?(): string[];
}

export type OpenWorkload = (world: WorkloadWorld) => Workload;
