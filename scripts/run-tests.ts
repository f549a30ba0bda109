/**
 * `npm test`: runs static checks, then every suite, then checks that nothing is left on the host. Prints a progress
 * line for each stage and, at the end, the totals. Without arguments it runs all stages; `quick` means static checks and
 * unit tests; other arguments name stages (`unit e2e`). `--help` lists them. Without root, it skips what needs root.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, existsSync, globSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { text as readText } from 'node:stream/consumers';
import { describeDifference, hostFootprint } from '../e2e/support/host-footprint.ts';
import { isOfThisRun, RUN_PREFIX, runPrefix } from '../packages/shared/testkit/src/installation-ids.ts';
import { measureBusyShare } from './busy-share.ts';
import { longestFirst, runsAlone, suites, suitesIfRunsc, suitesOfRunc, suitesOfServers } from './e2e-suites.ts';
import { installPostgres, postgresTests } from './postgres-tests.ts';
import { SecondTry } from './second-try.ts';
import type { StageReport } from './stage-report.ts';
import { describeNotRun, readTestArguments } from './test-arguments.ts';
import { groupTests } from './test-groups.ts';
import { type StageTime, timeTable } from './time-table.ts';
import { simulationTests, unitTests } from './unit-tests.ts';

interface Stage {
  readonly name: string;
  /** Command that runs instead of test files. */
  readonly command?: readonly string[];
  /** The command starts with the whole run, beside the stages before this one, which do not need it. */
  readonly startsEarly?: boolean;
  /** Name of a stage beside which this one runs. */
  readonly beside?: string;
  readonly files?: () => string[];
  /** Files that match run in groups, each group in one process. */
  readonly grouped?: RegExp;
  /** Number of files that run at once. Default: 1. */
  readonly concurrency?: number;
  /** Niceness of the test files' processes. Default: 0. */
  readonly niceness?: number;
  /** Time of one file. Default: that of `run-files.ts`. */
  readonly longestMs?: number;
  /** Returns whether a file runs after the others and by itself, so that its timings are meaningful. */
  readonly alone?: (file: string) => boolean;
  readonly env?: Readonly<Record<string, string>>;
  /** Module that runs before the stage's files and after them. */
  readonly globalSetup?: string;
  /** Installs what the stage needs. Returns the reason to skip the stage, if there is one. */
  readonly install?: () => Promise<string | undefined>;
}

/** How the files of a stage run. */
type FilesOfStage = Pick<Stage, 'env' | 'globalSetup' | 'grouped' | 'niceness' | 'longestMs'>;

const bin = (name: string) => join('node_modules', '.bin', name);
const RUNTIME_TESTS = 'packages/*/*/src/**/*.runtime.test.ts';
/** Runtime tests with real sandboxes or networks, which the host has once. The others keep to their own processes. */
const HOST_TESTS = ['host/hostd/src', 'host/egress/src', 'service/runtime/src/driver'].map((folder) => {
  return `packages/${folder}/**/*.runtime.test.ts`;
});
/** Time of the files of one stage. The longest takes twelve minutes, and three times as long beside other load. */
const LONGEST_MS = 40 * 60_000;
/**
 * Exceeds the number of processors, because many tests wait more than they compute. Beside tests of the host, by one
 * only.
 */
const UNIT_CONCURRENCY = Math.min(availableParallelism() + 2, 8);
const POSTGRES_CONCURRENCY = Math.min(availableParallelism() + 1, 8);
/**
 * Tests share processes, as to load the modules takes longer than most files: 1300 of the server. Apart are
 * files that measure the memory of their process, and files with a top-level `await`.
 */
const GROUPED =
  /^(scripts\/|packages\/\w+\/)(?!(cli\/src\/ends-of-commands|egress\/src\/proxy\/(shares|young-buffers)|e2b\/src\/box\/listed-entries|runtime\/src\/agent-client\/http\/line-buffer|node-support\/src\/idle-garbage-collection)\.)/;
/**
 * Test files with a service for those that need none of their own. A file computes for half of its time. The files give
 * way to the sandboxes, all of which together have the weight of one process without niceness.
 */
