/* A copy of a mount whose files have shifted owners, as every sandbox has one of its template. */
#ifndef CLOCHE_SHIFTED_TREE_H
#define CLOCHE_SHIFTED_TREE_H

/*
 * Opens a user namespace that maps its ids from 0 on to those from `first_id` on, and that has no capability outside of
 * itself. The descriptor keeps it alive. Ends the process with a message on failure, as the next one does.
 */
int open_user_namespace(const char *program, unsigned long first_id);

/* Returns a descriptor of a mount of the folder that is mounted nowhere yet, with MOUNT_ATTR_* of `attributes` too. */
int open_shifted_tree(const char *program, const char *folder, int user_namespace, unsigned long attributes);

#endif
