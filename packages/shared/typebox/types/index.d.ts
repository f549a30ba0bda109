export * from 'typebox-modules';
