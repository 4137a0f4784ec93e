/* SPDX-License-Identifier: MIT */
/*
 * readdir - listings. A place in a directory is named by generation and entry, so that reading goes on
 * after the same name when a new snapshot has come in between.
 */
#include "fs/request.h"

#include <inttypes.h>
#include <stdio.h>

/* -- readdir --------------------------------------------------------------------------------- */

enum {
	AT_DOT = 1,
	AT_DOTDOT,
	AT_USAGE,
	AT_TELEMETRY,
	AT_ENTRIES = 16, /* + ordinal of the entry that comes next */
	COOKIE_SHIFT = 40,
	COOKIE_GEN_MASK = (1 << 20) - 1,
};

struct listing { /* one reply in the making */
	struct fs *fs;
	fuse_req_t req;
	const struct gen *g;
	char *buf;
	size_t size, len;
	bool plus, full;
	uint32_t row;
	uint64_t root_key;
	struct row dir;
	const struct snap_node *n;
	struct snap_info *const *past; /* the snapshots that .usage/at lists */
	size_t n_past;
	fuse_ino_t *looked_up; /* what the reply gives to the kernel */
	size_t n_looked_up, cap;
};

static off_t cookie_of(const struct gen *g, uint64_t at)
{
	return (off_t)((uint64_t)(g->number & COOKIE_GEN_MASK) << COOKIE_SHIFT | at);
}

static bool has_room(struct listing *l, const char *name)
{
	size_t need = l->plus ? fuse_add_direntry_plus(l->req, NULL, 0, name, NULL, 0)
	                      : fuse_add_direntry(l->req, NULL, 0, name, NULL, 0);

	l->full = l->full || l->len + need > l->size;
	return !l->full;
}

/* An entry without ino is a name and a type; others have been looked up. */
static void put_entry(struct listing *l, const char *name, const struct fuse_entry_param *e,
                      uint64_t at)
{
	off_t cookie = cookie_of(l->g, at);
	char *p = l->buf + l->len;
	size_t room = l->size - l->len;

	if (e->ino &&
	    base_reserve(&l->looked_up, &l->cap, l->n_looked_up + 1, sizeof(*l->looked_up)) == 0)
		l->looked_up[l->n_looked_up++] = e->ino;
	l->len += l->plus ? fuse_add_direntry_plus(l->req, p, room, name, e, cookie)
	                  : fuse_add_direntry(l->req, p, room, name, &e->attr, cookie);
}

/* "." and "..": the kernel takes only number and type of them. */
static void put_dot(struct listing *l, const char *name, uint64_t ino, uint64_t at)
{
	struct fuse_entry_param e = { .attr = { .st_ino = ino, .st_mode = S_IFDIR | 0755 } };

	if (has_room(l, name))
		put_entry(l, name, &e, at);
}

static uint64_t parent_ino(struct fs *fs, uint32_t row)
{
	struct row r, up;

	if (row == ROW_TOP || !rows_get(&fs->rows, row, &r) || !rows_get(&fs->rows, r.parent, &up))
		(void)rows_get(&fs->rows, ROW_TOP, &up);
	return ino_row(&fs->ino, &up);
}

static void put_virtual_dir(struct listing *l, const char *name, uint8_t virt, uint64_t at)
{
	struct fuse_entry_param e = { .attr = { .st_ino = ino_virtual(&l->fs->ino, &l->dir, virt),
		                                .st_mode = S_IFDIR | 0555 } };

	if (!has_room(l, name))
		return;
	if (l->plus && lookup_virtual_dir(l->fs, l->g, l->row, virt, &e) < 0)
		return;
	e.entry_timeout = e.attr_timeout = req_timeout(l->fs, l->g);
	put_entry(l, name, &e, at);
}

static void name_only(struct listing *l, const struct snap_entry *e, struct stat *ret)
{
	ret->st_mode = attr_mode(e->type);
	if (e->type == SCAN_DIR && e->child)
		ret->st_ino = ino_dir(&l->fs->ino,
		                      ino_key(&l->fs->ino, l->dir.key, e->name, e->name_len), 0);
	else
		ret->st_ino = ino_file(l->fs, l->g, l->row, &l->dir, e, &l->root_key);
}

static int put_real(struct listing *l, const struct snap_entry *e)
{
	struct fuse_entry_param p = { 0 };
	char shown[260];
	int r = 0;

	name_to_shown(l->row == ROW_TOP, e->name, shown);
	if (!has_room(l, shown))
		return 0;
	if (!l->plus)
		name_only(l, e, &p.attr);
	else if (e->type == SCAN_DIR && e->child)
		r = entry_dir(l->fs, l->g, l->row, &l->dir, l->n, e, &p);
	else
		r = entry_file(l->fs, l->g, l->row, &l->dir, e, &l->root_key, &p);
	if (r == -EUCLEAN) { /* whoever asks for it is told; its neighbours are whole */
		name_only(l, e, &p.attr);
		r = 0;
	}
	if (r < 0)
		return r;
	p.entry_timeout = p.attr_timeout = req_timeout(l->fs, l->g);
	put_entry(l, shown, &p, AT_ENTRIES + e->ordinal + 1);
	return 0;
}

