/* SPDX-License-Identifier: MIT */
/*
 * entries - makes the listing of one directory of what a source says of it.
 *
 *     source_add() -> items -> statx each that is doubted -> sort -> take: account, encode
 *     or the sink's reuse() gives a stored listing, and only entries with several names are looked at
 *
 * On a disk that moves its head items are looked at by inode number, else as they come.
 *
 * A directory of more than CHUNK entries is cut into chunks; each is sorted and encoded into a run of some ten
 * bytes an entry, and the runs are merged. Memory is then bounded by the names of the widest directory.
 *
 * Totals are taken from what is encoded, so a name that the kernel lists twice counts once.
 */
#include "scanner/internal.h"
#include "scanner/source.h"

#include <dirent.h>
#include <endian.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>

enum {
	CHUNK = 8192,
	INSERTION_MAX = 24,
};

static uint64_t prefix_of(const char *name, size_t len)
{
	uint64_t p = 0;

	if (len >= sizeof(p))
		memcpy(&p, name, sizeof(p));
	else
		memcpy(&p, name, len);
	return be64toh(p);
}

static uint8_t type_of_mode(mode_t mode)
{
	static const uint8_t types[16] = {
		[DT_REG] = SCAN_FILE,  [DT_DIR] = SCAN_DIR,     [DT_LNK] = SCAN_SYMLINK,
		[DT_FIFO] = SCAN_FIFO, [DT_SOCK] = SCAN_SOCKET, [DT_CHR] = SCAN_CHAR,
		[DT_BLK] = SCAN_BLOCK,
	};

	return types[IFTODT(mode) & 15];
}

static bool is_excluded(const struct scan_options *o, const char *name)
{
	for (char **glob = o->exclude; glob && *glob; glob++)
		if (fnmatch(*glob, name, 0) == 0)
			return true;
	return false;
}

/* Everything but a directory is looked at by name; a directory later, through its own descriptor. */
static void look(struct scan_reading *l, struct item *it, const char *name)
{
	const struct scan *s = l->w->scan;
	struct statx st;
	int r;

	it->doubt = false;
	if (it->type == SCAN_DIR || it->problem)
		return;
	r = open_statx_meta(l->w, l->fd, name, 0, &st);
	if (r < 0) {
		it->problem = r == -ENOENT ? SCAN_VANISHED : SCAN_ERROR;
		it->error = -r;
		return;
	}
	it->type = type_of_mode(st.stx_mode);
	if (it->type == SCAN_DIR)
		return;
	if (st.stx_attributes & STATX_ATTR_MOUNT_ROOT && !s->options->cross_mounts)
		it->problem = SCAN_MOUNT;
	else
		meta_from_statx(&st, s->root_dev, &it->meta);
}

static int compare_items(const struct scan_reading *l, const struct item *a, const struct item *b)
{
	int c;

	if (a->prefix != b->prefix)
		return a->prefix < b->prefix ? -1 : 1;
	c = memcmp(l->names + a->name_off, l->names + b->name_off, MIN(a->name_len, b->name_len));
	return c ? c : (int)a->name_len - (int)b->name_len;
}

static int by_name(const void *a, const void *b, void *ctx)
{
	const struct scan_reading *l = ctx;

	return compare_items(l, &l->items[*(const uint32_t *)a], &l->items[*(const uint32_t *)b]);
}

static int by_place(const void *a, const void *b, void *ctx)
{
	const struct scan_reading *l = ctx;
	uint64_t x = l->items[*(const uint32_t *)a].place, y = l->items[*(const uint32_t *)b].place;

	return (x > y) - (x < y);
}

static int number_items(struct scan_reading *l)
{
	int r = base_reserve(&l->order, &l->order_cap, l->n, sizeof(*l->order));

	for (uint32_t i = 0; r == 0 && i < l->n; i++)
		l->order[i] = i;
	return r;
}

static int sort_items(struct scan_reading *l)
{
	int r = number_items(l);

	if (r < 0)
		return r;
	if (l->n > INSERTION_MAX) {
		qsort_r(l->order, l->n, sizeof(*l->order), by_name, l);
		return 0;
	}
	for (size_t i = 1; i < l->n; i++) {
		uint32_t moving = l->order[i];
		size_t j = i;

		for (; j && compare_items(l, &l->items[l->order[j - 1]], &l->items[moving]) > 0;
		     j--)
			l->order[j] = l->order[j - 1];
		l->order[j] = moving;
	}
	return 0;
}

/* On a disk that moves its head: in the order in which inodes lie there. */
static int look_at_items(struct scan_reading *l)
{
	bool by_inode = l->w->scan->readers.by_inode;
	int r = by_inode ? number_items(l) : 0;

	if (r < 0 || !l->doubts)
		return r;
	if (by_inode && l->n)
		qsort_r(l->order, l->n, sizeof(*l->order), by_place, l);
	for (size_t i = 0; i < l->n; i++) {
		struct item *it = &l->items[by_inode ? l->order[i] : i];

		if (it->doubt)
			look(l, it, l->names + it->name_off);
	}
	l->doubts = false;
	return 0;
}