const E2E = { concurrency: 4, niceness: 5, alone: runsAlone, globalSetup: 'e2e/support/shared-service.ts' };
const stages: Stage[] = [
  // Further checkers check much once more: four take 23 s of processor time, and one takes 10 s.
  { name: 'types', command: [bin('tsc'), '-p', 'tsconfig.json', '--checkers', '1'], beside: 'unit' },
  { name: 'lint', command: [bin('biome'), 'check', '.'], beside: 'unit' },
  { name: 'unit', files: unitTests, grouped: GROUPED, concurrency: UNIT_CONCURRENCY },
  // On a new machine it downloads and compiles for minutes.
  { name: 'prepare', command: [process.execPath, 'packages/host/setup/src/main.ts', 'prepare'], startsEarly: true },
  {
    name: 'postgres',
    files: postgresTests,
    grouped: GROUPED,
    concurrency: POSTGRES_CONCURRENCY,
    globalSetup: 'packages/service/server/testing/postgres/global-setup.ts',
    install: installPostgres,
  },
  { name: 'python', files: () => ['scripts/check-python.ts'], concurrency: 1, beside: 'runtime' },
  { name: 'runtime', files: () => globSync(RUNTIME_TESTS, { exclude: HOST_TESTS }), concurrency: 3 },
  // One file at a time, and each mostly waits.
  { name: 'host', files: () => globSync(HOST_TESTS), concurrency: 1, beside: 'postgres' },
  // It depends on no time but its own, and takes what the stages beside it leave of the processors.
  {
    name: 'simulation',
    files: simulationTests,
    concurrency: 1,
    beside: 'postgres',
    niceness: 10,
    longestMs: LONGEST_MS,
  },
  { name: 'e2e', files: suites, ...E2E },
  {
    name: 'e2e-servers',
    files: suitesOfServers,
    ...E2E,
    globalSetup: 'e2e/support/shared-servers.ts',
    install: installPostgres,
  },
  // A file waits for downloads and for starts.
  { name: 'machines', files: () => globSync('e2e/machines/*.test.ts'), concurrency: 2 },
  { name: 'performance', files: () => globSync('e2e/performance/**/*.test.ts'), concurrency: 1 },
  { name: 'e2e-runc', files: suitesOfRunc, env: { CLOCHE_OCI_RUNTIME: 'runc' }, ...E2E },
  { name: 'e2e-runsc', files: suitesIfRunsc, env: { CLOCHE_OCI_RUNTIME: 'runsc' }, ...E2E, concurrency: 2 },
];

const NOTHING: StageReport = { passed: 0, failed: 0, skipped: 0, failures: '', failedFiles: [], seconds: {} };
const known = stages.map(({ name }) => name);
const plan = readTestArguments(process.argv.slice(2), known, process.getuid?.() === 0);
if (plan.kind !== 'run') {
  (plan.kind === 'help' ? console.log : console.error)(plan.text);
  process.exit(plan.kind === 'help' ? 0 : 2);
}

const started = performance.now();
const totals = { passed: 0, failed: 0, skipped: plan.skipped.length };
for (const name of plan.skipped) console.log(`- skipped: the stage ${name} (needs root)`);
/** Failures of each stage, printed again before the totals: a log may keep only its end. */
const failures: string[] = [];
const times: StageTime[] = [];
/**
 * Failed files are run a second time only in a whole run, which decides whether a change is merged. A run of some
 * stages shows each failure.
 */
const secondTry = plan.isWhole ? new SecondTry() : undefined;
const before = plan.comparesHost ? hostFootprint() : undefined;
const NODE_COMPILE_CACHE = compiledCodeFolder();
// This run gets a prefix of its own, even when another test run starts it.
delete process.env[RUN_PREFIX];
runPrefix();

const planned = stages.filter(({ name }) => plan.stages.includes(name));
const early = new Map(planned.filter(({ startsEarly }) => startsEarly).map((stage) => [stage, runQuietly(stage)]));
for (const stage of planned.filter(({ beside }) => beside === undefined || !plan.stages.includes(beside))) {
  const others = planned.filter(({ beside }) => beside === stage.name);
  const [result] = await Promise.all([stage, ...others].map(runStage));
  if (stage.name === 'prepare' && result?.failed !== 0) break;
}

rmSync(NODE_COMPILE_CACHE, { recursive: true });
if (before !== undefined) {
  const left = describeDifference(before, hostFootprint(), isOfThisRun);
  if (left.length === 0) totals.passed += 1;
  else {
    totals.failed += 1;
    failures.push(`── left on the host after the tests\n  ${left.join('\n  ')}\n`);
  }
}
if (failures.length > 0) console.log(`\nWhat failed:\n\n${failures.join('\n')}`);
if (secondTry && secondTry.texts.length > 0) {
  console.log(`\nWhat passed only at the second try:\n\n${secondTry.texts.join('\n')}`);
}

console.log(`\n${timeTable(times)}`);
const notRun = describeNotRun(plan, known);
if (notRun !== undefined) console.log(`\n${notRun}`);
console.log(`\n${((performance.now() - started) / 1000).toFixed(0)} s in all`);
const skipped = totals.skipped > 0 ? `, ${totals.skipped} skipped` : '';
console.log(`${totals.passed} passed, ${totals.failed} failed${skipped}`);
process.exitCode = totals.failed === 0 ? 0 : 1;

/** Prints what the stage does, and adds its result to those of the run. */
async function runStage(stage: Stage): Promise<StageReport> {
  const stageStarted = performance.now();
  const busyShare = measureBusyShare();
  console.log(`\n── ${stage.name}`);
  const result = stage.files ? await runTests(stage) : ((await early.get(stage)?.()) ?? (await runCheck(stage)));
  totals.passed += result.passed;
  totals.failed += result.failed;
  totals.skipped += result.skipped;
  if (result.failed > 0) failures.push(`── ${stage.name}\n${result.failures}`);
  const seconds = (performance.now() - stageStarted) / 1000;
  times.push({ name: stage.name, seconds, busyShare: busyShare(), files: result.seconds });
  console.log(`── ${stage.name}: ${result.passed} passed, ${result.failed} failed, ${seconds.toFixed(1)} s`);
  return result;
}

