/**
 * `npm test`: runs static checks, then every suite, then checks that nothing is left on the host. Prints a progress
 * line for each stage and, at the end, the totals. Without arguments it runs all stages; `quick` means the stages that
 * need neither root nor sandboxes; other arguments name stages (`unit e2e`). `--help` lists them.
 */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { chmodSync, existsSync, globSync, mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { availableParallelism, tmpdir } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { describeDifference, hostFootprint } from '../e2e/support/host-footprint.ts';
import { cachePaths } from '../packages/layout/src/paths.ts';
import { isOfThisRun, RUN_PREFIX, runPrefix } from '../packages/testkit/src/installation-ids.ts';
import type { StageReport } from './stage-report.ts';
import { describeNotRun, readTestArguments } from './test-arguments.ts';
import { unitTests } from './unit-tests.ts';

interface Stage {
  readonly name: string;
  /** Command that runs instead of test files. */
  readonly command?: readonly string[];
  /** The command starts with the whole run, beside the stages before this one, which do not need it. */
  readonly startsEarly?: boolean;
  readonly files?: () => string[];
  /**
   * Number of files that run at once. Suites with real sandboxes run one at a time, so that their timings are
   * meaningful.
   */
  readonly concurrency?: number;
  readonly env?: Readonly<Record<string, string>>;
  /** Module that runs before the stage's files and after them. */
  readonly globalSetup?: string;
}

const bin = (name: string) => join('node_modules', '.bin', name);
/** Suites that run with one runtime only, because they do not depend on the runtime, each with the reason. */
const SAME_WITH_EACH_RUNTIME: Readonly<Record<string, string>> = {
  'functional/artifacts': 'the server stores artifacts; functional/files tests how files leave a sandbox',
  'functional/bad-input': 'the server refuses bad input before it reaches a sandbox',
  'functional/command-line': 'tests the command line; functional/commands tests the requests that it sends',
  'functional/command-logs': 'the agent stores the logs; functional/commands tests how output is captured',
  'functional/copy': 'tests the command line; functional/files tests the requests that it sends',
  'functional/events': 'the server stores events and sends them',
  'functional/fuzz': 'the server refuses malformed requests before they reach a sandbox',
  'functional/guides': 'tests the examples in the documents; other files test the operations that these use',
  'functional/idempotency': 'the server stores and replays responses',
  'functional/installations': 'tests that two installations use different names and addresses',
  'functional/previews-in-a-browser': 'tests a browser; functional/previews tests the connections that it uses',
  'functional/quotas': 'the server counts what limits apply to',
  'functional/runtimes': 'starts a service with each runtime itself',
  'functional/shell': 'tests the command line; functional/terminals tests the requests that it sends',
  'functional/stalled-transfers': 'tests timers of the server and the agent; functional/files tests the requests',
  'functional/start': 'tests what npm start prints',
  'functional/streams':
    'the server sends event streams; every run of other files uses the same connection to the agent',
  'functional/top': 'tests the command line; functional/metrics tests the requests that it sends',
  'functional/usage': 'the server adds up counters; functional/metrics tests the counters',
  'functional/webhooks': 'the server sends webhooks',
  'security/connections':
    'the host counts connections at its end of the link; security/network-policy tests the end in the sandbox',
  'security/egress-log': 'the gateway writes the log',
  'security/full-disk': 'tests the volume of the data folder, which is the same for each runtime',
  'security/large-results': 'the server handles results in the same way for each runtime',
  'security/egress-shares': 'the gateway divides its capacity outside of sandboxes',
  'security/lying-guest': 'the server checks answers of agents in the same way for each runtime',
  'security/network-gateway': 'tests the gateway itself; security/network-policy tests it from within sandboxes',
  'security/vanishing-clients': 'server and agent handle lost clients in the same way for each runtime',
  'security/privileges': 'tests the rights of server, hostd and gateway themselves',
};
/**
 * Suites that are also skipped with runc: they test a running sandbox, and runc's containers use the same kernel as
 * crun's.
 */
const WITHIN_A_SANDBOX: Readonly<Record<string, string>> = Object.fromEntries(
  [
    ...['functional/command-requests', 'functional/file-contents', 'functional/files', 'functional/languages'],
    ...['functional/output', 'functional/own-zygote', 'functional/previews', 'functional/terminals'],
    ...['functional/timeouts', 'security/file-rights', 'security/own-zygote', 'security/secrets'],
  ].map((name) => [name, 'tests what happens inside a sandbox, where the kernel is the same as with crun']),
);
const suitesBut = (left: Readonly<Record<string, string>>) => {
  for (const [file, reason] of Object.entries(left)) console.log(`skipped: e2e/${file}.test.ts: ${reason}`);
  return globSync('e2e/{functional,security}/*.test.ts', {
    exclude: Object.keys(left).map((file) => `e2e/${file}.test.ts`),
  });
};
const suitesOfRunc = () => suitesBut({ ...SAME_WITH_EACH_RUNTIME, ...WITHIN_A_SANDBOX });
/** Runs the suites in gVisor if `prepare` found a Go toolchain to build it with. */
const suitesIfRunsc = () => {
  const { runsc } = cachePaths(process.env.CLOCHE_CACHE_DIR ?? '/var/cache/cloche');
  if (existsSync(runsc)) return suitesBut(SAME_WITH_EACH_RUNTIME);
  console.log('skipped: gVisor is not built, because Go is not installed');
  return [];
};

const RUNTIME_TESTS = 'packages/*/src/**/*.runtime.test.ts';
/** Runtime tests with real sandboxes or networks, which the host has once. The others keep to their own processes. */
const HOST_TESTS = ['hostd/src', 'egress/src', 'server/src/driver'].map((folder) => {
  return `packages/${folder}/**/*.runtime.test.ts`;
});
/** Exceeds the number of processors by one, because many tests wait more than they compute. */
const UNIT_CONCURRENCY = Math.min(availableParallelism() + 1, 8);
/** Setup for files that need no service of their own. */
const globalSetup = 'e2e/support/shared-service.ts';
const stages: Stage[] = [
  { name: 'types', command: [bin('tsc'), '-p', 'tsconfig.json'] },
  { name: 'lint', command: [bin('biome'), 'check', '.'] },
  { name: 'unit', files: unitTests, concurrency: UNIT_CONCURRENCY },
  // On a new machine it downloads and compiles for minutes.
  { name: 'prepare', command: [process.execPath, 'packages/setup/src/main.ts', 'prepare'], startsEarly: true },
  { name: 'python', files: () => ['scripts/check-python.ts'], concurrency: 1 },
  { name: 'runtime', files: () => globSync(RUNTIME_TESTS, { exclude: HOST_TESTS }), concurrency: 2 },
  { name: 'host', files: () => globSync(HOST_TESTS), concurrency: 1 },
  { name: 'e2e', files: () => globSync('e2e/!(performance)/**/*.test.ts'), concurrency: 1, globalSetup },
  { name: 'performance', files: () => globSync('e2e/performance/**/*.test.ts'), concurrency: 1 },
  { name: 'e2e-runc', files: suitesOfRunc, concurrency: 1, env: { CLOCHE_OCI_RUNTIME: 'runc' }, globalSetup },
  { name: 'e2e-runsc', files: suitesIfRunsc, concurrency: 1, env: { CLOCHE_OCI_RUNTIME: 'runsc' }, globalSetup },
];

const known = stages.map(({ name }) => name);
const plan = readTestArguments(process.argv.slice(2), known);
if (plan.kind !== 'run') {
  (plan.kind === 'help' ? console.log : console.error)(plan.text);
  process.exit(plan.kind === 'help' ? 0 : 2);
}

const started = performance.now();
const totals = { passed: 0, failed: 0, skipped: 0 };
/** Failures of each stage, printed again before the totals: a log may keep only its end. */
const failures: string[] = [];
const before = plan.comparesHost ? hostFootprint() : undefined;
const NODE_COMPILE_CACHE = compiledCodeFolder();
// This run gets a prefix of its own, even when another test run starts it.
delete process.env[RUN_PREFIX];
runPrefix();

const planned = stages.filter(({ name }) => plan.stages.includes(name));
const startEarly = planned.filter(({ startsEarly }, index) => startsEarly && index > 0);
const early = new Map(startEarly.map((stage) => [stage, runQuietly(stage)]));
for (const stage of planned) {
  const stageStarted = performance.now();
  console.log(`\n── ${stage.name}`);
  const result = stage.files ? await runTests(stage) : ((await early.get(stage)?.()) ?? (await runCheck(stage)));
  totals.passed += result.passed;
  totals.failed += result.failed;
  totals.skipped += result.skipped;
  if (result.failed > 0) failures.push(`── ${stage.name}\n${result.failures}`);
  const seconds = ((performance.now() - stageStarted) / 1000).toFixed(1);
  console.log(`── ${stage.name}: ${result.passed} passed, ${result.failed} failed, ${seconds} s`);
  if (stage.name === 'prepare' && result.failed > 0) break;
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

const notRun = describeNotRun(plan, known);
if (notRun !== undefined) console.log(`\n${notRun}`);
console.log(`\n${((performance.now() - started) / 1000).toFixed(0)} s in all`);
const skipped = totals.skipped > 0 ? `, ${totals.skipped} skipped` : '';
console.log(`${totals.passed} passed, ${totals.failed} failed${skipped}`);
process.exitCode = totals.failed === 0 ? 0 : 1;

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

/** Starts a check. The returned function prints what it said once it has ended. */
function runQuietly({ command: [program = '', ...args] = [] }: Stage): () => Promise<StageReport> {
  const child = spawn(program, args, { stdio: ['ignore', 'pipe', 'pipe'] });
  const ended = once(child, 'close');
  const said = Promise.all([text(child.stdout), text(child.stderr)]);
  return async () => {
    const [code] = await ended;
    for (const each of await said) process.stdout.write(each);
    return reportOf(code);
  };
}

function reportOf(code: number | null): StageReport {
  return { passed: code === 0 ? 1 : 0, failed: code === 0 ? 0 : 1, skipped: 0, failures: '' };
}

/** Runs test files in Node's runner. A report of this project counts the totals, and a readable one is printed. */
async function runTests({ files: findFiles, concurrency = 1, env = {}, globalSetup }: Stage): Promise<StageReport> {
  const files = findFiles?.().sort() ?? [];
  if (files.length === 0) return { passed: 0, failed: 0, skipped: 0, failures: '' };
  const folder = mkdtempSync(join(tmpdir(), 'cloche-test-report-'));
  const file = join(folder, 'report.json');
  try {
    const command = [
      process.execPath,
      '--test',
      `--test-concurrency=${concurrency}`,
      '--test-timeout=300000',
      ...(globalSetup ? [`--test-global-setup=${globalSetup}`] : []),
      `--test-reporter=${process.stdout.isTTY ? 'spec' : './scripts/terse-reporter.ts'}`,
      '--test-reporter-destination=stdout',
      '--test-reporter=./scripts/stage-report.ts',
      `--test-reporter-destination=${file}`,
      ...files,
    ];
    const code = await run(command, { NODE_COMPILE_CACHE, ...env });
    const report: StageReport = JSON.parse(readFileSync(file, 'utf8'));
    // The runner failed although no test did.
    return report.failed === 0 && code !== 0 ? { ...report, failed: 1 } : report;
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

function run([command, ...args]: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<number> {
  return new Promise((resolve) => {
    const stdio = ['ignore', 'inherit', 'inherit'] as const;
    const child = spawn(command ?? '', args, { stdio: [...stdio], env: { ...process.env, ...env } });
    child.on('error', (error) => {
      console.error(`${command}: ${error.message}`);
      resolve(1);
    });
    child.on('exit', (code) => resolve(code ?? 1));
  });
}