static struct scan_entry entry_of(const struct item *it, const char *name)
{
	return (struct scan_entry){
		name, it->name_len, it->type, it->problem, it->error, it->meta
	};
}

/* Sort the items of the chunk that is full and encode them into a new run. */
static int pack_run(struct scan_reading *l)
{
	struct bytes data = { 0 };
	struct entry_encoder enc = { .out = &data, .places = true };
	int r = look_at_items(l);

	if (r == 0)
		r = sort_items(l);
	for (size_t i = 0; r == 0 && i < l->n; i++) {
		const struct item *it = &l->items[l->order[i]];
		const struct scan_entry e = entry_of(it, l->names + it->name_off);

		r = entry_encode(&enc, &e, it->place);
	}
	if (r < 0) {
		free(data.p);
		return r;
	}
	l->n = 0;
	l->names_len = 0;
	return runs_add(&l->runs, &data, enc.n);
}

/* FUSE and some foreign file systems know longer names: such an entry is there, but cannot be read. */
int reading_add(struct scan_reading *l, const char *name, uint8_t type, uint64_t place,
                const struct scan_meta *known)
{
	const struct scan_options *o = l->w->scan->options;
	size_t len = strlen(name);
	struct item *it;
	int r = base_reserve(&l->items, &l->cap, l->n + 1, sizeof(*l->items));

	if (r == 0)
		r = base_reserve(&l->names, &l->names_cap, l->names_len + len + 1, 1);
	if (r < 0)
		return r;
	if (o->exclude_caches && strcmp(name, "CACHEDIR.TAG") == 0)
		l->dir->cut = true;
	it = &l->items[l->n++];
	memset(it, 0, sizeof(*it));
	it->place = place;
	it->type = type;
	it->doubt = !known && type != SCAN_DIR;
	if (known && type != SCAN_DIR)
		it->meta = *known;
	if (len > NAME_MAX) {
		len = NAME_MAX;
		it->problem = SCAN_ERROR;
		it->error = ENAMETOOLONG;
	}
	it->prefix = prefix_of(name, len);
	it->name_off = (uint32_t)l->names_len;
	it->name_len = (uint16_t)len;
	memcpy(l->names + l->names_len, name, len);
	l->names[l->names_len + len] = '\0';
	if (o->exclude && is_excluded(o, l->names + l->names_len)) {
		it->problem = SCAN_EXCLUDED;
		it->error = 0;
	}
	l->names_len += len + 1;
	l->doubts |= it->doubt;
	if (l->n < CHUNK)
		return 0;
	return l->doubts && l->fd < 0 ? -EAGAIN : pack_run(l);
}

static bool is_mount_point(const struct scan_dir *d, const char *name)
{
	const struct mount_trap *t = d->trap ? mounts_child(d->trap, name) : NULL;

	return t && t->fstype;
}

int source_add(struct scan_reading *l, const struct source_found *f)
{
	bool known = f->truth == SOURCE_KNOWN && !is_mount_point(l->dir, f->name);

	return reading_add(l, f->name, f->type, f->ino, known ? &f->meta : NULL);
}

static int add_child(struct scan_dir *d, const struct scan_entry *e, uint64_t ino, bool places)
{
	int r = base_reserve(&d->children, &d->children_cap, d->n_children + 1,
	                     sizeof(*d->children));

	if (r == 0)
		r = base_reserve(&d->child_name, &d->child_name_cap, d->n_children + 1,
		                 sizeof(*d->child_name));
	if (r == 0)
		r = base_reserve(&d->child_names, &d->child_names_cap,
		                 d->child_names_len + e->name_len + 1u, 1);
	if (r == 0 && places)
		r = base_reserve(&d->child_ino, &d->child_ino_cap, d->n_children + 1,
		                 sizeof(*d->child_ino));
	if (r < 0)
		return r;
	if (places)
		d->child_ino[d->n_children] = ino;
	memset(&d->children[d->n_children], 0, sizeof(*d->children));
	d->child_name[d->n_children++] = (uint32_t)d->child_names_len;
	memcpy(d->child_names + d->child_names_len, e->name, e->name_len);
	d->child_names[d->child_names_len + e->name_len] = '\0';
	d->child_names_len += e->name_len + 1u;
	return 0;
}

static int count_whole(struct scan_dir *d, const struct scan_meta *m)
{
	const struct link l = link_of(m);

	d->bytes += l.bytes;
	d->apparent += l.size;
	d->sum.newest = MAX(d->sum.newest, m->mtime);
	return m->multi ? link_set_add(&d->own, &l, &d->bytes, &d->apparent) : 0;
}