/**
 * Creates a cache of compiled code, as all processes load the same hundreds of modules. Writable for all, because
 * services under test run as other users.
 */
function compiledCodeFolder(): string {
  const folder = mkdtempSync(join(tmpdir(), 'cloche-test-compiled-'));
  chmodSync(folder, 0o1777);
  return folder;
}

/** Runs a check, which counts as one test. */
async function runCheck(stage: Stage): Promise<StageReport> {
  return reportOf(await run(stage.command ?? []));
}

/** Starts a check. The returned function waits for its end and prints its output. */
function runQuietly({ command: [program = '', ...args] = [] }: Stage): () => Promise<StageReport> {
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'] });
  const ended = once(child, 'close');
  const said = Promise.all([readText(child.stdout), readText(child.stderr)]);
  return async () => {
    const [code] = await ended;
    for (const each of await said) process.stdout.write(each);
    return reportOf(code);
  };
}

function reportOf(code: number | null): StageReport {
  return { ...NOTHING, passed: code === 0 ? 1 : 0, failed: code === 0 ? 0 : 1 };
}

/** Runs the test files of a stage: those that may run beside others first. */
async function runTests(given: Stage): Promise<StageReport> {
  const { files, concurrency = 1, alone = () => false, install, ...stage } = given;
  const reason = await install?.();
  if (reason !== undefined) {
    console.log(`skipped: ${reason}`);
    return NOTHING;
  }
  const found = longestFirst(files?.() ?? []);
  const together = found.filter((file) => !alone(file));
  const report = await runFiles(together, concurrency, stage);
  return addReports(report, await runFiles(found.filter(alone), 1, stage));
}

function addReports(one: StageReport, other: StageReport): StageReport {
  const [passed, failed] = [one.passed + other.passed, one.failed + other.failed];
  const failedFiles = [...one.failedFiles, ...other.failedFiles];
  const skipped = one.skipped + other.skipped;
  const seconds = { ...one.seconds, ...other.seconds };
  return { passed, failed, skipped, failures: one.failures + other.failures, failedFiles, seconds };
}

/** Runs test files in Node's runner. A report of this project counts the totals, and a readable one is printed. */
async function runFiles(
  found: readonly string[],
  concurrency: number,
  { env = {}, globalSetup, grouped, niceness = 0, longestMs }: FilesOfStage,
): Promise<StageReport> {
  if (found.length === 0) return NOTHING;
  const folder = mkdtempSync(join(tmpdir(), 'cloche-test-report-'));
  const inGroups = found.filter((each) => grouped?.test(each));
  const files = [...groupTests(inGroups, folder), ...found.filter((each) => !inGroups.includes(each))];
  const runOnce = async (chosen: readonly string[], { again }: { again: boolean }) => {
    const file = join(folder, 'report.json');
    const command = [
      ...['nice', '-n', String(niceness)],
      process.execPath,
      '--import=./scripts/end-after-tests.ts',
      'scripts/run-files.ts',
      ...(longestMs === undefined ? [] : [`--longest-ms=${longestMs}`]),
      `--concurrency=${again ? 1 : concurrency}`,
      `--report=${file}`,
      ...(globalSetup ? [`--global-setup=${globalSetup}`] : []),
      ...chosen,
    ];
    rmSync(file, { force: true });
    const code = await run(command, { NODE_COMPILE_CACHE, ...env }, LONGEST_MS);
    const text = existsSync(file) ? readFileSync(file, 'utf8') : '';
    if (text === '')
      return { ...NOTHING, failed: 1, failures: `✖ did not end within ${LONGEST_MS / 60_000} minutes\n` };
    const report: StageReport = JSON.parse(text);
    // The runner failed although no test did.
    return report.failed === 0 && code !== 0 ? { ...report, failed: 1 } : report;
  };
  try {
    return await (secondTry?.run(files, runOnce) ?? runOnce(files, { again: false }));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

/** Ends the command after `longestMs`: Node's runner waits without a limit for a file that keeps something open. */
function run(
  [command, ...args]: readonly string[],
  env: Readonly<Record<string, string>> = {},
  longestMs?: number,
): Promise<number> {
  return new Promise((resolve) => {
    const stdio = ['ignore', 'inherit', 'inherit'] as const;
    const limit = longestMs === undefined ? {} : { timeout: longestMs };
    const child = spawn(command ?? '', args, { stdio: [...stdio], env: { ...process.env, ...env }, ...limit });
    child.on('error', (error) => {
      console.error(`${command}: ${error.message}`);
      resolve(1);
    });
    child.on('exit', (code) => resolve(code ?? 1));
  });
}
