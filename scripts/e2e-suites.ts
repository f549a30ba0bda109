/** Which files of `e2e/functional` and `e2e/security` run with which runtime, and which run beside others. */
import { existsSync, globSync } from 'node:fs';
import { cachePaths } from '../packages/shared/layout/src/paths.ts';

/** Suites that run with one runtime only, because they do not depend on the runtime, each with the reason. */
const SAME_WITH_EACH_RUNTIME: Readonly<Record<string, string>> = {
  'functional/adapter-ai-sdk': 'tests a package that uses the SDK; other files test the requests that it sends',
  'functional/adapter-computesdk': 'tests a package that uses the SDK; other files test the requests that it sends',
  'functional/adapter-deepagents': 'tests a package that uses the SDK; other files test the requests that it sends',
  'functional/adapter-inspect': 'tests a package that uses the SDK; other files test the requests that it sends',
  'functional/artifacts': 'the server stores artifacts; functional/files tests how files leave a sandbox',
  'functional/bad-input': 'the server refuses bad input before it reaches a sandbox',
  'functional/command-line': 'tests the command line; functional/commands tests the requests that it sends',
  'functional/completion': 'tests scripts for shells; no sandbox runs anything',
  'functional/examples': 'tests the examples of the command line; other files test the operations that these use',
  'functional/command-logs': 'the agent stores the logs; functional/commands tests how output is captured',
  'functional/command-requests': 'the server checks requests; functional/commands runs commands with each runtime',
  'functional/copy': 'tests the command line; functional/files tests the requests that it sends',
  'functional/interrupted-tests': 'tests what ends a service of a test',
  'functional/copy-database': 'the command copies records; functional/restarts tests how sandboxes are kept',
  'functional/dockerfile-builds': 'tests the command line; functional/template-builds tests the requests that it sends',
  'functional/e2b-javascript': 'the server translates requests to those that other files send',
  'functional/e2b-ledger': 'functional/e2b-javascript tests the same methods',
  'functional/e2b-pauses': 'the server translates requests to those that functional/pauses sends',
  'functional/e2b-python': 'the server translates requests to those that other files send',
  'functional/e2b-python-ledger': 'functional/e2b-javascript tests the same methods',
  'functional/e2b-refusals': 'the server refuses requests before they reach a sandbox',
  'functional/e2b-servers': 'tests which server answers; functional/e2b-javascript tests the same methods',
  'functional/e2b-strangers': 'the server translates requests to those that other files send',
  'functional/e2b-templates': 'functional/template-builds tests the recipes that the server makes of them',
  'functional/e2b-urls': 'the server finds the sandbox of a URL and answers as to other requests',
  'functional/events': 'the server stores events and sends them',
  'functional/fuzz': 'the server refuses malformed requests before they reach a sandbox',
  'functional/guides': 'tests the examples in the documents; other files test the operations that these use',
  'functional/idempotency': 'the server stores and replays responses',
  'functional/installations': 'tests that two installations use different names and addresses',
  'functional/jobs': 'tests SDK and command line; functional/workspace-runs tests the requests that they send',
  'functional/monitoring': 'reads the metrics of server, hostd and gateway, which are the same for each runtime',
  'functional/list-pages': 'the database divides lists into pages',
  'functional/lost-servers': 'servers and their database decide who goes on with what',
  'functional/idle-pauses': 'the server decides when a sandbox is idle; functional/pauses freezes with each runtime',
  'functional/image-languages':
    'functional/image-roots starts an image with each runtime, and functional/languages runs code with each',
  'functional/npm-packages': 'tests the packages of SDK and command line; other files test the requests that they send',
  'functional/ipykernel': 'the kernel runs the cells; functional/languages runs code with each runtime',
  'functional/jupyter-bridge': 'tests a client of the gateway; other files test the operations that it uses',
  'functional/jupyter-gateway': 'the server translates requests to those that other files send',
  'functional/jupyterlab': 'tests a client of the gateway; other files test the operations that it uses',
  'functional/mcp': 'the server translates requests to those that other files send',
  'functional/mcp-conformance': 'the server translates requests to those that other files send',
  'functional/mcp-python': 'the server translates requests to those that other files send',
  'functional/pause-journeys':
    'server and agent decide what a pause does to requests; functional/pauses freezes with each runtime',
  'functional/previews-in-a-browser': 'tests a browser; functional/previews tests the connections that it uses',
  'functional/pull-image': 'starts no sandbox',
  'functional/registry-images':
    'functional/template-builds tests builds; an image is downloaded by a program in a sandbox',
  'functional/python-sdk': 'tests the Python SDK; other files test the requests that it sends',
  'functional/quotas': 'the server counts what limits apply to',
  'functional/operators-guides': 'tests the examples in the documents; other files test the operations that these use',
  'functional/rolling-upgrade':
    'replaces server, hostd and egress; functional/restarts tests what a restart of hostd does to each runtime',
  'functional/run-apis': 'the server translates requests to those that other files send',
  'functional/runtimes': 'starts a service with each runtime itself',
  'functional/servers': 'tests the load balancer, which is outside of sandboxes',
  'functional/shell': 'tests the command line; functional/terminals tests the requests that it sends',
  'functional/stalled-transfers': 'tests timers of the server and the agent; functional/files tests the requests',
  'functional/start': 'tests what npm start prints',
  'functional/streams':
    'the server sends event streams; every run of other files uses the same connection to the agent',
  'functional/template-builds':
    'the server runs the steps of a build as commands; functional/warm-imports builds with each runtime',
  'functional/template-contents': 'tests the packages of a template',
  'functional/repl': 'tests the command line; functional/languages tests the requests that it sends',
  'functional/jupyter-counts': 'the server numbers the cells',
  'functional/e2b-service': 'the server translates requests to those that other files send',
  'functional/workspace-folder': 'the agent makes the folder; functional/files tests the calls that it uses',
  'functional/top': 'tests the command line; functional/metrics tests the requests that it sends',
  'functional/traces': 'the server exports the traces; hostd and agent tell the same steps with each runtime',
  'functional/usage': 'the server adds up counters; functional/metrics tests the counters',
  'functional/webhooks': 'the server sends webhooks',
  'functional/workspace-runs':
    'the server runs a command in a sandbox; functional/commands, files and restarts test what it uses',
  'functional/workspace-archives':
    'the server judges and stores archives; functional/files tests how they are unpacked',
  'functional/workspace-run-output':
    'the agent keeps the output and the server sends it; functional/commands tests how output is captured',
  'security/connections':
    'the host counts connections at its end of the link; security/network-policy tests the end in the sandbox',
  'security/egress-log': 'the gateway writes the log',
  'security/full-disk': 'tests the volume of the data folder, which is the same for each runtime',
  'security/large-results': 'the server handles results in the same way for each runtime',
  'security/egress-shares': 'the gateway divides its capacity outside of sandboxes',
  'security/fuzzed-guest': 'the server checks answers of agents in the same way for each runtime',
  'security/hostile-connections': 'the server takes connections in the same way for each runtime',
  'security/hostile-traffic': 'the gateway takes connections in the same way for each runtime',
  'security/lying-guest': 'the server checks answers of agents in the same way for each runtime',
  'security/network-gateway': 'tests the gateway itself; security/network-policy tests it from within sandboxes',
  'security/vanishing-clients': 'server and agent handle lost clients in the same way for each runtime',
  'security/privileges': 'tests the rights of server, hostd and gateway themselves',
};
/**
 * Suites that are also skipped with runc: they test a running sandbox, and runc's containers use the same kernel as
 * crun's. A suite stays with runc if the program of the runtime does what it tests: isolation, mounts, limits,
 * networks, memory, and how a sandbox starts, ends and outlives hostd.
 */
