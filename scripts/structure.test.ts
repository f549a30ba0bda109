/** Checks the direction of imports, and the sizes of files and functions. */
import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { basename, dirname, join, normalize } from 'node:path';
import { describe, it } from 'node:test';
import { FolderDeps } from './folder-deps.ts';
import { functionLengths } from './function-lengths.ts';
import { circles, forbiddenPackages, type Import, importsOf, packageOf } from './import-rules.ts';

/** Packages of this repository that each package may import, tests not counted. */
const MAY_IMPORT: Record<string, readonly string[]> = {
  contract: [],
  layout: [],
  settings: [],
  'node-support': [],
  protocol: [],
  archive: ['protocol'],
  runtime: ['contract', 'node-support', 'protocol'],
  server: [
    'archive',
    'runtime',
    'contract',
    'e2b',
    'jupyter',
    'kit',
    'layout',
    'mcp',
    'node-support',
    'protocol',
    'run-once-apis',
    'settings',
  ],
  hostd: ['layout', 'node-support', 'protocol', 'settings'],
  egress: ['contract', 'layout', 'node-support', 'protocol', 'settings'],
  agent: ['layout', 'node-support', 'protocol', 'kernel-js', 'archive', 'image-archive'],
  'kernel-js': ['node-support', 'protocol'],
  sdk: ['contract', 'archive'],
  kit: ['node-support', 'sdk'],
  e2b: ['contract', 'kit', 'node-support', 'sdk'],
  mcp: ['contract', 'kit', 'node-support', 'sdk'],
  jupyter: ['contract', 'kit', 'node-support', 'sdk'],
  'run-once-apis': ['contract', 'kit', 'node-support', 'sdk'],
  dockerfile: ['contract', 'archive'],
  'image-archive': ['archive', 'layout', 'protocol'],
  'host-checks': ['layout', 'protocol', 'settings'],
  cli: ['sdk', 'mcp', 'dockerfile', 'archive', 'image-archive', 'contract', 'protocol'],
  setup: ['cli', 'archive', 'contract', 'layout', 'node-support', 'protocol', 'settings', 'host-checks', 'agent'],
  testkit: ['contract', 'node-support', 'protocol', 'runtime'],
};

/**
 * Further rules of the server: which files must not import which. `not` is matched against the path from `server/src`, or
 * against the name of a package.
 */
