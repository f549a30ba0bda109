/**
 * `npm run test:vm`: boots a virtual machine with systemd and control groups v2 alone, and tries there what depends on
 * them: the package with its units, a first result, and tests. As root. `--suite trixie` takes Debian 13, `--only TEXT`
 * the steps whose title contains the text; the option can be repeated. `--keep` keeps the machine afterwards and runs
 * the scripts whose files are named on standard input.
 */
import { createWriteStream, mkdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline/promises';
import { parseArgs } from 'node:util';
import { SLOWNESS } from '@cloche/testkit/eventually';
import { MACHINES } from '../support/cached-folder.ts';
import type { Release } from '../support/user-land.ts';
import { contentDisk, rootDisk } from './disks.ts';
import { PRELUDE, type Step, UNITS } from './steps.ts';
import { TESTS } from './tests.ts';
import { type Accelerator, VirtualMachine, type VirtualMachineOptions } from './virtual-machine.ts';

const SUITES: readonly string[] = ['bookworm', 'trixie'] satisfies Release[];
/** A machine whose processor is translated takes a minute of processor time to boot. */
const BOOT_MS = { kvm: 60_000, tcg: 900_000 } as const;

/** How many times longer than outside tests wait in the machine. */
const SLOWNESS_INSIDE = { kvm: 1, tcg: 10 } as const;
const PROGRESS_MS = 30_000;
const FAILURE_LINES = 60;
/** Longest time of a script that is named on standard input. */
const KEPT_MS = 3_600_000;

const { values } = parseArgs({
  options: {
    suite: { type: 'string', default: 'bookworm' },
    only: { type: 'string', multiple: true, default: [''] },
    keep: { type: 'boolean', default: false },
  },
});
if (!SUITES.includes(values.suite)) throw new Error(`--suite is one of ${SUITES.join(', ')}`);
const suite = values.suite as Release;
const seconds = (since: number) => `${((performance.now() - since) / 1000).toFixed(0)} s`;
const failed: string[] = [];

const begun = performance.now();
console.log(`disks of Debian ${suite}: made once for each state of the sources`);
const disks = { root: await rootDisk(suite), content: await contentDisk() };
console.log(`✔ disks  ${seconds(begun)}`);

mkdirSync(join(MACHINES, 'logs'), { recursive: true });
const logFile = join(MACHINES, 'logs', `vm-${suite}.log`);
const log = createWriteStream(logFile).on('error', (error) => console.error(error.message));
const consoleFile = join(MACHINES, 'logs', `vm-${suite}.console`);
console.log(`  output of all steps: ${logFile}\n  console: ${consoleFile}`);
await using machine = await boot({ ...disks, consoleFile });
const taken = ({ title }: Step) => values.only.some((text) => title.includes(text));
for (const step of [...UNITS, ...TESTS].filter(taken)) await take(step);
if (values.keep) await takeCommands();
console.log(failed.length === 0 ? `✔ all steps  ${seconds(begun)}` : `✖ ${failed.length} failed: ${failed.join('; ')}`);
process.exitCode = failed.length === 0 ? 0 : 1;

/** Boots with the host's kernel as accelerator where that works. */
async function boot(options: Omit<VirtualMachineOptions, 'accelerator'>): Promise<VirtualMachine> {
  const accelerators: readonly Accelerator[] = ['kvm', 'tcg'];
  for (const accelerator of accelerators) {
    const since = performance.now();
    const machine = new VirtualMachine({ ...options, accelerator });
    try {
      await machine.booted(BOOT_MS[accelerator]);
      console.log(`✔ boots (${accelerator})  ${seconds(since)}`);
      return machine;
    } catch (error) {
      await machine[Symbol.asyncDispose]();
      console.log(`  no boot with ${accelerator}: ${error instanceof Error ? error.message.trim() : error}`);
    }
  }
  throw new Error(`The virtual machine does not boot: ${consoleFile}`);
}

/** Takes a step, and prints its verdict and time. While it lasts, prints what it printed last. */
async function take({ title, script, minutes, reboots = false }: Step): Promise<void> {
  const since = performance.now();
  let output = '';
  const onOutput = (text: string) => {
    output += text;
    log.write(text);
  };
  const progress = setInterval(
    () => console.log(`  … ${title}  ${seconds(since)}  ${lastLines(output, 1)}`),
    PROGRESS_MS,
  );
  log.write(`\n== ${title}\n`);
  try {
    if (reboots) await machine.reboot(BOOT_MS.tcg);
    // Not exported, because Cloche refuses settings that it does not know.
    const slowness = `slowness=${SLOWNESS_INSIDE[machine.accelerator] * SLOWNESS}`;
    const { status } = await machine.run(`${slowness}\n${PRELUDE}${script}`, minutes * 60_000 * SLOWNESS, onOutput);
    console.log(`${status === 0 ? '✔' : '✖'} ${title}  ${seconds(since)}`);
    if (status === 0) return;
    failed.push(title);
    console.log(`${lastLines(output, FAILURE_LINES)}\n  status ${status}`);
  } finally {
    clearInterval(progress);
  }
}

function lastLines(text: string, count: number): string {
  return text.trimEnd().split('\n').slice(-count).join('\n');
}

/** Runs the scripts that are named on standard input, until its end. */
async function takeCommands(): Promise<void> {
  console.log('The machine stays: name files of scripts, one a line.');
  for await (const file of createInterface({ input: process.stdin })) {
    const { status } = await machine.run(readFileSync(file, 'utf8'), KEPT_MS, (text) => process.stdout.write(text));
    console.log(`status ${status}`);
  }
}
