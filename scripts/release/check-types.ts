/** Checks that the built declarations agree with the sources, and that they compile wherever they are imported. */
import { copyFileSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { GENERIC } from './contract-types.ts';
import { compile } from './declarations.ts';

/** Names that the built package has in a simpler form. */
const SIMPLER = ['Operation', 'Operations', 'SentOperation'];

/** Compares two types property by property: name, whether it is optional, type. */
const SAME = `
type Plain<T> = T extends string | number | boolean | null | undefined ? T
  : T extends readonly (infer Item)[] ? Plain<Item>[]
  : T extends object ? { [Key in keyof T]: Plain<T[Key]> } : T;
type Same<One, Other> =
  (<T>() => T extends Plain<One> ? 1 : 2) extends (<T>() => T extends Plain<Other> ? 1 : 2) ? true : false;
`;

/** @throws an error that names each type of `names` that differs from the contract's sources */
export function checkContractTypes(names: readonly string[], built: string): void {
  const scratch = mkdtempSync(join(tmpdir(), 'cloche-types-check-'));
  const source = resolve('packages/shared/contract/src/index.ts');
  try {
    // Ids have a mark that is unique to the file that declares it.
    const ownIds = readFileSync(join(built, 'contract.d.ts'), 'utf8');
    const text = ownIds.replace(/^export type (\w+) = Id<.*$/gm, `export type $1 = import('${source}').$1;`);
    writeFileSync(join(scratch, 'built.d.ts'), text);
    const passedOver: readonly string[] = [...GENERIC, ...SIMPLER];
    const declared = names.filter((name) => !passedOver.includes(name));
    const lines = [
      `import type * as Source from '${source}';`,
      `import type * as Built from './built.js';`,
      SAME,
      `type OfNames = { ${declared.map((name) => `${name}: Same<Source.${name}, Built.${name}>`).join('; ')} };`,
      ...GENERIC.map((name) => {
        const of = (from: string) => (name === 'ErrorDetails' ? 'Key' : `${from}.Operations[Key]`);
        const keys = name === 'ErrorDetails' ? 'Source.ErrorCode' : 'keyof Source.Operations';
        return `type Of${name} = { [Key in ${keys}]: Same<Source.${name}<${of('Source')}>, Built.${name}<${of('Built')}>> };`;
      }),
      'type Other<Compared> = { [Key in keyof Compared]: Compared[Key] extends true ? never : Key }[keyof Compared];',
      ...['Names', ...GENERIC].map((name) => `export const of${name}: Record<Other<Of${name}>, never> = {};`),
    ];
    writeFileSync(join(scratch, 'package.json'), '{"type":"module"}');
    writeFileSync(join(scratch, 'check.ts'), lines.join('\n'));
    compile({ typeRoots: [resolve('node_modules/@types')] }, [join(scratch, 'check.ts')], scratch);
  } finally {
    rmSync(scratch, { recursive: true });
  }
}

/** @throws an error if a program that imports a built package does not compile, in Node or in a page */
export function checkDeclarations(entries: readonly string[], built: string): void {
  const scratch = mkdtempSync(join(tmpdir(), 'cloche-types-check-'));
  try {
    writeFileSync(join(scratch, 'package.json'), '{"type":"module"}');
    copyFileSync(resolve('tsconfig.json'), join(scratch, 'base.json'));
    const strict = { skipLibCheck: false, noEmit: true, strict: true, allowImportingTsExtensions: false };
    const paths = entries.map((entry) => join(built, entry));
    const page = {
      ...strict,
      types: [],
      lib: ['es2022', 'dom', 'dom.iterable'],
      module: 'esnext',
      moduleResolution: 'bundler',
    };
    const node = { ...strict, types: ['node'], typeRoots: [resolve('node_modules/@types')], lib: ['es2022'] };
    compile(page, paths, scratch);
    compile(node, paths, scratch);
  } finally {
    rmSync(scratch, { recursive: true });
  }
}
