/** Run by node's runner before the test files of a stage, and after them (`--test-global-setup`). */
import { shareService, type TestService } from './service.ts';

let service: TestService | undefined;

export async function globalSetup(): Promise<void> {
  service = await shareService();
}

export async function globalTeardown(): Promise<void> {
  await service?.close();
}
