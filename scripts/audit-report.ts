interface Answer {
  readonly auditReportVersion?: number;
  readonly message?: string;
  readonly error?: { readonly summary?: string; readonly code?: string };
  readonly vulnerabilities?: Readonly<Record<string, Vulnerability>>;
}

interface Vulnerability {
  readonly severity: string;
  readonly range: string;
  /** Advisories, or the names of dependencies that have advisories. */
  readonly via: readonly (string | { readonly title: string; readonly url: string })[];
}

/** Describes the output of `npm audit --json` in words. Output without a report is no failure. */
export function describeAudit(json: string): { text: string; failed: boolean } {
  const answer = parse(json);
  if (answer.auditReportVersion === undefined) {
    const why = answer.error?.summary || answer.message || answer.error?.code || 'npm gave no reason';
    return { text: `Not audited: the registry could not be asked (${why}).`, failed: false };
  }
  const found = Object.entries(answer.vulnerabilities ?? {});
  if (found.length === 0) return { text: 'No known vulnerabilities in production dependencies.', failed: false };
  const lines = found.flatMap(([name, { severity, range, via }]) => [
    `${severity}: ${name} ${range}`,
    ...via.map((one) => (typeof one === 'string' ? `  through ${one}` : `  ${one.title} ${one.url}`)),
  ]);
  return { text: lines.join('\n'), failed: true };
}

function parse(json: string): Answer {
  try {
    return JSON.parse(json) as Answer;
  } catch {
    return { message: json.trim() || 'no answer' };
  }
}
