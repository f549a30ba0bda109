import { readFileSync, renameSync, writeFileSync } from 'node:fs';
import { LaunchSpec } from '@cloche/protocol';
import { type Static, Type } from 'typebox';
import { Value } from 'typebox/value';
import type { Demand } from './demand.ts';
import { kindId } from './pool-kind.ts';

const Kind = Type.Object({
  templateVersionId: Type.String(),
  network: Type.Union([Type.Literal('open'), Type.Literal('gated'), Type.Literal('none')]),
  resources: LaunchSpec.properties.resources,
  owner: Type.Optional(Type.String()),
});

/** A requested kind. `weight` counts its requests, as of `at`, in milliseconds since 1970. */
const Request = Type.Object({ kind: Kind, weight: Type.Number({ minimum: 0 }), at: Type.Number() });
const Requests = Type.Array(Request);

/** Keeps the demand across restarts of hostd, so that the pool of the next hostd has what sandboxes will claim. */
export class DemandFile {
  readonly #path: string;
  readonly #demand: Demand;
  readonly #now: () => number;
  #saved = '';

  /** @param now milliseconds since 1970 */
  constructor(path: string, demand: Demand, now: () => number = Date.now) {
    this.#path = path;
    this.#demand = demand;
    this.#now = now;
  }

  /** Adds the demand of an earlier hostd. Does nothing if there is no readable file. */
  load(): void {
    const now = this.#now();
    for (const { kind, weight, at } of this.#read()) this.#demand.restore(kind, weight, Math.max(0, now - at));
  }

  /** Writes the demand if it has changed since the last call. */
  save(): void {
    const requested = this.#demand.requested();
    // Each request changes a weight; time alone changes none.
    const state = requested.map(({ kind, weight }) => `${kindId(kind)} ${weight}`).join();
    if (state === this.#saved) return;
    const now = this.#now();
    const requests = requested.map(({ kind, weight, agoMs }) => ({ kind, weight, at: now - agoMs }));
    writeFileSync(`${this.#path}.new`, JSON.stringify(requests), { mode: 0o600 });
    renameSync(`${this.#path}.new`, this.#path);
    this.#saved = state;
  }

  #read(): Static<typeof Requests> {
    try {
      return Value.Parse(Requests, JSON.parse(readFileSync(this.#path, 'utf8')));
    } catch {
      return [];
    }
  }
}
