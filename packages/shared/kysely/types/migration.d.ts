export * from 'kysely-modules/migration';
