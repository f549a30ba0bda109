import { createAgentServer } from './agent-server.ts';
import { readConfig } from './config.ts';
import { ContextRegistry } from './context-registry.ts';

const config = readConfig(process.env);
const contexts = new ContextRegistry(config);
const server = createAgentServer(contexts);
server.listen(config.listen);

async function shutDown(): Promise<void> {
  server.close();
  await contexts.closeAll();
  process.exit(0);
}
process.once('SIGTERM', shutDown);
process.once('SIGINT', shutDown);
