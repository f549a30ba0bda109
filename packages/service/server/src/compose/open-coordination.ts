import { kindOf } from '../platform/db/database-kind.ts';
import type { Coordination, CoordinationDeps } from './coordination.ts';
import { openManyServers } from './many-servers.ts';
import { openOneServer } from './one-server.ts';

/** A SQLite file has one server, which locks it. Servers of a PostgreSQL database share it. The caller closes the result. */
export function openCoordination(deps: CoordinationDeps): Promise<Coordination> {
  return kindOf(deps.db) === 'sqlite' ? openOneServer(deps) : openManyServers(deps);
}
