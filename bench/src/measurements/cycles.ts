import { globSync, readdirSync, readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import type { Measurement, Row } from '../measurement.ts';
import { beside, figuresOf } from '../statistics.ts';
import type { Service, Subject } from '../subject.ts';
import { repeat, TIDIED_MS, timed } from '../timing.ts';

const PARTS = ['server', 'hostd', 'egress'] as const;
const WARM_UP = 200;
const COMPARED = 200;

/** Repeats create, run and delete, and counts what they leave behind in each process and on the host. */
export const cycles: Measurement = {
  name: 'cycles',
  title: 'what 2,000 cycles leave behind',
  fullOnly: true,
  async measure(bench) {
    const subject = await bench.subject();
    const { service } = subject;
    if (!service) return { rows: [] };
    const rounds = bench.rounds(2000, 500);
    const cycle = () => timed(() => createRunDelete(subject));
    await repeat(WARM_UP, cycle);
    const before = await settledCounts(subject, service);
    const times: number[] = [];
    while (times.length < rounds) {
      times.push(...(await repeat(COMPARED, cycle)));
      bench.say(`${times.length} of ${rounds}`);
    }
    const after = await settledCounts(subject, service);
    const [first, last] = [times.slice(0, COMPARED), times.slice(-COMPARED)];
    const speed: Row = {
      what: `create, run and delete: the last ${COMPARED} of ${rounds}`,
      unit: 'ms',
      subject: figuresOf(last),
      peer: beside(`the first ${COMPARED}`, first),
      ratioAtMost: 1.25,
      note: `${WARM_UP} to warm up; one client, without a pause`,
    };
    const gains = [...after].map(([name, { value, unit, mayGain }]): Row => {
      const gained = value - (before.get(name)?.value ?? 0);
      return { what: `${name}: gained`, unit, subject: figuresOf([gained]), targets: [{ atMost: mayGain }] };
    });
    return { rows: [speed, ...gains] };
  },
};

async function createRunDelete(subject: Subject): Promise<void> {
  const id = await subject.create();
  await subject.run(id, '1+1');
  await subject.kill(id);
}

interface Count {
  readonly value: number;
  readonly unit: Row['unit'];
  /** Growth that is no leak: temporary descriptors and other objects, and the normal variation of memory. */
  readonly mayGain: number;
}

/** Counts once the pool is full again, the deleted sandboxes are removed and the server has returned unused memory. */
async function settledCounts(subject: Subject, service: Service): Promise<Map<string, Count>> {
  await subject.settled();
  await delay(TIDIED_MS);
  const counts = new Map<string, Count>();
  for (const part of PARTS) {
    const folder = `/proc/${service.pids[part]}`;
    counts.set(`${part}: private memory`, { value: privateMib(folder), unit: 'MiB', mayGain: 32 });
    counts.set(`${part}: descriptors`, { value: readdirSync(`${folder}/fd`).length, unit: '×', mayGain: 4 });
  }
  const mounts = readFileSync(`/proc/${service.pids.hostd}/mountinfo`, 'utf8').split('\n').length;
  const links = readdirSync('/sys/class/net').filter((name) => name.includes(service.installationId)).length;
  const own = {
    mounts,
    links,
    'control groups': globSync(`/sys/fs/cgroup/{,*/}cloche-${service.installationId}/**/`).length,
    'loop devices': readdirSync('/sys/block').filter(isUsedLoop).length,
    slots: readdirSync('/run/cloche/slots').length,
  };
  for (const [name, value] of Object.entries(own)) counts.set(`host: ${name}`, { value, unit: '×', mayGain: 2 });
  return counts;
}

function privateMib(folder: string): number {
  const rollup = readFileSync(`${folder}/smaps_rollup`, 'utf8');
  const kilobytes = (name: string) => Number(new RegExp(`^${name}: +(\\d+)`, 'm').exec(rollup)?.[1] ?? 0);
  return (kilobytes('Private_Dirty') + kilobytes('Private_Clean')) / 1024;
}

function isUsedLoop(name: string): boolean {
  if (!name.startsWith('loop')) return false;
  try {
    return readFileSync(`/sys/block/${name}/loop/backing_file`, 'utf8') !== '';
  } catch {
    // The loop device is not in use.
    return false;
  }
}
