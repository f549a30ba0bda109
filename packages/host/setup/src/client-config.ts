import { readClientFile, writeClientFile } from '@cloche/cli/client-file';

/** Address and key with which the command line reaches this service when the environment has neither. */
export interface ClientConfig {
  readonly url: string;
  readonly apiKey: string;
}

/** Reads the configuration; undefined when there is no valid one. */
export async function readClientConfig(file: string): Promise<ClientConfig | undefined> {
  const { url, apiKey } = await readClientFile(file);
  return url === undefined || apiKey === undefined ? undefined : { url, apiKey };
}

/** Writes the configuration, beside the services that the command line has saved there. */
export async function writeClientConfig(file: string, config: ClientConfig): Promise<void> {
  await writeClientFile({ ...(await readClientFile(file)), ...config }, file);
}
