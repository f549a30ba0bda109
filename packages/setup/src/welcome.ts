import type { ClientConfig } from './client-config.ts';

export type Welcome = {
  url: string;
  /** Of a new installation; shown this once. */
  firstKey?: string;
  /** What the command line finds by itself, and where. */
  client?: { file: string; config: ClientConfig };
};

/** What is printed when the API answers: each line works as it stands. */
export function welcomeLines({ url, firstKey, client }: Welcome): string[] {
  const known = client !== undefined && client.config.url === url;
  const key = firstKey ?? (known ? readKeyCommand(client.file) : '$CLOCHE_API_KEY');
  const prefix = known ? '' : `CLOCHE_URL=${url} CLOCHE_API_KEY=${firstKey ?? '"$CLOCHE_API_KEY"'} `;
  const keyLines = firstKey
    ? ['', `API key, shown this once:  ${firstKey}`, ...(known ? [`kept for the command line in ${client.file}`] : [])]
    : known
      ? []
      : ['', 'Set CLOCHE_API_KEY to an API key first; `npx cloche admin key create --scopes "*"` creates one.'];
  return [
    '',
    `Cloche serves at ${url}`,
    ...keyLines,
    '',
    'Create a sandbox:',
    `  curl -sS ${url}/v1/sandboxes -H "Authorization: Bearer ${key}" -H "Content-Type: application/json" -d '{}'`,
    '',
    'Run code in one:',
    `  echo 'print(sum(range(10)))' | ${prefix}npx cloche run -`,
    '',
  ];
}

/** In the shell of whoever reads the lines. */
function readKeyCommand(file: string): string {
  return `$(node -p 'JSON.parse(fs.readFileSync("${file}")).apiKey')`;
}
