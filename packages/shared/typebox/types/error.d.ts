export * from 'typebox-modules/error';
