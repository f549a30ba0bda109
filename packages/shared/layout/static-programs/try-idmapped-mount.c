/*
 * Tries an idmapped mount of a folder, as every sandbox has one of its template, and mounts it nowhere:
 *   try-idmapped-mount FOLDER
 * Fails with the reason of the kernel.
 */
#include "shifted-tree.h"
#include "system.h"

#define PROGRAM "try-idmapped-mount"

int run(int argc, char **argv, char **environment) {
    (void)environment;
    if (argc != 2) die(PROGRAM, "names a folder", 0);
    open_shifted_tree(PROGRAM, argv[1], open_user_namespace(PROGRAM, 100000), 0);
    return 0;
}
