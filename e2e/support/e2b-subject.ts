import type * as e2b from 'e2b';
import type { E2bOptions } from './e2b-options.ts';

/** The objects that a call to a client of E2B uses. */
export interface E2bSubject {
  readonly client: typeof e2b;
  readonly options: E2bOptions;
  readonly sandbox: e2b.Sandbox;
  /** Differs between clients, so that their calls do not meet. */
  readonly name: string;
}
export type E2bCalls = Readonly<Record<string, (subject: E2bSubject) => unknown>>;
