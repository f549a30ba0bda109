import { ID_PREFIXES, type OrgId, type ProjectId } from '@cloche/contract';
import { AppError } from '../base/app-error.ts';
import type { Clock } from '../base/clock.ts';
import type { IdSource } from '../base/id-source.ts';
import type { Database } from '../db/database.ts';
import { type Transaction, Transactions } from '../db/transactions.ts';
import { nameKey } from './project.ts';

const FIRST_ORG = 'default';
const DEFAULT_PROJECT = 'default';

export interface Org {
  readonly id: OrgId;
  readonly name: string;
  readonly defaultProjectId: ProjectId;
  readonly createdAt: number;
}

/** Stores organizations, each created together with its default project. */
export class OrgRepository {
  readonly #db: Database;
  readonly #transactions: Transactions;
  readonly #clock: Clock;
  readonly #ids: IdSource;

  constructor(db: Database, clock: Clock, ids: IdSource) {
    this.#db = db;
    this.#transactions = new Transactions(db);
    this.#clock = clock;
    this.#ids = ids;
  }

  /**
   * Creates an organization and its default project.
   *
   * @param appendEvent appends the audit event in the same transaction
   * @throws AppError `conflict` when the name is taken.
   */
  async create(name: string, appendEvent?: (tx: Transaction, org: Org) => Promise<void>): Promise<Org> {
    const org: Org = {
      id: this.#ids.next(ID_PREFIXES.org),
      name,
      defaultProjectId: this.#ids.next(ID_PREFIXES.project),
      createdAt: this.#clock.now(),
    };
    await this.#transactions.run(async (tx) => {
      const inserted = await tx.db
        .insertInto('orgs')
        .values({ id: org.id, name, created_at: org.createdAt })
        .onConflict((conflict) => conflict.column('name').doNothing())
        .returning('id')
        .executeTakeFirst();
      if (!inserted) throw new AppError('conflict', `An organization "${name}" already exists; choose another name.`);
      await tx.db
        .insertInto('projects')
        .values({
          id: org.defaultProjectId,
          org_id: org.id,
          name: DEFAULT_PROJECT,
          name_key: nameKey(DEFAULT_PROJECT),
          is_default: 1,
          created_at: org.createdAt,
          updated_at: org.createdAt,
        })
        .execute();
      await appendEvent?.(tx, org);
    });
    return org;
  }

  /** Returns all organizations, oldest first. */
  async list(): Promise<Org[]> {
    const rows = await this.#select().execute();
    return rows.map(toOrg);
  }

  /** Returns the organization with this id or name. */
  async find(idOrName: string): Promise<Org | undefined> {
    const row = await this.#select()
      .where((where) => where.or([where('orgs.id', '=', idOrName), where('orgs.name', '=', idOrName)]))
      .executeTakeFirst();
    return row && toOrg(row);
  }

  /** Returns the first organization, and creates it if there is none. */
  async ensureFirst(): Promise<Org> {
    const first = await this.#first();
    if (first) return first;
    try {
      return await this.create(FIRST_ORG);
    } catch (error) {
      const ofAnotherServer = await this.#first();
      if (!ofAnotherServer) throw error;
      return ofAnotherServer;
    }
  }

  async #first(): Promise<Org | undefined> {
    const row = await this.#select().limit(1).executeTakeFirst();
    return row && toOrg(row);
  }

  #select() {
    return this.#db
      .selectFrom('orgs')
      .innerJoin('projects', (join) => join.onRef('projects.org_id', '=', 'orgs.id').on('projects.is_default', '=', 1))
      .select(['orgs.id', 'orgs.name', 'orgs.created_at', 'projects.id as default_project_id'])
      .orderBy('orgs.created_at')
      .orderBy('orgs.id');
  }
}

function toOrg(row: { id: string; name: string; created_at: number; default_project_id: string }): Org {
  return {
    id: row.id as OrgId,
    name: row.name,
    defaultProjectId: row.default_project_id as ProjectId,
    createdAt: row.created_at,
  };
}
