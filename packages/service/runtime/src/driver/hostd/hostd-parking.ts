import { ParkedDisk, ParkedDiskList, ParkedInstance } from '@cloche/protocol';
import { Compile } from 'typebox/compile';
import { type InstanceName, type Parked, type Parking, ParkingError } from '../runtime-driver.ts';
import { asGone, type HostdConnection } from './hostd-connection.ts';
import { pathOf } from './instance-path.ts';

const parkedDisk = Compile(ParkedDisk);
const parkedInstance = Compile(ParkedInstance);
const parkedDiskList = Compile(ParkedDiskList);

/** Time limit of what writes the files of an instance to the disk of the host. */
const WRITE_MS = 120_000;
const LIST_MS = 10_000;

/** Keeps disks through the host daemon on this machine. */
export class HostdParking implements Parking {
  readonly #hostd: HostdConnection;
  readonly #onEnd: (path: string) => void;

  /** @param onEnd called before an instance is ended */
  constructor(hostd: HostdConnection, onEnd: (path: string) => void) {
    this.#hostd = hostd;
    this.#onEnd = onEnd;
  }

  async keep(instance: InstanceName, signal: AbortSignal): Promise<ParkedDisk> {
    const path = `${pathOf(instance)}/keep`;
    return asGone(this.#hostd.ask(parkedDisk, 'POST', path, within(WRITE_MS, signal)));
  }

  async park(instance: InstanceName, signal: AbortSignal): Promise<Parked> {
    const path = pathOf(instance);
    this.#onEnd(path);
    return asGone(this.#hostd.ask(parkedInstance, 'POST', `${path}/park`, within(WRITE_MS, signal)));
  }

  async parked(signal: AbortSignal): Promise<readonly ParkedDisk[]> {
    return (await this.#hostd.ask(parkedDiskList, 'GET', '/parked', within(LIST_MS, signal))).disks;
  }

  async removeParked({ sandboxId, generation }: InstanceName, signal: AbortSignal): Promise<void> {
    const path = `/parked/${encodeURIComponent(sandboxId)}/${generation}`;
    const response = await this.#hostd.request('DELETE', path, within(WRITE_MS, signal));
    await response.body.dump();
  }

  /** @throws ParkingError `unsupported` */
  requireAvailable(): void {
    if (!this.#hostd.keepsDisks) throw new ParkingError('unsupported', 'this host does not keep disks');
  }
}

function within(ms: number, signal: AbortSignal): AbortSignal {
  return AbortSignal.any([signal, AbortSignal.timeout(ms)]);
}