const SERVER_RULES: readonly { of: RegExp; not: RegExp; why: string }[] = [
  {
    of: /-service\.ts$|\/[a-z-]+-repository\.ts$/,
    not: /^platform\/http\/(?!route\.ts)|-routes\.ts$/,
    why: 'only routes and http/ know HTTP',
  },
  {
    of: /^(?!compose\/|main|platform\/idempotency\/sqlite\/)/,
    not: /^(platform\/idempotency\/sqlite\/|@cloche\/runtime\/hostd-driver$)/,
    why: 'only composition constructs adapters',
  },
  { of: /^platform\//, not: /^(features|compose)\//, why: 'the platform knows no feature' },
  {
    of: /^(?!platform\/db\/|compose\/open-coordination|database-program)/,
    not: /^platform\/db\/database-kind/,
    why: '`Coordination` has what depends on the number of servers, `platform/db` what depends on the SQL',
  },
];

const MAX_FUNCTION_LINES = 80;

/** Files whose longest function exceeds `MAX_FUNCTION_LINES`, and why. */
const LONG_FUNCTIONS: Readonly<Record<string, string>> = {
  'packages/service/server/src/compose/compose-features.ts': 'lists the parts of the server',
  'packages/service/server/src/compose/compose-sandboxes.ts': 'lists the parts of the server',
  'packages/service/server/src/compose/compose.ts': 'lists the parts of the server',
  'packages/shared/testkit/src/agent-commands-suite.ts': 'declares the tests of a suite',
  'packages/shared/testkit/src/agent-contents-suite.ts': 'declares the tests of a suite',
  'packages/shared/testkit/src/agent-files-suite.ts': 'declares the tests of a suite',
  'packages/shared/testkit/src/driver-instances-suite.ts': 'declares the tests of a suite',
  'packages/shared/testkit/src/driver-parking-suite.ts': 'declares the tests of a suite',
  'packages/shared/testkit/src/runtime-driver-suite.ts': 'declares the tests of a suite',
};

const sources = globSync('packages/*/*/src/**/*.ts').filter(
  (file) => !/\.(test|fixture|d)\.ts$|\/(testing|test)\//.test(file),
);
const imports = sources.flatMap((file) => importsOf(file, readFileSync(file, 'utf8')));

describe('a package', () => {
  it('a package imports only packages below it', () => {
    assert.deepEqual(forbiddenPackages(MAY_IMPORT, imports), []);
  });

  it('a package is reached by its name, never by a path into its folder', () => {
    const wrong = imports.filter(({ from, to }) => {
      if (!to.startsWith('.')) return false;
      const path = normalize(join(dirname(from), to));
      // It has the version of the release.
      if (path === 'package.json') return false;
      return packageOf(path) !== packageOf(from);
    });
    assert.deepEqual(wrong, []);
  });

  it('a package has a row in docs/architecture.md with the packages that it imports', () => {
    const section = /^## Packages$(.*?)^## /ms.exec(readFileSync('docs/architecture.md', 'utf8'))?.[1] ?? '';
    const rows = [...section.matchAll(/^\| `([a-z0-9-]+)` \| .* \| (.*)\|$/gm)].map(([, name = '', cell = '']) => {
      return [name, [...cell.matchAll(/`([a-z0-9-]+)`/g)].map(([, imported = '']) => imported).sort()] as const;
    });
    assert.deepEqual(
      Object.fromEntries(rows.filter(([name]) => !name.includes('-python'))),
      Object.fromEntries(Object.entries(MAY_IMPORT).map(([name, names]) => [name, [...names].sort()])),
    );
  });

  it('a package has its test support in `testing/` beside its sources; tests in Python are in `tests/`', () => {
    const folders = globSync('packages/*/*/**/{test,tests,testing}', { exclude: ['**/node_modules/**'] });
    assert.deepEqual(
      folders.filter((folder) => !/^packages\/[^/]+\/([^/]+\/testing|[^/]*-python\/tests)$/.test(folder)),
      [],
    );
  });

  it('a package is in the table of CONTRIBUTING.md that says where a change goes', () => {
    const table = /^## Where a change goes$(.*?)^## /ms.exec(readFileSync('CONTRIBUTING.md', 'utf8'))?.[1] ?? '';
    const named = new Set([...table.matchAll(/`(?:packages\/[a-z]+\/)?([a-z0-9-]+)[`/]/g)].map(([, name]) => name));
    const all = globSync('packages/*/*').map((folder) => basename(folder));
    assert.ok(all.length > 20);
    assert.deepEqual(
      all.filter((name) => !named.has(name)),
      [],
    );
  });

  it('each package is in the table of layers', () => {
    const listed = new Set(Object.keys(MAY_IMPORT));
    assert.deepEqual(
      [...new Set(sources.map(packageOf))].filter((name) => !listed.has(name)),
      [],
    );
  });
});

describe('the server', () => {
  it('the server names hostd only where it speaks to it', () => {
    // The last one passes metrics on, whose names begin with the process that has them.
    const speaks = /^packages\/service\/server\/src\/(compose\/|platform\/http\/host-metrics\.ts)/;
    const others = sources.filter((file) => file.startsWith('packages/service/server/src/') && !speaks.test(file));
    assert.ok(others.length > 100);
    assert.deepEqual(
      others.filter((file) => /hostd/i.test(readFileSync(file, 'utf8'))),
      [],
    );
  });
});