/* Add one entry to the directory's own sums. Sub-directories add themselves when they finish. */
static int account(struct scan_reading *l, const struct scan_entry *e, uint64_t place)
{
	const struct scan *s = l->w->scan;
	struct scan_dir *d = l->dir;

	totals_add_problem(&d->sum, e->problem);
	if (e->problem > SCAN_ERROR)
		return 0;
	if (e->type == SCAN_DIR && !e->problem)
		return add_child(d, e, place, s->readers.by_inode || s->source);
	d->sum.entries++;
	d->sum.files += e->type == SCAN_FILE;
	if (e->problem)
		return 0;
	l->made.one_owner &= e->meta.uid == d->meta.uid;
	return count_whole(d, &e->meta);
}

/* From here on all is known of the directory itself, and its entries come in order. */
static int start_taking(struct scan_reading *l)
{
	struct scan_dir *d = l->dir;
	const struct scan_dirinfo info = { .meta = d->meta,
		                           .problem = d->problem,
		                           .error = d->error };

	l->taking = true;
	l->made = (struct scan_listing){ .bytes = &l->out, .dir = d, .one_owner = true };
	l->out.len = 0;
	l->enc = (struct entry_encoder){ .out = &l->out };
	d->bytes = (size_exact)d->meta.blocks * 512;
	d->sum.newest = d->meta.mtime;
	totals_add_problem(&d->sum, d->problem);
	return l->w->scan->sink ? listing_head_encode(&l->out, &info) : 0;
}

static int take(struct scan_reading *l, const struct scan_entry *e, uint64_t place)
{
	struct entry_encoder *enc = &l->enc;
	int r;

	if (enc->n && enc->last_len == e->name_len &&
	    memcmp(enc->last, e->name, e->name_len) == 0) {
		l->dir->sum.changed++;
		return 0;
	}
	r = account(l, e, place);
	if (r < 0 || l->w->scan->sink)
		return r < 0 ? r : entry_encode(enc, e, 0);
	memcpy(enc->last, e->name, e->name_len);
	enc->last_len = e->name_len;
	enc->n++;
	return 0;
}

/*
 * A listing of before. A file with several names may have got one elsewhere, and what is excluded now is told
 * by names: all else is as it was.
 */
int scan_reuse(struct scan_reading *l, const uint8_t *entries, size_t len, uint64_t n)
{
	const struct scan_options *o = l->w->scan->options;
	struct entry_cursor c = { .p = entries, .end = entries + len, .n = n };
	char name[256];
	struct scan_entry e;
	int r = start_taking(l);

	while (r == 0 && (r = entry_decode(&c, name, &e)) > 0) {
		struct item it = { .type = e.type, .name_len = e.name_len, .meta = e.meta };

		if (o->exclude && is_excluded(o, name)) {
			it.problem = SCAN_EXCLUDED;
			it.meta = (struct scan_meta){ 0 };
		} else if (e.problem && e.type != SCAN_DIR) {
			it.problem = e.problem;
			it.error = e.error;
		} else if (e.meta.multi) {
			it.meta = (struct scan_meta){ 0 };
			look(l, &it, name);
		}
		e = entry_of(&it, name);
		r = take(l, &e, 0);
	}
	return r < 0 ? r : 1;
}

static int take_items(struct scan_reading *l)
{
	int r = sort_items(l);

	for (size_t i = 0; r == 0 && i < l->n; i++) {
		const struct item *it = &l->items[l->order[i]];
		const struct scan_entry e = entry_of(it, l->names + it->name_off);

		r = take(l, &e, it->place);
	}
	return r;
}

static int take_runs(struct scan_reading *l)
{
	struct run *first;
	int r = runs_start(&l->runs);

	while (r == 0 && (first = runs_first(&l->runs))) {
		r = take(l, &first->e, first->at.place);
		runs_next(&l->runs);
	}
	return r;
}

static void forget(struct scan_reading *l)
{
	runs_clear(&l->runs);
	l->n = l->names_len = 0;
	l->doubts = l->taking = false;
}

void reading_begin(struct scan_reading *l, struct worker *w, struct scan_dir *d, int fd)
{
	forget(l);
	l->w = w;
	l->dir = d;
	l->fd = fd;
	d->cut = false;
}

/* All entries were added: l->made is the listing, and d's own sums are right. 0 or -errno. */
int reading_finish(struct scan_reading *l)
{
	struct scan_dir *d = l->dir;
	int r = 0;

	if (d->cut) {
		forget(l);
		d->problem = SCAN_CACHE;
	}
	if (!l->taking) {
		r = l->runs.n ? pack_run(l) : look_at_items(l);
		if (r == 0)
			r = start_taking(l);
		if (r == 0)
			r = l->runs.n ? take_runs(l) : take_items(l);
	}
	l->made.n = l->enc.n;
	l->made.n_children = d->n_children;
	return r;
}

const char *scan_listing_child(const struct scan_listing *l, size_t i)
{
	return scan_dir_child_name(l->dir, i);
}

void reading_done(struct scan_reading *l)
{
	forget(l);
	free(l->items);
	free(l->order);
	free(l->names);
	free(l->runs.run);
	free(l->out.p);
}
