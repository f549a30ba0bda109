import { resolve } from 'node:path';
import { type BuildOptions, build, type Plugin } from 'esbuild';
import { clientContract } from './client-contract.ts';
import { releaseVersion } from './version.ts';

/** Leaves of the manifest at the root only its version. */
const rootManifest: Plugin = {
  name: 'root-manifest',
  setup(build) {
    build.onLoad({ filter: /\/package\.json$/ }, ({ path }) => {
      if (path !== resolve('package.json')) return undefined;
      return { contents: JSON.stringify({ version: releaseVersion() }), loader: 'json' };
    });
  },
};

/** Builds ESM files for Node 20 and newer. Returns the folders of the packages whose code they contain. */
export async function bundle(options: BuildOptions): Promise<string[]> {
  const { metafile } = await build({
    bundle: true,
    format: 'esm',
    splitting: true,
    chunkNames: 'chunks/[name]-[hash]',
    target: ['es2022', 'node20.11'],
    legalComments: 'none',
    charset: 'utf8',
    logLevel: 'warning',
    plugins: [clientContract, rootManifest],
    ...options,
    metafile: true,
  });
  const used = Object.values(metafile.outputs).flatMap(({ inputs }) =>
    Object.entries(inputs).flatMap(([path, { bytesInOutput }]) => (bytesInOutput > 0 ? [path] : [])),
  );
  const folders = used.flatMap((path) => /^(.*node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1] ?? []);
  return [...new Set(folders)].sort();
}