const WITHIN_A_SANDBOX: Readonly<Record<string, string>> = Object.fromEntries(
  [
    ...['functional/commands', 'functional/file-contents', 'functional/files'],
    ...['functional/languages', 'functional/output', 'functional/own-zygote'],
    ...['functional/metrics', 'functional/previews', 'functional/terminals'],
    ...['functional/timeouts', 'functional/warm-imports'],
    ...['security/file-rights', 'security/own-zygote', 'security/secrets'],
  ].map((name) => [name, 'tests what happens inside a sandbox, where the kernel is the same as with crun']),
);
/** Suites that are skipped with runc for a reason of their own. */
const SAME_WITH_RUNC: Readonly<Record<string, string>> = {
  'security/network-policy': 'hostd makes the network before the runtime enters it; functional/network tests that',
};
/**
 * Suites that run one at a time, each with the reason. The others run four at a time, two with gVisor: each file has an
 * organization or an installation of its own.
 */
const ALONE: Readonly<Record<string, string>> = {
  'functional/forked-kernels': 'waits for kernels to be forked, which takes long in gVisor beside other sandboxes',
  'functional/own-zygote': 'compares durations',
  'functional/streams': 'measures how late output arrives',
  'functional/timeouts': 'measures how late a run ends',
  'security/connections': 'counts connections that the host tracks',
  'security/egress-shares': 'measures how fast a neighbour transfers',
  'security/file-rights': 'needs a race between two processes',
  'security/forked-kernels': 'waits for kernels to be forked, which takes long in gVisor beside other sandboxes',
  'security/kernel-tables': 'fills tables of the kernel',
  'security/large-results': 'measures how fast a neighbour is served',
  'security/limits': 'measures how fast a neighbour is served',
  'security/lying-guest': 'measures how long requests take',
  'security/socket-buffers': 'fills buffers of the kernel',
};