/* Where to go on in this generation after the entry that another one had at this place. */
static uint64_t translate(struct fs *fs, const struct snap_node *n, uint32_t row, uint32_t gen,
                          uint64_t next)
{
	struct gen *old = next ? view_gen(&fs->view, gen, COOKIE_GEN_MASK) : NULL;
	struct snap_iter it;
	struct snap_node then;
	struct snap_entry e;
	uint64_t where = next;

	if (!old)
		return next;
	if (place_node(fs, old, row, &then) == 0) {
		snap_iter_init(&it, &then);
		if (snap_iter_seek(&it, next - 1) == 0 && snap_iter_next(&it) > 0)
			where +=
				snap_node_find(n, it.e.name, it.e.name_len, &e, &where) > 0 ? 1 : 0;
		snap_node_put(fs->s, &then);
	}
	gen_put(&fs->view, old);
	return where;
}

static int put_entries(struct listing *l, const struct snap_node *n, uint64_t next)
{
	struct snap_iter it;
	int r;

	snap_iter_init(&it, n);
	r = snap_iter_seek(&it, next);
	while (r == 0 && !l->full) {
		r = snap_iter_next(&it);
		if (r <= 0)
			return r;
		r = snap_entry_exists(&it.e) ? put_real(l, &it.e) : 0;
	}
	/* What is in the buffer already counts as looked up, so it must be sent. */
	if (r < 0 && l->len)
		r = 0;
	return r;
}

static int list_dir(struct listing *l, off_t off)
{
	uint64_t at = (uint64_t)off & ((UINT64_C(1) << COOKIE_SHIFT) - 1);
	uint32_t gen = (uint32_t)((uint64_t)off >> COOKIE_SHIFT);
	bool top = l->row == ROW_TOP;
	struct snap_node n;
	struct row dir;
	uint64_t next;
	int r;

	if (!rows_get(&l->fs->rows, l->row, &dir))
		return -ESTALE;
	r = place_node(l->fs, l->g, l->row, &n);
	if (r < 0)
		return r;
	l->dir = dir;
	l->n = &n;
	if (at < AT_DOT)
		put_dot(l, ".", ino_row(&l->fs->ino, &dir), AT_DOT);
	if (at < AT_DOTDOT)
		put_dot(l, "..", parent_ino(l->fs, l->row), AT_DOTDOT);
	if (at < AT_USAGE && (top || l->fs->o->show_usage))
		put_virtual_dir(l, ".usage", V_USAGE, AT_USAGE);
	if (at < AT_TELEMETRY && top)
		put_virtual_dir(l, ".telemetry", V_TELEMETRY, AT_TELEMETRY);
	next = at > AT_ENTRIES ? at - AT_ENTRIES : 0;
	if (gen != (l->g->number & COOKIE_GEN_MASK))
		next = translate(l->fs, &n, l->row, gen, next);
	r = put_entries(l, &n, next);
	snap_node_put(l->fs->s, &n);
	return r;
}

struct virtual_entry {
	char name[64];
	uint64_t ino;
	mode_t mode;
};

static bool telemetry_entry(struct fs *fs, const struct row *row, size_t i,
                            struct virtual_entry *ret)
{
	if (i >= n_live_files)
		return false;
	(void)snprintf(ret->name, sizeof(ret->name), "%s", live_files[i].name + 11);
	ret->ino = ino_virtual(&fs->ino, row, (uint8_t)(V_LIVE + i));
	ret->mode = S_IFREG | live_mode(i);
	return true;
}

/* Twins come after their file, growth after all files. at is reached by name only: it holds whole trees. */
static bool usage_entry(struct fs *fs, const struct row *row, uint8_t dir, size_t i,
                        struct virtual_entry *ret)
{
	for (size_t f = 0; f < n_usage_files; f++) {
		for (unsigned twin = 0; twin <= usage_files[f].twin; twin++) {
			uint8_t virt = (uint8_t)(f | (twin ? V_TWIN : 0));

			if (virt_dir(virt) != dir || !usage_is_offered(row, virt) || i-- > 0)
				continue;
			usage_file_name(virt, ret->name);
			ret->ino = ino_virtual(&fs->ino, row, virt);
			ret->mode = S_IFREG | 0444;
			return true;
		}
	}
	if (dir != V_USAGE || i > 0 || fixed_kind(row->fixed) == FIXED_GROWTH)
		return false;
	(void)snprintf(ret->name, sizeof(ret->name), "growth");
	ret->ino = ino_virtual(&fs->ino, row, V_GROWTH);
	ret->mode = S_IFDIR | 0555;
	return true;
}

