import { type OperationNode, type RootOperationNode, TableNode } from 'kysely';

/** Returns the tables that a query writes, or `undefined` if it may write any table, as raw SQL may. */
export function writtenTables(query: RootOperationNode): readonly string[] | undefined {
  switch (query.kind) {
    case 'SelectQueryNode':
      return [];
    case 'InsertQueryNode':
      return namesOf([query.into]);
    case 'UpdateQueryNode':
      return namesOf([query.table]);
    case 'DeleteQueryNode':
      return namesOf(query.from.froms);
    default:
      return undefined;
  }
}

function namesOf(nodes: readonly (OperationNode | undefined)[]): readonly string[] | undefined {
  const tables = nodes.filter((node) => node !== undefined && TableNode.is(node));
  return tables.length === nodes.length ? tables.map(({ table }) => table.identifier.name) : undefined;
}
