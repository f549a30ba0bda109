import { readFileSync } from 'node:fs';
import { type LoadHookSync, registerHooks, stripTypeScriptTypes } from 'node:module';
import { fileURLToPath } from 'node:url';
import { compileWithEsbuild } from '../esbuild-program.ts';

const COMMENT = /\/\*[\s\S]*?\*\/|\/\/.*$/gm;
/** A decorator or an accessor; also some text in strings, for which compiling changes nothing. */
const DECORATION = /(?:^|[\s(,;{}])@[\w$(]|\baccessor\s/;
const PARAMETER_DECORATOR = /[(,]\s*@[\w$(]/;
const MODULE_SYNTAX = /^\s*(?:import|export)\b/m;
/** With these options a decorator of a parameter is allowed, and all decorators are those of TypeScript before 5.0. */
const EXPERIMENTAL = '--tsconfig-raw={"compilerOptions":{"experimentalDecorators":true}}';

/**
 * Lets cells import TypeScript files with all that cells themselves may have: enums, namespaces, parameter properties
 * and decorators. Node only removes types. Calls `remember` with the path and the source map of a compiled file.
 */
export function loadTypeScriptFiles(remember: (path: string, sourceMap: string) => void): void {
  registerHooks({ load: (url, context, nextLoad) => loadCompiled(url, context, remember) ?? nextLoad(url, context) });
}

/** Returns undefined for a file that Node can load itself, or that has an error, which Node then reports. */
function loadCompiled(
  url: string,
  { format }: Parameters<LoadHookSync>[1],
  remember: (path: string, sourceMap: string) => void,
): ReturnType<LoadHookSync> | undefined {
  const extension = /^file:[^?#]*\.([cm]?)ts(?:[?#]|$)/.exec(url)?.[1];
  // Node removes no types below `node_modules`.
  if (extension === undefined || url.includes('/node_modules/')) return undefined;
  const path = fileURLToPath(url);
  const source = readIfPossible(path);
  if (source === undefined || !needsCompiling(source)) return undefined;
  const plain = source.replace(COMMENT, '');
  const compiled = compileWithEsbuild(source, [
    '--loader=ts',
    ...(PARAMETER_DECORATOR.test(plain) ? [EXPERIMENTAL] : []),
  ]);
  if (compiled.status === 'failed') return undefined;
  remember(path, compiled.sourceMap);
  const isModule = extension === 'm' || (extension === '' && (isNamedModule(format) || MODULE_SYNTAX.test(plain)));
  return { format: isModule ? 'module' : 'commonjs', source: compiled.code, shortCircuit: true };
}

function isNamedModule(format: string | null | undefined): boolean {
  return format?.startsWith('module') ?? false;
}

function needsCompiling(source: string): boolean {
  if (DECORATION.test(source.replace(COMMENT, ''))) return true;
  try {
    stripTypeScriptTypes(source);
    return false;
  } catch {
    return true;
  }
}

function readIfPossible(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8');
  } catch {
    return undefined;
  }
}
