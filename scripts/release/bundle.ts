import { type BuildOptions, build } from 'esbuild';
import { clientContract } from './client-contract.ts';

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
    plugins: [clientContract],
    ...options,
    metafile: true,
  });
  const used = Object.values(metafile.outputs).flatMap(({ inputs }) =>
    Object.entries(inputs).flatMap(([path, { bytesInOutput }]) => (bytesInOutput > 0 ? [path] : [])),
  );
  const folders = used.flatMap((path) => /^(.*node_modules\/(?:@[^/]+\/)?[^/]+)\//.exec(path)?.[1] ?? []);
  return [...new Set(folders)].sort();
}
