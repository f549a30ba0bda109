import { type Program, parse } from 'acorn';

/** Sloppy code, or else what only a module may hold at its top level, such as `using`. */
export function parseCell(code: string): Program {
  const options = {
    ecmaVersion: 'latest',
    allowAwaitOutsideFunction: true,
    allowImportExportEverywhere: true,
    allowHashBang: true,
  } as const;
  try {
    return parse(code, { ...options, sourceType: 'script' });
  } catch (error) {
    try {
      return parse(code, { ...options, sourceType: 'module' });
    } catch {
      throw error;
    }
  }
}
