import { readdirSync, readFileSync } from 'node:fs';
import type { Measurement, Row } from '../measurement.ts';
import { figuresOf } from '../statistics.ts';
import type { Subject } from '../subject.ts';
import { repeat, timed } from '../timing.ts';

const PARTS = ['server', 'hostd', 'egress'] as const;

/** create, run, delete, over and over: what is left of it in each process and on the host. */
export const cycles: Measurement = {
  name: 'cycles',
  title: 'what 2,000 cycles leave behind',
  fullOnly: true,
  async measure(bench) {
    const subject = await bench.subject();
    if (!subject.installation) return { rows: [] };
    const cycle = async () =>
      timed(async () => {
        const id = await subject.create();
        await subject.run(id, '1+1');
        await subject.kill(id);
      });
    const rounds = bench.rounds(2000, 100);
    await repeat(100, cycle);
    const before = PARTS.map((part) => usage(subject, part));
    const hostBefore = hostCounts();
    const first = await repeat(100, cycle);
    await repeat(Math.max(0, rounds - 200), cycle);
    const last = await repeat(100, cycle);
    const rows: Row[] = [
      {
        what: `create, run and delete: the last 100 of ${rounds}`,
        unit: 'ms',
        subject: figuresOf(last),
        peer: { name: 'the first 100', figures: figuresOf(first) },
        ratioAtMost: 1.1,
        note: '100 to warm up',
      },
    ];
    PARTS.forEach((part, index) => {
      const [from, to] = [before[index], usage(subject, part)];
      if (!from) return;
      rows.push(
        { what: `${part}: private memory gained`, unit: 'MiB', subject: figuresOf([to.memoryMib - from.memoryMib]) },
        {
          what: `${part}: descriptors gained`,
          unit: '×',
          subject: figuresOf([to.descriptors - from.descriptors]),
          targets: [{ atMost: 2 }],
        },
      );
    });
    const hostAfter = hostCounts();
    for (const [name, count] of Object.entries(hostAfter)) {
      const gained = count - (hostBefore[name as keyof typeof hostBefore] ?? 0);
      rows.push({ what: `host: ${name} gained`, unit: '×', subject: figuresOf([gained]), targets: [{ atMost: 8 }] });
    }
    return { rows };
  },
};

function usage({ installation }: Subject, part: (typeof PARTS)[number]) {
  const pid = installation?.pid(part);
  const kilobytes = (name: string, file: string) =>
    Number(new RegExp(`^${name}: +(\\d+)`, 'm').exec(readFileSync(`/proc/${pid}/${file}`, 'utf8'))?.[1] ?? 0);
  return {
    memoryMib: (kilobytes('Private_Dirty', 'smaps_rollup') + kilobytes('Private_Clean', 'smaps_rollup')) / 1024,
    descriptors: readdirSync(`/proc/${pid}/fd`).length,
  };
}

function hostCounts() {
  return {
    mounts: readFileSync('/proc/self/mountinfo', 'utf8').split('\n').length,
    interfaces: readdirSync('/sys/class/net').length,
    'loop devices in use': readdirSync('/sys/block').filter((name) => isUsedLoop(name)).length,
    processes: readdirSync('/proc').filter((name) => /^\d+$/.test(name)).length,
  };
}

function isUsedLoop(name: string): boolean {
  if (!name.startsWith('loop')) return false;
  try {
    return readFileSync(`/sys/block/${name}/loop/backing_file`, 'utf8') !== '';
  } catch {
    return false;
  }
}
