/** Returns labels as one line, such as `team=blue app=web`. */
export function labelsText(labels: Readonly<Record<string, unknown>>, missing = ''): string {
  return Object.entries(labels)
    .map(([key, value]) => `${key}=${value ?? missing}`)
    .join(' ');
}
