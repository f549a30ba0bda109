import { type Program, parse } from 'acorn';

/** Parses a cell as sloppy code. If that fails, parses it as a module, which allows for example top-level `using`. */
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