/* The ids of the snapshots that may hold the directory. */
static bool at_entry(const struct listing *l, const struct row *row, size_t i,
                     struct virtual_entry *ret)
{
	const struct snap_info *info = i < l->n_past ? l->past[i] : NULL;

	if (!info)
		return false;
	(void)snprintf(ret->name, sizeof(ret->name), "%" PRId64, info->id);
	ret->ino = ino_dir(&l->fs->ino, key_at(l->fs, row, ret->name, info->id), 0);
	ret->mode = S_IFDIR | 0555;
	return true;
}

static void find_past(struct listing *l)
{
	const struct snap_info *shown = place_snapshot(l->fs, l->g, l->row);
	const struct snap_root *root = shown ? snap_root_find(&l->g->roots, shown->root) : NULL;

	l->past = root ? root->info : l->g->all.info;
	l->n_past = root ? root->n : l->g->all.n;
}

static bool window_entry(const struct listing *l, const struct row *row, size_t i,
                         struct virtual_entry *ret)
{
	if (i >= WINDOWS)
		return false;
	(void)snprintf(ret->name, sizeof(ret->name), "%s", windows[i].name);
	ret->ino = ino_dir(&l->fs->ino, key_window(l->fs, row, l->g, i), 0);
	ret->mode = S_IFDIR | 0555;
	return true;
}

static bool virtual_entry(const struct listing *l, const struct row *row, uint8_t dir, size_t i,
                          struct virtual_entry *ret)
{
	switch (dir) {
	case V_TELEMETRY:
		return telemetry_entry(l->fs, row, i, ret);
	case V_AT:
		return at_entry(l, row, i, ret);
	case V_GROWN:
		return window_entry(l, row, i, ret);
	default:
		return usage_entry(l->fs, row, dir, i, ret);
	}
}

/* Names and types only, so that listing .usage gathers no text. */
static int list_virtual(struct listing *l, uint8_t dir, off_t off)
{
	struct virtual_entry v;
	struct row at;

	if (!rows_get(&l->fs->rows, l->row, &at))
		return -ESTALE;
	if (dir == V_AT)
		find_past(l);
	off &= (INT64_C(1) << COOKIE_SHIFT) - 1; /* these places are the same in all generations */
	if (off < 1)
		put_dot(l, ".", ino_virtual(&l->fs->ino, &at, dir), 1);
	if (off < 2)
		put_dot(l, "..", ino_row(&l->fs->ino, &at), 2);
	for (size_t i = off > 2 ? (size_t)off - 2 : 0;
	     !l->full && virtual_entry(l, &at, dir, i, &v); i++) {
		struct fuse_entry_param e = { .attr = { .st_ino = v.ino, .st_mode = v.mode } };

		if (has_room(l, v.name))
			put_entry(l, v.name, &e, i + 3);
	}
	return 0;
}

static int list(struct listing *l, const struct node_id *id, off_t off)
{
	if (id->kind == NODE_DIR)
		return list_dir(l, off);
	if (id->kind != NODE_VIRTUAL || !is_virtual_dir(id->virt))
		return -ENOTDIR;
	return list_virtual(l, id->virt, off);
}

static void send(struct listing *l)
{
	if (fuse_reply_buf(l->req, l->buf, l->len) == 0)
		return;
	/* The reader was killed: the kernel will not forget what it never got. */
	for (size_t i = 0; i < l->n_looked_up; i++)
		req_forget(l->fs, l->looked_up[i], 1);
}

static void do_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, bool plus)
{
	struct fs *fs = req_begin(req, plus ? C_READDIRPLUS : C_READDIR);
	struct node_id id = node_id_unpack(ino);
	struct listing l = { .fs = fs, .req = req, .size = size, .plus = plus, .row = id.row };
	struct gen *g;
	int r;

	l.buf = malloc(size);
	do {
		g = view_now(&fs->view);
		l.g = g;
		l.len = 0;
		r = l.buf ? list(&l, &id, off) : -ENOMEM;
		gen_put(&fs->view, g);
	} while (r == -EAGAIN);
	if (r < 0)
		req_error(fs, req, r);
	else
		send(&l);
	free(l.buf);
	free(l.looked_up);
	req_end(fs);
}

void op_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi)
{
	(void)fi;
	do_readdir(req, ino, size, off, false);
}

void op_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
                    struct fuse_file_info *fi)
{
	(void)fi;
	do_readdir(req, ino, size, off, true);
}
