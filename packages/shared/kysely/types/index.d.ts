export * from 'kysely-modules';
