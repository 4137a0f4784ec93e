/* SPDX-License-Identifier: MIT */
/*
 * tree - builds directory trees for tests, from a table or at random, and removes them for sure.
 *
 * Model:   every tree is a private folder in the temporary directory of this test program. A second
 *          process waits for the program to end, however it ends, and removes what is left.
 * Errors:  a tree that cannot be built ends the program: no test has a meaning then.
 */
#ifndef TESTS_TREE_H
#define TESTS_TREE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct tree {
	char path[128]; /* absolute, canonical */
	int fd;
};

enum tree_kind {
	TREE_END, /* closes a table */
	TREE_DIR,
	TREE_FILE,   /* size bytes are written */
	TREE_SPARSE, /* size bytes, none of them written */
	TREE_SYMLINK,
	TREE_FIFO,
	TREE_SOCKET,
	TREE_LINK, /* another name of target, which is in the tree */
};

struct tree_row {
	const char *path; /* relative; its directory exists */
	enum tree_kind kind;
	uint64_t size;
	const char *target;
};

/* For tables: tree_build(t, ROWS(IS_DIR("a"), IS_FILE("a/b", 5000))). */
#define ROWS(...)                               \
	(const struct tree_row[])               \
	{                                       \
		__VA_ARGS__,                    \
		{                               \
			NULL, TREE_END, 0, NULL \
		}                               \
	}
#define IS_DIR(path)                    \
	{                               \
		path, TREE_DIR, 0, NULL \
	}
#define IS_FILE(path, size)                 \
	{                                   \
		path, TREE_FILE, size, NULL \
	}
#define IS_SPARSE(path, size)                 \
	{                                     \
		path, TREE_SPARSE, size, NULL \
	}
#define IS_SYMLINK(path, to)              \
	{                                 \
		path, TREE_SYMLINK, 0, to \
	}
#define IS_FIFO(path)                    \
	{                                \
		path, TREE_FIFO, 0, NULL \
	}
#define IS_SOCKET(path)                    \
	{                                  \
		path, TREE_SOCKET, 0, NULL \
	}
#define IS_LINK(path, to)              \
	{                              \
		path, TREE_LINK, 0, to \
	}

/** Build the trees of this program in memory if there is a place: for many files. Before the first tree_new(). */
void tree_prefer_memory(void);
/** A new, empty tree. */
void tree_new(struct tree *ret);
/** Adds the rows up to the one without a path. */
void tree_build(const struct tree *t, const struct tree_row *rows);
/** Adds some n entries: names of raw bytes, all kinds, hard links across directories. */
void tree_random(const struct tree *t, uint64_t seed, size_t n);
/** A chain of directories named "d", deeper than any path; the last one holds an empty file "end". */
void tree_chain(const struct tree *t, size_t depth);
/** Removes it; fine if done already. No path is used, so depth does not matter. */
void tree_remove(struct tree *t);

/** Writes a file of size bytes at path below the tree, replacing what is there. */
void tree_write(const struct tree *t, const char *path, size_t size);

/** From here on, what this program mounts in its trees is for itself alone. False where it may not mount. */
bool tree_private_mounts(void);

/** The next number of a fixed sequence. */
uint64_t tree_draw(uint64_t *state);

#endif
