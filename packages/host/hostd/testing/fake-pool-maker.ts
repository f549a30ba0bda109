import { once } from 'node:events';
import { setImmediate } from 'node:timers/promises';
import type { InstanceKey } from '../src/instance/instance-key.ts';
import type { PoolKind } from '../src/pool/pool-kind.ts';
import type { PoolMaker } from '../src/pool/pool-maker.ts';

/** Makes instances that exist only in memory. */
export class FakePoolMaker implements PoolMaker {
  readonly living = new Map<InstanceKey, PoolKind>();
  readonly stale = new Set<InstanceKey>();
  underWay = 0;
  mostUnderWay = 0;
  launched = 0;
  failed = 0;
  hasMemory = true;
  memoryChecks = 0;
  fails = false;
  looks = 0;
  /** Processor time that instances use between two looks at it. */
  msPerLook = 0;
  /** Turns of the event loop that each launch takes. */
  turns = 1;
  gate: Promise<void> | undefined;
  /** Delays the warm-up of instances that are finished. */
  warmGate: Promise<void> | undefined;
  /** Places that an instance of each version takes; one by default. */
  readonly places = new Map<string, number>();

  async make(key: InstanceKey, kind: PoolKind, signal: AbortSignal): Promise<void> {
    this.underWay += 1;
    this.mostUnderWay = Math.max(this.mostUnderWay, this.underWay);
    try {
      if (this.gate) await Promise.race([this.gate, once(signal, 'abort')]);
      for (let turn = 0; turn < this.turns; turn += 1) await setImmediate();
      signal.throwIfAborted();
      if (this.fails) throw new Error('no luck');
      this.launched += 1;
      this.living.set(key, kind);
    } catch (error) {
      this.failed += 1;
      throw error;
    } finally {
      this.underWay -= 1;
    }
  }

  async warmed(_key: InstanceKey): Promise<void> {
    await this.warmGate;
  }

  async remove(key: InstanceKey): Promise<void> {
    await setImmediate();
    this.living.delete(key);
  }

  isFresh(key: InstanceKey): boolean {
    return this.living.has(key) && !this.stale.has(key);
  }

  processorMs(): number {
    this.looks += 1;
    return this.looks * this.msPerLook;
  }

  hasMemoryToSpare(): boolean {
    this.memoryChecks += 1;
    return this.hasMemory;
  }

  placesOf(templateVersionId: string): number {
    return this.places.get(templateVersionId) ?? 1;
  }

  measure(): void {}

  /** Places that all instances take. */
  get taken(): number {
    return [...this.living.values()].reduce((sum, kind) => sum + this.placesOf(kind.templateVersionId), 0);
  }
}
