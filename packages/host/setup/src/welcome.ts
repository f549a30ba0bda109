import { clocheCommand } from '@cloche/layout';
import type { ClientConfig } from './client-config.ts';

export type Welcome = {
  url: string;
  /** Key of a new installation; shown only this once. */
  firstKey?: string;
  /** Configuration that the command line finds, and its file. */
  client?: { file: string; config: ClientConfig };
};

/** Returns the lines to print when the API answers; each command can be copied unchanged. */
export function welcomeLines({ url, firstKey, client }: Welcome): string[] {
  const known = client !== undefined && client.config.url === url;
  const key = firstKey ?? (known ? readKeyCommand(client.file) : '$CLOCHE_API_KEY');
  const prefix = known ? '' : `CLOCHE_URL=${url} CLOCHE_API_KEY=${firstKey ?? '"$CLOCHE_API_KEY"'} `;
  const keyLines = firstKey
    ? ['', `API key (shown only now):  ${firstKey}`, ...(known ? [`saved for the command line in ${client.file}`] : [])]
    : known
      ? []
      : [
          '',
          `Set CLOCHE_API_KEY to an API key first; \`${clocheCommand('admin key create --scopes "*"')}\` creates one.`,
        ];
  return [
    '',
    `Cloche serves at ${url}`,
    ...keyLines,
    '',
    'Create a sandbox:',
    `  curl -sS ${url}/v1/sandboxes -H "Authorization: Bearer ${key}" -H "Content-Type: application/json" -d '{}'`,
    '',
    'Run code in a new sandbox:',
    `  echo 'print(sum(range(10)))' | ${prefix}${clocheCommand('run -')}`,
    '',
  ];
}

/** Returns a command substitution, for the reader's shell, which may have no Node in its PATH. */
function readKeyCommand(file: string): string {
  return `$(sed -n 's/.*"apiKey": "\\(.*\\)".*/\\1/p' ${file})`;
}
