/** What one check of a host found. */
export type Finding = {
  name: string;
  /** `missing`: Cloche does not run without it. `warning`: it runs, with less. */
  status: 'ok' | 'missing' | 'warning';
  found: string;
  /** One sentence saying how to mend it; empty where all is well. */
  remedy: string;
  /** `npm start` mends it by itself. */
  installable?: true;
};

export function ok(name: string, found: string): Finding {
  return { name, status: 'ok', found, remedy: '' };
}

export function missing(name: string, found: string, remedy: string): Finding {
  return { name, status: 'missing', found, remedy };
}

export function warning(name: string, found: string, remedy: string): Finding {
  return { name, status: 'warning', found, remedy };
}
