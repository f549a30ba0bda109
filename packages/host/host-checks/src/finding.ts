/** Result of one check of a host. */
export type Finding = {
  name: string;
  /** `missing`: Cloche cannot run. `warning`: Cloche runs with less. */
  status: 'ok' | 'missing' | 'warning';
  found: string;
  /** A sentence with the fix; empty when the check passes. */
  remedy: string;
  /** Whether starting Cloche fixes it. */
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
