/* SPDX-License-Identifier: MIT */
/*
 * fixed - the ways into trees that never change: .usage/at/SNAPSHOT and .growth/WINDOW.
 */
#include "fs/request.h"

#include <inttypes.h>
#include <stdio.h>

/* -- the past and growth: ways into trees that never change -- */

/* The row and entry of a fixed tree's first directory. */
static int enter(struct fs *fs, const struct gen *g, struct row *want, struct fuse_entry_param *ret)
{
	struct snap_node n;
	uint32_t row;
	int r = snap_node_get(fs->s, want->ref, &n);

	if (r < 0)
		return r;
	row = rows_lookup(&fs->rows, want, &fs->view.now, g);
	attr_dir(ino_row(&fs->ino, want), &n, &ret->attr);
	snap_node_put(fs->s, &n);
	ret->ino = row;
	ret->attr_timeout = TIMEOUT_FOREVER;
	return row ? 0 : -ENOMEM;
}

uint64_t key_window(struct fs *fs, const struct row *top, const struct gen *g, size_t window)
{
	char name[48];
	int n = snprintf(name, sizeof(name), "%s/%" PRIu32, windows[window].name, g->number);

	return ino_key(&fs->ino, ino_key_virtual(&fs->ino, top->key, V_GROWN), name, (size_t)n);
}

/* The numbers of an id and of a word that means it now differ, so that each is a directory of its own. */
uint64_t key_at(struct fs *fs, const struct row *dir, const char *name, int64_t id)
{
	char full[300];
	bool is_id = name[strspn(name, "0123456789")] == '\0';
	int n = is_id ? snprintf(full, sizeof(full), "%" PRId64, id)
	              : snprintf(full, sizeof(full), "%.255s/%" PRId64, name, id);

	return ino_key(&fs->ino, ino_key_virtual(&fs->ino, dir->key, V_AT), full, (size_t)n);
}

static int ref_then(struct fs *fs, struct gen *g, uint32_t row, const struct snap_info *shown,
                    const struct snap_info *then, uint64_t *ret)
{
	struct text path = { 0 };
	int r = place_source(fs, g, row, &path);

	if (r == 0)
		r = view_ref_then(&fs->view, g, path.p, shown, then, ret);
	text_done(&path);
	return r;
}

static uint32_t fixed_at(const struct row *dir, int64_t id)
{
	uint32_t fixed = fixed_make(FIXED_AT, id);

	return dir->fixed == fixed ? fixed_make(FIXED_AT_AGAIN, id) : fixed;
}

int lookup_at(struct fs *fs, struct gen *g, uint32_t parent, const char *name,
              struct fuse_entry_param *ret)
{
	const struct snap_info *shown = place_snapshot(fs, g, parent), *then;
	struct row dir, at = { .parent = parent & ROW_MASK };
	uint32_t row;
	int r = 0;

	then = view_select_then(g, shown, name);
	if (!then || !rows_get(&fs->rows, parent, &dir))
		return -ENOENT;
	at.key = key_at(fs, &dir, name, then->id);
	at.fixed = fixed_at(&dir, then->id);
	(void)pthread_rwlock_rdlock(&fs->rows.lock);
	row = rows_find(&fs->rows, &at);
	at.ref = row ? rows_at(&fs->rows, row)->ref : 0;
	(void)pthread_rwlock_unlock(&fs->rows.lock);
	if (!at.ref)
		r = ref_then(fs, g, parent, shown, then, &at.ref);
	if (r == 0)
		r = enter(fs, g, &at, ret);
	/* What "prev" or a time means changes with the next snapshot; an id stays. */
	if (name[strspn(name, "0123456789")] != '\0')
		ret->entry_timeout = TIMEOUT_NEVER;
	return r == -EINVAL ? -ENOENT : r;
}

static void job_window(struct fs *fs, struct job *j)
{
	size_t window = node_id_unpack(j->ino).virt - V_WINDOW;
	struct fuse_entry_param e = { .entry_timeout = TIMEOUT_NEVER };
	struct gen *g = view_now(&fs->view);
	struct row top,
		want = { .parent = ROW_TOP, .fixed = fixed_make(FIXED_GROWTH, (int64_t)window) };
	int r;

	(void)pthread_mutex_lock(&g->lock);
	r = grown_make(&fs->view, g, window, &want.ref);
	(void)pthread_mutex_unlock(&g->lock);
	if (r == 0 && !rows_get(&fs->rows, ROW_TOP, &top))
		r = -ESTALE;
	if (r == 0) {
		want.key = key_window(fs, &top, g, window);
		r = enter(fs, g, &want, &e);
	}
	jobs_end(j);
	(void)pthread_rwlock_rdlock(&fs->requests);
	if (r < 0)
		req_error(fs, j->req, r);
	else
		req_entry(fs, j->req, g, &e);
	req_end(fs);
	gen_put(&fs->view, g);
}

/* True if the reply comes later, from a job. */
bool lookup_window(struct fs *fs, fuse_req_t req, const char *name, int *r)
{
	struct node_id id = { .kind = NODE_VIRTUAL, .row = ROW_TOP };
	int window = window_find(name);

	*r = window < 0 ? -ENOENT : 0;
	if (window < 0)
		return false;
	id.virt = (uint8_t)(V_WINDOW + window);
	req_park(fs, req, node_id_pack(&id), job_window, 0, 0);
	return true;
}
