import { mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { type Static, Type } from 'typebox';
import { Value } from 'typebox/value';
import { HostdError } from '../base/hostd-error.ts';
import { withFileLock } from '../linux/file-lock.ts';
import { errorCode } from '../linux/libc.ts';
import { findLink } from '../linux/netlink.ts';
import { isProcessAlive, type ProcessIdentity } from '../linux/process-identity.ts';
import { gatewayLinkName, SLOT_COUNT } from './address-plan.ts';

const Holder = Type.Object({
  pid: Type.Integer(),
  startTicks: Type.Integer(),
  bootId: Type.String(),
});

const SlotClaim = Type.Object({
  installationId: Type.String(),
  /** The instance key that the slot is for, or one of the purposes below. */
  purpose: Type.String(),
  /** The process that holds the slot while it lives: first the launching hostd, then the instance's first process. */
  holder: Holder,
});
type SlotClaim = Static<typeof SlotClaim>;

/** Folder of slots that all installations of the host share. */
export const SLOTS_DIR = '/run/cloche/slots';

export const GATEWAY_PURPOSE = 'gateway';
/** Purposes of the slots whose addresses hostd has in namespaces of its own, to measure the host's firewalls. */
export const PROBE_PURPOSES = { open: 'probe-open', gated: 'probe-gated', target: 'probe-target' } as const;
const NEXT_FILE = '.next';

/**
 * Slot numbers that all installations of a host share. A slot gives its holder a range of ids and four addresses, so no
 * two sandboxes on a host share them, whichever installation launched them.
 */
export class Slots {
  readonly #dir: string;
  readonly #installationId: string;
  /** This installation's slots, by purpose. No other process acquires slots for this installation. */
  readonly #ours: Map<string, number>;

  constructor(dir: string, installationId: string) {
    this.#dir = dir;
    this.#installationId = installationId;
    mkdirSync(dir, { recursive: true, mode: 0o755 });
    this.#ours = new Map(
      this.#takenSlots().flatMap((slot) => {
        const claim = this.#read(slot);
        return claim?.installationId === installationId ? [[claim.purpose, slot] as const] : [];
      }),
    );
  }

  /** Acquires a slot that no live process holds. Throws `no_capacity` when all slots are taken. */
  acquire(purpose: string, holder: ProcessIdentity): number {
    const claim: SlotClaim = { installationId: this.#installationId, purpose, holder };
    return this.#locked(() => {
      const taken = new Set(this.#takenSlots());
      const next = this.#readNext();
      for (let tried = 0; tried < SLOT_COUNT; tried += 1) {
        const slot = (next + tried) % SLOT_COUNT;
        if (taken.has(slot) && this.#isHeld(slot)) continue;
        this.#write(slot, claim);
        writeFileSync(join(this.#dir, NEXT_FILE), String(slot + 1), { mode: 0o600 });
        return slot;
      }
      throw new HostdError('no_capacity', `all ${SLOT_COUNT} slots of this host are in use`);
    });
  }

  /**
   * Returns the slot to try first. All installations share the counter and it outlives their processes, so a released
   * slot is reused last: by then the links and late packets of its previous holder are gone.
   */
  #readNext(): number {
    try {
      return Number(readFileSync(join(this.#dir, NEXT_FILE), 'utf8')) || 0;
    } catch (error) {
      if (errorCode(error) === 'ENOENT') return 0;
      throw error;
    }
  }

  /** Transfers a slot of this installation to the process that will hold it for its lifetime. */
  transfer(slot: number, purpose: string, holder: ProcessIdentity): void {
    this.#locked(() => {
      this.#write(slot, { installationId: this.#installationId, purpose, holder });
    });
  }

  /** Releases a slot. Idempotent; does nothing when the slot has meanwhile been acquired for another purpose. */
  release(slot: number, purpose: string): void {
    this.#locked(() => {
      const claim = this.#read(slot);
      if (claim?.installationId === this.#installationId && claim.purpose === purpose) {
        rmSync(join(this.#dir, String(slot)), { force: true });
      }
      if (this.#ours.get(purpose) === slot) this.#ours.delete(purpose);
    });
  }

  /** Finds the slot that this installation holds for that purpose, including one that an earlier hostd acquired. */
  find(purpose: string): number | undefined {
    const slot = this.#ours.get(purpose);
    if (slot === undefined) return undefined;
    const claim = this.#read(slot);
    return claim?.installationId === this.#installationId && claim.purpose === purpose ? slot : undefined;
  }

  #takenSlots(): number[] {
    return readdirSync(this.#dir)
      .filter((name) => /^\d+$/.test(name))
      .map(Number);
  }

  #isHeld(slot: number): boolean {
    const claim = this.#read(slot);
    if (claim === undefined) return false;
    // The gateway outlives its hostd: running sandboxes have its address in their resolv.conf.
    if (claim.purpose === GATEWAY_PURPOSE && findLink(gatewayLinkName(claim.installationId))) return true;
    return isProcessAlive(claim.holder);
  }

  #read(slot: number): SlotClaim | undefined {
    try {
      const claim: unknown = JSON.parse(readFileSync(join(this.#dir, String(slot)), 'utf8'));
      return Value.Check(SlotClaim, claim) ? claim : undefined;
    } catch (error) {
      // A crash during a write leaves a truncated file, which claims nothing.
      if (errorCode(error) === 'ENOENT' || error instanceof SyntaxError) return undefined;
      throw error;
    }
  }

  #write(slot: number, claim: SlotClaim): void {
    writeFileSync(join(this.#dir, String(slot)), JSON.stringify(claim), { mode: 0o600 });
    this.#ours.set(claim.purpose, slot);
  }

  #locked<T>(critical: () => T): T {
    return withFileLock(join(this.#dir, '.lock'), critical);
  }
}
