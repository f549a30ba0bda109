import { existsSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Static, Type } from 'typebox';
import { Value } from 'typebox/value';
import { HostdError } from './hostd-error.ts';
import { withFileLock } from './kernel/file-lock.ts';
import { errorCode } from './kernel/libc.ts';
import { isProcessAlive, type ProcessIdentity } from './kernel/process-identity.ts';
import { gatewayLinkName, SLOT_COUNT } from './network/address-plan.ts';

const Holder = Type.Object({
  pid: Type.Integer(),
  startTicks: Type.Integer(),
  bootId: Type.String(),
});

const SlotClaim = Type.Object({
  installationId: Type.String(),
  /** What the slot is for: the key of an instance, or `gateway`. */
  purpose: Type.String(),
  /** While it lives, the slot is taken: first the launching hostd, then the instance's first process. */
  holder: Holder,
});
type SlotClaim = Static<typeof SlotClaim>;

export const GATEWAY_PURPOSE = 'gateway';

/**
 * Numbers that all installations of a host share. A slot gives its holder a range of ids and four addresses, so no two
 * sandboxes of a host, whoever launched them, ever have the same.
 */
export class Slots {
  readonly #dir: string;
  readonly #installationId: string;

  constructor(dir: string, installationId: string) {
    this.#dir = dir;
    this.#installationId = installationId;
    mkdirSync(dir, { recursive: true, mode: 0o755 });
  }

  /** Takes the lowest slot that nothing alive holds. Throws `no_capacity` when there is none. */
  acquire(purpose: string, holder: ProcessIdentity): number {
    const claim: SlotClaim = { installationId: this.#installationId, purpose, holder };
    return this.#locked(() => {
      const taken = new Set(readdirSync(this.#dir));
      for (let slot = 0; slot < SLOT_COUNT; slot += 1) {
        if (taken.has(String(slot)) && this.#isHeld(slot)) continue;
        this.#write(slot, claim);
        return slot;
      }
      throw new HostdError('no_capacity', `all ${SLOT_COUNT} slots of this host are taken`);
    });
  }

  /** Hands a slot of ours over to the process that it lives as long as. */
  transfer(slot: number, purpose: string, holder: ProcessIdentity): void {
    this.#locked(() => {
      this.#write(slot, { installationId: this.#installationId, purpose, holder });
    });
  }

  /** Idempotent; leaves a slot alone that has meanwhile been given to somebody else. */
  release(slot: number, purpose: string): void {
    this.#locked(() => {
      const claim = this.#read(slot);
      if (claim?.installationId === this.#installationId && claim.purpose === purpose) {
        rmSync(join(this.#dir, String(slot)), { force: true });
      }
    });
  }

  /** The slot that an earlier hostd of this installation took for that purpose. */
  find(purpose: string): number | undefined {
    return this.#locked(() =>
      readdirSync(this.#dir)
        .filter((name) => /^\d+$/.test(name))
        .map(Number)
        .find((slot) => {
          const claim = this.#read(slot);
          return claim?.installationId === this.#installationId && claim.purpose === purpose;
        }),
    );
  }

  #isHeld(slot: number): boolean {
    const claim = this.#read(slot);
    if (claim === undefined) return false;
    // A gateway outlives its hostd: sandboxes that it launched have the address in their resolv.conf.
    if (claim.purpose === GATEWAY_PURPOSE && existsSync(`/sys/class/net/${gatewayLinkName(claim.installationId)}`)) {
      return true;
    }
    return isProcessAlive(claim.holder);
  }

  #read(slot: number): SlotClaim | undefined {
    try {
      const claim: unknown = JSON.parse(readFileSync(join(this.#dir, String(slot)), 'utf8'));
      return Value.Check(SlotClaim, claim) ? claim : undefined;
    } catch (error) {
      // A file cut off by a crash holds nothing.
      if (errorCode(error) === 'ENOENT' || error instanceof SyntaxError) return undefined;
      throw error;
    }
  }

  #write(slot: number, claim: SlotClaim): void {
    writeFileSync(join(this.#dir, String(slot)), JSON.stringify(claim), { mode: 0o600 });
  }

  #locked<T>(critical: () => T): T {
    return withFileLock(join(this.#dir, '.lock'), critical);
  }
}
