export * from 'typebox-modules/value';