describe('a status of a sandbox', () => {
  it('a status of a sandbox is named in the table of facts and the transitions alone', () => {
    // `create-sandbox.ts` writes the first one.
    const named = /(?<!status: )'(creating|starting|expiring|destroyed)'/;
    const may = /\/(sandbox-status\/status-facts|sandbox-records\/sandbox)\.ts|\/db\/(tables|migrations)\//;
    const others = sources.filter((file) => /^packages\/(service|gateways)\//.test(file) && !may.test(file));
    assert.deepEqual(
      others.filter((file) => named.test(readFileSync(file, 'utf8'))),
      [],
    );
  });
});

describe('a folder', () => {
  for (const src of globSync('packages/*/*/src').sort()) {
    const root = `${src}/`;
    const inside = sources.filter((file) => file.startsWith(root)).map((file) => file.slice(root.length));
    const deps = FolderDeps.read(root, inside);

    it(`a folder of ${src} has a list of what it imports, itself or above it`, () => {
      assert.deepEqual(
        inside.filter((file) => deps.placeOf(file) === undefined),
        [],
      );
    });

    it(`a folder of ${src} imports what its list names, and its list names no more`, () => {
      assert.deepEqual(deps.faults(imports), []);
    });

    it(`a folder of ${src} imports none that imports it, types included`, () => {
      assert.deepEqual(deps.circles(imports), []);
    });
  }
});

describe('the server', () => {
  for (const { of, not, why } of SERVER_RULES) {
    it(`the server keeps its direction: ${why}`, () => {
      const wrong = imports.flatMap(({ from, to }) => {
        if (!from.startsWith('packages/service/server/src/')) return [];
        const source = from.slice('packages/service/server/src/'.length);
        const target = to.startsWith('.') ? normalize(join(dirname(source), to)) : to;
        return of.test(source) && not.test(target) ? [`${source} imports ${target}`] : [];
      });
      assert.deepEqual(wrong, []);
    });
  }

  it('the server reads the environment in one file', () => {
    const readers = sources.filter(
      (file) => file.startsWith('packages/service/server/src/') && readFileSync(file, 'utf8').includes('process.env'),
    );
    assert.deepEqual(
      readers.filter((file) => !/\/(config|main)\.ts$/.test(file)),
      [],
    );
  });
});

describe('a source file', () => {
  it('a source file has one subject: at most 300 lines', () => {
    const long = sources.filter((file) => readFileSync(file, 'utf8').trimEnd().split('\n').length > 300);
    assert.deepEqual(long, []);
  });

  it('a source file has no function of more than 80 lines, apart from lists', () => {
    const long = sources.filter((file) =>
      functionLengths(readFileSync(file, 'utf8')).some(({ lines }) => lines > MAX_FUNCTION_LINES),
    );
    assert.deepEqual(long.sort(), Object.keys(LONG_FUNCTIONS).sort());
  });

  it('a source file imports no file that imports it, types not counted', () => {
    assert.deepEqual(circles(imports), []);
  });

  it('a source file uses `SocketBody` only behind `receiveBody` of the agent and in `byte-transfer.ts` of the server', () => {
    const knowing = sources.filter((file) => /\bSocketBody\b/.test(readFileSync(file, 'utf8')));
    assert.deepEqual(
      knowing.filter((file) => !file.startsWith('packages/shared/node-support/')).sort(),
      [
        'guest/agent/src/files/receive-body.ts',
        'guest/agent/src/files/receive-from-socket.ts',
        'service/runtime/src/bytes/byte-transfer.ts',
      ].map((file) => `packages/${file}`),
    );
  });

  it('a source file opens no stream of a file handle, and closes a descriptor with a callback', () => {
    // Node.js ends the process when a file handle is collected while it is open, or when such a `close` fails.
    const fragile = /(?<!fs)\.create(?:Read|Write)Stream\(|(?<![.\w])close\([\w.#]*[fF]d\);/;
    const found = sources.filter((file) => fragile.test(readFileSync(file, 'utf8')));
    assert.deepEqual(found, ['packages/guest/kernel-js/src/worker/descriptors.ts']);
  });

  it('a source file leaves connections that leave HTTP to `GuardedServer`, apart from the agent', () => {
    // The agent's only client is the server, and a failure ends one sandbox (docs/design/isolation.md).
    const agents = ['packages/guest/agent/src/http/agent-server.ts', 'packages/guest/agent/src/warm-up/warm-up.ts'];
    const others = sources.filter((file) => !file.startsWith('packages/shared/node-support/'));
    const servers = others.filter((file) =>
      /^import \{[^}]*(?<!type )\b(createServer|Server)\b[^}]*\} from 'node:https?';$/m.test(
        readFileSync(file, 'utf8'),
      ),
    );
    assert.deepEqual(servers.sort(), agents);
    // Each has its rows in the table of fronts, but for the gateway, which serves what sandboxes send elsewhere.
    const guarded = others.filter((file) => /\bnew GuardedServer\(|\bcreateJsonApp\(/.test(readFileSync(file, 'utf8')));
    assert.deepEqual(guarded.sort(), [
      'packages/host/egress/src/control/control-server.ts',
      'packages/host/egress/src/proxy/http1-proxy.ts',
      'packages/host/hostd/src/http/open-server.ts',
      'packages/service/server/src/features/operator/operator-app.ts',
      'packages/service/server/src/features/secrets/secret-socket.ts',
      'packages/service/server/src/platform/http/app.ts',
      'packages/service/server/src/platform/http/json-app.ts',
    ]);
    const leaving =
      /\b(assignSocket|detachSocket|shouldUpgradeCallback|clientError|checkExpectation|dropRequest)\b|server\.\w+\(\s*'(upgrade|connect)'|\.on\(\s*'upgrade'/i;
    assert.deepEqual(others.filter((file) => leaving.test(readFileSync(file, 'utf8'))).sort(), [
      'packages/guest/agent/src/warm-up/warm-up.ts',
      'packages/guest/agent/src/wire/upgrades.ts',
    ]);
  });

  it('listens for an abort by `onAbort`, which leaves no listener behind', () => {
    // The SDK runs in browsers, without `node-support`.
    const own = ['packages/clients/sdk/src/deadline.ts', 'packages/shared/node-support/src/abort.ts'];
    const byHand = sources.filter((file) => /addEventListener\(\s*'abort'/.test(readFileSync(file, 'utf8')));
    assert.deepEqual(byHand.sort(), own);
  });
});

describe('a protocol beside /v1', () => {
  it('a protocol beside /v1 reads what comes from sandboxes and clients with a bound, by `bytesUpTo`', () => {
    // Answers of `/v1` that its contract bounds.
    const bounded = ['packages/gateways/kit/src/loopback-client.ts'];
    const whole = /\.(?:readText|arrayBuffer|bytes|blob|json)\(|\.text\(\)|stream\/consumers/;
    const files = sources.filter((file) => /^packages\/gateways\//.test(file));
    assert.deepEqual(
      files.filter((file) => whole.test(readFileSync(file, 'utf8'))),
      bounded,
    );
  });
});

describe('a check of this file', () => {
  const made: Import[] = [
    { from: 'packages/shared/lower/src/low/a.ts', to: '../high/b.ts', isOfTypes: true },
    { from: 'packages/shared/lower/src/high/b.ts', to: '../low/c.ts' },
    { from: 'packages/shared/lower/src/low/c.ts', to: './d.ts' },
    { from: 'packages/shared/lower/src/low/d.ts', to: './c.ts' },
    { from: 'packages/shared/lower/src/low/d.ts', to: '@cloche/upper' },
    { from: 'packages/service/upper/src/index.ts', to: '@cloche/lower' },
  ];

  it('a check of structure.test.ts names a package that must not be imported', () => {
    const mayImport = { lower: [], upper: ['lower'] };
    assert.deepEqual(forbiddenPackages(mayImport, made), ['packages/shared/lower/src/low/d.ts imports @cloche/upper']);
  });

  const root = 'packages/shared/lower/src/';

  it('a check of structure.test.ts names an import that is in no list, also of types', () => {
    const deps = new FolderDeps(
      root,
      new Map([
        ['low', []],
        ['high', ['low']],
      ]),
    );
    assert.deepEqual(deps.faults(made), ['low/a.ts imports high, which low/DEPS does not name']);
  });

  it('a check of structure.test.ts names a line that nothing needs', () => {
    const deps = new FolderDeps(
      root,
      new Map([
        ['low', ['high']],
        ['high', ['low', 'elsewhere']],
      ]),
    );
    assert.deepEqual(deps.faults(made), ['high/DEPS names elsewhere, which nothing there imports']);
  });

  it('a check of structure.test.ts names folders that import each other, also only types', () => {
    const deps = new FolderDeps(
      root,
      new Map([
        ['low', ['high']],
        ['high', ['low']],
      ]),
    );
    assert.deepEqual(deps.circles(made), ['low → high → low']);
  });

  it('a check of structure.test.ts finds a file without a list', () => {
    const deps = new FolderDeps(root, new Map([['low', []]]));
    assert.equal(deps.placeOf('low/deeper/a.ts'), 'low');
    assert.equal(deps.placeOf('high/b.ts'), undefined);
  });

  it('a check of structure.test.ts names a circle of files', () => {
    const [c, d] = ['packages/shared/lower/src/low/c.ts', 'packages/shared/lower/src/low/d.ts'];
    assert.deepEqual(circles(made), [`${c} → ${d} → ${c}`]);
  });

  it('a check of structure.test.ts reads each form of an import', () => {
    const source = [
      "import type { A } from './a.ts';",
      "import {\n  b,\n} from './b.ts';",
      'export type F = number;',
      "export * from './c.ts';",
      "import './d.ts';",
      "const e = await import('./e.ts');",
    ].join('\n');
    const found = importsOf('f.ts', source).map(({ to, isOfTypes }) => [to, isOfTypes]);
    assert.deepEqual(found, [
      ['./a.ts', true],
      ['./b.ts', false],
      ['./c.ts', false],
      ['./d.ts', false],
      ['./e.ts', false],
    ]);
  });

  it('a check of structure.test.ts measures functions, methods and arrow functions', () => {
    const source = [
      'function one(value: string): void {',
      '  const two = () => [',
      '    value,',
      '  ];',
      '}',
      'class Three {',
      '  #four(): void {',
      '  }',
      '}',
    ];
    assert.deepEqual(functionLengths(source.join('\n')), [
      { name: 'one', lines: 5 },
      { name: 'two', lines: 3 },
      { name: 'four', lines: 2 },
    ]);
  });
});

describe('the SDK', () => {
  it('the SDK decides by codes and details of errors, never by their messages', () => {
    const decides =
      /(?<!typeof )\bmessage\s*(?:===|!==|\.(?:includes|startsWith|endsWith|match|search|test)\b)|\.test\(\w*\.?message\)/;
    const files = sources.filter((file) => file.startsWith('packages/clients/sdk/src/'));
    assert.deepEqual(
      files.filter((file) => decides.test(readFileSync(file, 'utf8'))),
      [],
    );
  });
});
