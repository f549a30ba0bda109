/** Checks the direction of imports. */
import assert from 'node:assert/strict';
import { globSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { describe, it } from 'node:test';

/** Packages of this repository that each package may import, tests not counted. */
const MAY_IMPORT: Record<string, readonly string[]> = {
  contract: [],
  layout: [],
  settings: [],
  'node-support': [],
  protocol: [],
  server: ['contract', 'layout', 'node-support', 'protocol', 'settings'],
  hostd: ['layout', 'node-support', 'protocol', 'settings'],
  egress: ['contract', 'layout', 'node-support', 'protocol', 'settings'],
  agent: ['layout', 'node-support', 'protocol', 'kernel-js'],
  'kernel-js': ['node-support', 'protocol'],
  sdk: ['contract'],
  'host-checks': ['layout', 'protocol', 'settings'],
  cli: ['sdk', 'contract', 'layout', 'protocol', 'settings', 'host-checks'],
  setup: ['layout', 'node-support', 'protocol', 'settings', 'host-checks', 'agent'],
  testkit: ['contract', 'node-support', 'protocol', 'server'],
};

/**
 * Layers of a package, from the bottom up: folders of `src`, or files in it. A file imports from its own folder and
 * from lower layers, including types; folders of the same layer do not import each other.
 */
const LAYERS: Record<string, readonly (readonly string[])[]> = {
  server: [
    ['base'],
    ['bytes'],
    ['db/migrations'],
    ['db'],
    ['outbox'],
    ['projects'],
    ['api-keys'],
    ['projects/access'],
    ['driver'],
    ['agent-client'],
    ['agent-client/http'],
    ['driver/hostd'],
    ['sandboxes/record'],
    ['idempotency'],
    ['http'],
    ['api-keys/api'],
    ['projects/api'],
    ['templates'],
    ['sandboxes/lifecycle'],
    ['sandboxes/use'],
    ['sandboxes/api'],
    ['files'],
    ['artifacts/store'],
    ['artifacts'],
    ['commands'],
    ['cluster'],
    ['operator'],
    ['previews'],
    ['previews/proxy'],
    ['contexts'],
    ['runs'],
    ['events'],
    ['compose'],
    ['main.ts'],
  ],
  hostd: [
    ['base'],
    ['kernel'],
    ['cgroups'],
    ['addressing'],
    ['instance'],
    ['storage'],
    ['relay'],
    ['oci'],
    ['network'],
    ['processor'],
    ['locks'],
    ['zygote'],
    ['teardown'],
    ['launch'],
    ['pool'],
    ['instances'],
    ['http'],
    ['host'],
    ['main.ts'],
  ],
  agent: [
    ['base', 'config.ts'],
    ['processes', 'wire'],
    ['memory', 'files'],
    ['archives', 'kernels', 'commands'],
    ['provisioning', 'terminals'],
    ['contexts'],
    ['http'],
    ['warm-up'],
    ['guest', 'main.ts'],
  ],
};

/**
 * Further rules of the server: which files must not import which. `not` is matched against the path from `server/src`.
 */
const SERVER_RULES: readonly { of: RegExp; not: RegExp; why: string }[] = [
  {
    of: /-service\.ts$|\/[a-z-]+-repository\.ts$/,
    not: /^http\/(?!route\.ts)|-routes\.ts$/,
    why: 'only routes and http/ know HTTP',
  },
  {
    of: /^(?!compose\/|main|driver\/hostd\/|agent-client\/http\/)/,
    not: /^(driver\/hostd|agent-client\/http)\//,
    why: 'only composition constructs adapters',
  },
  { of: /^(?!bytes\/)/, not: /^bytes\/(?!byte-transfer\.ts)/, why: 'bodies pass one door' },
];

interface Import {
  readonly from: string;
  readonly to: string;
}

const sources = globSync('packages/*/src/**/*.ts').filter(
  (file) => !/\.(test|fixture)\.ts$|\/(testing|test)\//.test(file),
);
const imports: Import[] = sources.flatMap((from) =>
  [
    ...readFileSync(from, 'utf8').matchAll(
      /^(?:import|export)\b[^'"]*?from '([^']+)'|^import '([^']+)'|\bimport\('([^']+)'\)/gm,
    ),
  ].map((match) => ({
    from,
    to: match[1] ?? match[2] ?? match[3] ?? '',
  })),
);

describe('a package', () => {
  it('imports only packages below it', () => {
    const wrong = imports.flatMap(({ from, to }) => {
      const name = from.split('/')[1] ?? '';
      const imported = /^@cloche\/([a-z-]+)/.exec(to)?.[1];
      const allowed = imported === undefined || imported === name || MAY_IMPORT[name]?.includes(imported);
      return allowed ? [] : [`${from} imports ${to}`];
    });
    assert.deepEqual(wrong, []);
  });

  it('is reached by its name, never by a path into its folder', () => {
    const wrong = imports.filter(({ from, to }) => {
      if (!to.startsWith('.')) return false;
      return normalize(join(dirname(from), to)).split('/')[1] !== from.split('/')[1];
    });
    assert.deepEqual(wrong, []);
  });

  it('has a row in docs/architecture.md with the packages that it imports', () => {
    const section = /^## Packages$(.*?)^## /ms.exec(readFileSync('docs/architecture.md', 'utf8'))?.[1] ?? '';
    const rows = [...section.matchAll(/^\| `([a-z-]+)` \| .* \| (.*)\|$/gm)].map(([, name = '', cell = '']) => {
      return [name, [...cell.matchAll(/`([a-z-]+)`/g)].map(([, imported = '']) => imported).sort()] as const;
    });
    assert.deepEqual(
      Object.fromEntries(rows.filter(([name]) => name !== 'kernel-python')),
      Object.fromEntries(Object.entries(MAY_IMPORT).map(([name, names]) => [name, [...names].sort()])),
    );
  });

  it('is listed here', () => {
    const listed = new Set(Object.keys(MAY_IMPORT));
    assert.deepEqual(
      [...new Set(sources.map((file) => file.split('/')[1] ?? ''))].filter((name) => !listed.has(name)),
      [],
    );
  });
});

describe('a folder', () => {
  for (const [name, layers] of Object.entries(LAYERS)) {
    const root = `packages/${name}/src/`;
    const inside = sources.filter((file) => file.startsWith(root)).map((file) => file.slice(root.length));
    /** Returns the folder or file of the table that contains a file: the longest match. */
    const placeOf = (file: string) =>
      layers
        .flat()
        .filter((place) => file === place || file.startsWith(`${place}/`))
        .sort((one, other) => other.length - one.length)[0];
    const heightOf = (place: string | undefined) => layers.findIndex((layer) => layer.includes(place ?? ''));

    it(`of ${name} imports only folders below it`, () => {
      const wrong = imports.flatMap(({ from, to }) => {
        if (!from.startsWith(root) || !to.startsWith('.')) return [];
        const source = from.slice(root.length);
        const target = normalize(join(dirname(source), to));
        const [own, other] = [placeOf(source), placeOf(target)];
        return own === other || heightOf(other) < heightOf(own) ? [] : [`${source} imports ${target}`];
      });
      assert.deepEqual(wrong, []);
    });

    it(`of ${name} has its layer, and each layer is there`, () => {
      assert.deepEqual([...new Set(inside.map(placeOf))].sort(), layers.flat().sort());
    });
  }
});

describe('the server', () => {
  for (const { of, not, why } of SERVER_RULES) {
    it(`keeps its direction: ${why}`, () => {
      const wrong = imports.flatMap(({ from, to }) => {
        if (!from.startsWith('packages/server/src/') || !to.startsWith('.')) return [];
        const source = from.slice('packages/server/src/'.length);
        const target = normalize(join(dirname(source), to));
        return of.test(source) && not.test(target) ? [`${source} imports ${target}`] : [];
      });
      assert.deepEqual(wrong, []);
    });
  }

  it('reads the environment in one file', () => {
    const readers = sources.filter(
      (file) => file.startsWith('packages/server/src/') && readFileSync(file, 'utf8').includes('process.env'),
    );
    assert.deepEqual(
      readers.filter((file) => !/\/(config|main)\.ts$/.test(file)),
      [],
    );
  });
});

describe('a source file', () => {
  it('has one subject: fewer than 400 lines', () => {
    const long = sources.filter((file) => readFileSync(file, 'utf8').split('\n').length > 400);
    assert.deepEqual(long, []);
  });

  it('listens for an abort by `onAbort`, which leaves no listener behind', () => {
    // The SDK runs in browsers, without `node-support`.
    const own = ['packages/node-support/src/abort.ts', 'packages/sdk/src/deadline.ts'];
    const byHand = sources.filter((file) => /addEventListener\(\s*'abort'/.test(readFileSync(file, 'utf8')));
    assert.deepEqual(byHand.sort(), own);
  });
});
