export * from 'typebox-modules/compile';