/** Suites that do not run once more with three servers of one database, each group with the reason. */
const NOT_OF_SERVERS: Readonly<Record<string, string>> = {
  ...of('starts its servers itself, one or several, or ends them', [
    ...['copy-database', 'e2b-servers', 'guest-folders', 'guides', 'installations', 'interrupted-tests'],
    ...[
      'lost-servers',
      'monitoring',
      'npm-packages',
      'operators-guides',
      'pauses',
      'restarts',
      'rolling-upgrade',
      'runtimes',
      'servers',
    ],
    ...['start', 'traces'],
  ]),
  ...of('measures one service; unit tests of usage count over several servers', ['metrics', 'usage']),
  ...of('tests a client; other files test the requests that it sends', [
    ...['adapter-ai-sdk', 'adapter-computesdk', 'adapter-deepagents', 'adapter-inspect', 'command-line', 'copy'],
    ...['completion', 'dockerfile-builds', 'e2b-ledger', 'e2b-python', 'e2b-python-ledger', 'examples', 'jobs'],
    ...['jupyter-bridge', 'jupyterlab'],
    ...['mcp-python', 'previews-in-a-browser', 'python-sdk', 'repl', 'shell', 'top'],
  ]),
  'functional/list-pages': 'compose/lists walks every list of a server with PostgreSQL',
  'functional/jupyter-gateway':
    'clients of a kernel get one server, which answers as a server alone does; e2b-servers and jupyter-counts test that',
  ...of('each server refuses or translates a request by itself', [
    ...[
      'bad-input',
      'e2b-refusals',
      'e2b-service',
      'e2b-strangers',
      'e2b-templates',
      'e2b-urls',
      'fuzz',
      'mcp',
      'mcp-conformance',
    ],
    'run-apis',
  ]),
  ...of('tests what happens inside a sandbox or on its host, whichever server asks', [
    ...[
      'command-logs',
      'command-requests',
      'files',
      'file-contents',
      'forked-kernels',
      'image-languages',
      'image-roots',
      'languages',
      'network',
      'ipykernel',
    ],
    ...['output', 'own-zygote', 'process-limit', 'stalled-transfers', 'streams', 'timeouts', 'warm-imports'],
    ...['pull-image', 'registry-images', 'template-contents', 'workspace-folder', 'workspace-run-output'],
  ]),
};

/**
 * Test files that take longest, with any runtime and any number of servers. They start first, so that none of them is
 * the end of a stage.
 */
const LONGEST: readonly string[] = [
  ...[
    ...['template-builds', 'guides', 'workspace-runs', 'operators-guides', 'npm-packages', 'webhooks', 'start'],
    ...['rolling-upgrade', 'commands', 'quotas', 'terminals', 'python-sdk', 'adapter-deepagents', 'jupyter-bridge'],
    ...['image-languages', 'e2b-python-ledger', 'lost-servers', 'metrics', 'usage', 'e2b-ledger', 'warm-imports'],
    'ipykernel',
  ].map((name) => `e2e/functional/${name}.test.ts`),
  ...['network-policy', 'network-gateway', 'surroundings', 'secrets'].map((name) => `e2e/security/${name}.test.ts`),
  ...['provisioning/sandbox-zygote', 'contexts/silent-server', 'contexts/overtaken-start', 'commands/commands'].map(
    (name) => `packages/guest/agent/src/${name}.runtime.test.ts`,
  ),
  'packages/host/setup/src/installation/start-installation.runtime.test.ts',
];

function fileOf(name: string): string {
  return existing(`e2e/${name}.test.ts`);
}

/** Throws if there is no such file, so that no table names one that was renamed. */
function existing(file: string): string {
  if (!existsSync(file)) throw new Error(`${file} does not exist`);
  return file;
}

/** Returns whether a file must not run beside others. */
export function runsAlone(file: string): boolean {
  return Object.keys(ALONE).some((name) => fileOf(name) === file);
}

/** Returns files in the order in which a stage starts them. */
export function longestFirst(files: readonly string[]): string[] {
  const longest = LONGEST.map(existing).filter((file) => files.includes(file));
  return [...longest, ...files.filter((file) => !longest.includes(file)).sort()];
}

/** Returns every suite but those of the stages `performance` and `machines`. */
export function suites(): string[] {
  return globSync('e2e/{functional,security}/**/*.test.ts');
}

export function suitesOfRunc(): string[] {
  return suitesBut({ ...SAME_WITH_EACH_RUNTIME, ...WITHIN_A_SANDBOX, ...SAME_WITH_RUNC });
}

/** Returns the suites in which one server must see what another one has written, and prints those that are left out. */
export function suitesOfServers(): string[] {
  return suitesBut(NOT_OF_SERVERS, 'functional');
}

/** Returns the suites for gVisor if `prepare` found a Go toolchain to build it with. */
export function suitesIfRunsc(): string[] {
  const { runsc } = cachePaths(process.env.CLOCHE_CACHE_DIR ?? '/var/cache/cloche');
  if (existsSync(runsc))
    return [...suitesBut(SAME_WITH_EACH_RUNTIME), 'packages/host/hostd/src/host/hostd.runtime.test.ts'];
  console.log('skipped: gVisor is not built, because Go is not installed');
  return [];
}

/** Prints the suites that are left out. */
function suitesBut(left: Readonly<Record<string, string>>, folders = '{functional,security}'): string[] {
  for (const [name, reason] of Object.entries(left)) console.log(`skipped: ${fileOf(name)}: ${reason}`);
  return globSync(`e2e/${folders}/*.test.ts`, { exclude: Object.keys(left).map(fileOf) });
}

function of(reason: string, names: readonly string[]): Record<string, string> {
  return Object.fromEntries(names.map((name) => [`functional/${name}`, reason]));
}
