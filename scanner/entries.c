/* SPDX-License-Identifier: MIT */
/*
 * entries - reads one directory and hands its entries out in bytewise order of their names.
 *
 *     getdents64 -> items (name, type) -> statx each -> sort -> scan_listing_next()
 *     or the sink's reuse() gives the items, and only those with several names are looked at
 *
 * On a disk that moves its head items are looked at by inode number, else as they come.
 *
 * A directory of more than CHUNK entries is cut into chunks; each is sorted and packed into a run of
 * some ten bytes an entry, and the runs are merged while they are handed out. Memory is then bounded by
 * the packed names of the widest directory, not by its entries.
 *
 * Totals are taken from what is handed out, so a name that the kernel lists twice counts once.
 */
#include "base/varint.h"
#include "scanner/internal.h"

#include <dirent.h>
#include <endian.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <limits.h>

enum {
	CHUNK = 8192,
	BUFFER = 32 * 1024,
	DIRENT_MIN = 24,
	INSERTION_MAX = 24,
	PACKED_MAX = 512
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

static uint8_t type_of_dirent(unsigned char d_type)
{
	static const uint8_t types[16] = {
		[DT_REG] = SCAN_FILE,  [DT_DIR] = SCAN_DIR,     [DT_LNK] = SCAN_SYMLINK,
		[DT_FIFO] = SCAN_FIFO, [DT_SOCK] = SCAN_SOCKET, [DT_CHR] = SCAN_CHAR,
		[DT_BLK] = SCAN_BLOCK,
	};

	return types[d_type & 15];
}

static bool is_excluded(const struct scan_options *o, const char *name)
{
	for (char **glob = o->exclude; glob && *glob; glob++)
		if (fnmatch(*glob, name, 0) == 0)
			return true;
	return false;
}

/* FUSE and some foreign file systems know longer names: such an entry is there, but cannot be read. */
static int reserve_items(struct scan_listing *l, size_t items, size_t names)
{
	int r = base_reserve(&l->items, &l->cap, l->n + items, sizeof(*l->items));

	return r < 0 ? r : base_reserve(&l->names, &l->names_cap, l->names_len + names, 1);
}

/* Room for it has been reserved. */
static struct item *add_item(struct scan_listing *l, const char *name, unsigned char d_type,
                             uint64_t d_ino)
{
	size_t len = strlen(name);
	struct item *it = &l->items[l->n++];

	*it = (struct item){ .d_ino = d_ino, .type = type_of_dirent(d_type) };
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
	l->names_len += len + 1;
	return it;
}

/* Everything but a directory is looked at by name; a directory later, through its own descriptor. */
static void stat_item(struct worker *w, int fd, struct item *it, const char *name)
{
	const struct scan *s = w->scan;
	struct statx st;
	int r;

	if (is_excluded(s->options, name)) {
		it->problem = SCAN_EXCLUDED;
		it->error = 0;
		return;
	}
	if (it->type == SCAN_DIR || it->problem)
		return;
	r = open_statx_meta(w, fd, name, 0, &st);
	if (r < 0) {
		it->problem = r == -ENOENT ? SCAN_VANISHED : SCAN_ERROR;
		it->error = -r;
		return;
	}
	it->type = type_of_dirent((unsigned char)IFTODT(st.stx_mode));
	if (it->type == SCAN_DIR)
		return;
	if (st.stx_attributes & STATX_ATTR_MOUNT_ROOT && !s->options->cross_mounts) {
		it->problem = SCAN_MOUNT;
		return;
	}
	meta_from_statx(&st, s->root_dev, &it->meta);
	if (!it->meta.multi)
		return;
	it->dev = statx_dev(&st); /* the set of links goes by the true inode number */
	it->d_ino = st.stx_ino;
}

static int pack_run(struct scan_listing *l);

/* An entry from a previous snapshot. How many names a linked file has is not known there: look again. */
int scan_listing_add(struct scan_listing *l, const struct scan_entry *e)
{
	char name[NAME_MAX + 1];
	struct item *it;
	int r = e->name_len <= NAME_MAX ? reserve_items(l, 1, sizeof(name)) : -EUCLEAN;

	if (r < 0)
		return r;
	memcpy(name, e->name, e->name_len);
	name[e->name_len] = '\0';
	it = add_item(l, name, DT_UNKNOWN, 0);
	it->type = e->type;
	it->problem = e->problem;
	it->error = e->error;
	it->meta = e->meta;
	if (e->meta.multi || is_excluded(l->w->scan->options, name))
		stat_item(l->w, l->fd, it, l->names + it->name_off);
	return l->n == CHUNK ? pack_run(l) : 0;
}

static int compare_items(const struct scan_listing *l, const struct item *a, const struct item *b)
{
	int c;

	if (a->prefix != b->prefix)
		return a->prefix < b->prefix ? -1 : 1;
	c = memcmp(l->names + a->name_off, l->names + b->name_off, MIN(a->name_len, b->name_len));
	return c ? c : (int)a->name_len - (int)b->name_len;
}

static int compare_order(const void *a, const void *b, void *ctx)
{
	const struct scan_listing *l = ctx;

	return compare_items(l, &l->items[*(const uint32_t *)a], &l->items[*(const uint32_t *)b]);
}

static int sort_items(struct scan_listing *l)
{
	int r = base_reserve(&l->order, &l->order_cap, l->n, sizeof(*l->order));

	if (r < 0)
		return r;
	for (uint32_t i = 0; i < l->n; i++)
		l->order[i] = i;
	if (l->n > INSERTION_MAX) {
		qsort_r(l->order, l->n, sizeof(*l->order), compare_order, l);
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

/* Times are differences to the directory's; owner and mode are left out if they are as before in the run. */
static uint8_t *pack_meta(uint8_t *p, const struct item *it, struct run *run)
{
	const struct scan_meta *m = &it->meta, *before = &run->owner;
	bool same = m->uid == before->uid && m->gid == before->gid && m->mode == before->mode;

	p = varint_put(p, m->size);
	p = varint_put(p, m->blocks);
	p = varint_put(p, zigzag((int64_t)((uint64_t)m->mtime - (uint64_t)run->base)));
	p = varint_put(p, (same ? 0u : (uint64_t)m->mode << 2) | (uint64_t)same << 1 | m->multi);
	if (!same) {
		p = varint_put(p, m->uid);
		p = varint_put(p, m->gid);
		run->owner = *m;
	}
	if (!m->multi)
		return p;
	p = varint_put(p, m->ino);
	p = varint_put(p, it->d_ino);
	p = varint_put(p, it->dev);
	return varint_put(p, m->nlink);
}

static const uint8_t *unpack_meta(const uint8_t *p, const uint8_t *end, struct run *run)
{
	struct item *it = &run->cur;
	struct scan_meta *m = &it->meta;
	uint64_t mtime = 0, mode = 0, uid = 0, gid = 0, nlink = 0;

	p = varint_get(p, end, &m->size);
	p = varint_get(p, end, &m->blocks);
	p = varint_get(p, end, &mtime);
	p = varint_get(p, end, &mode);
	if (!(mode & 2)) {
		p = varint_get(p, end, &uid);
		p = varint_get(p, end, &gid);
		run->owner.mode = (uint16_t)(mode >> 2);
		run->owner.uid = (uint32_t)uid;
		run->owner.gid = (uint32_t)gid;
	}
	m->mtime = (int64_t)((uint64_t)unzigzag(mtime) + (uint64_t)run->base);
	m->mode = run->owner.mode;
	m->uid = run->owner.uid;
	m->gid = run->owner.gid;
	m->multi = mode & 1;
	if (!m->multi)
		return p;
	p = varint_get(p, end, &m->ino);
	p = varint_get(p, end, &it->d_ino);
	p = varint_get(p, end, &it->dev);
	p = varint_get(p, end, &nlink);
	m->nlink = (uint32_t)nlink;
	return p;
}

static uint8_t *pack_item(uint8_t *p, const struct item *it, const char *name, const char *before,
                          struct run *run)
{
	size_t shared = 0;

	while (before && shared < it->name_len && before[shared] == name[shared])
		shared++;
	*p++ = (uint8_t)shared;
	*p++ = (uint8_t)(it->name_len - shared);
	memcpy(p, name + shared, it->name_len - shared);
	p += it->name_len - shared;
	*p++ = (uint8_t)(it->type << 4 | it->problem);
	if (it->problem)
		return varint_put(p, (uint64_t)it->error);
	return it->type == SCAN_DIR ? varint_put(p, it->d_ino) : pack_meta(p, it, run);
}

/* Decode the next item of a run; false at its end. Runs are our own memory, so they are well formed. */
static bool run_next(struct run *r)
{
	const uint8_t *p = r->data + r->pos, *end = r->data + r->len;
	uint64_t error = 0;
	size_t shared, rest;

	if (p == end)
		return false;
	shared = *p++;
	rest = *p++;
	memcpy(r->name + shared, p, rest);
	p += rest;
	r->name[shared + rest] = '\0';
	memset(&r->cur, 0, sizeof(r->cur));
	r->cur.name_len = (uint16_t)(shared + rest);
	r->cur.type = *p >> 4;
	r->cur.problem = *p++ & 15;
	if (r->cur.problem)
		p = varint_get(p, end, &error);
	else if (r->cur.type == SCAN_DIR)
		p = varint_get(p, end, &r->cur.d_ino);
	else
		p = unpack_meta(p, end, r);
	r->cur.error = (int)error;
	r->pos = (size_t)(p - r->data);
	return true;
}

/* Sort the items of the chunk that is full and pack them into a new run. */
static int pack_run(struct scan_listing *l)
{
	size_t cap = 0, len = 0;
	const char *before = NULL;
	uint8_t *data = NULL, *fit;
	struct run run = { .base = l->dir->meta.mtime }; /* most files are not far from it */
	int r = sort_items(l);

	if (r == 0)
		r = base_reserve(&l->runs, &l->runs_cap, l->n_runs + 1, sizeof(*l->runs));
	for (size_t i = 0; r == 0 && i < l->n; i++) {
		const struct item *it = &l->items[l->order[i]];
		const char *name = l->names + it->name_off;

		r = base_reserve(&data, &cap, len + PACKED_MAX, 1);
		if (r < 0)
			break;
		len = (size_t)(pack_item(data + len, it, name, before, &run) - data);
		before = name;
	}
	if (r < 0) {
		free(data);
		return r;
	}
	fit = realloc(data, MAX(len, 1));
	run.data = fit ? fit : data;
	run.len = len;
	memset(&run.owner, 0, sizeof(run.owner)); /* reading begins where packing did */
	l->runs[l->n_runs++] = run;
	l->n = 0;
	l->names_len = 0;
	return 0;
}

static int compare_runs(const struct run *a, const struct run *b)
{
	int c = memcmp(a->name, b->name, MIN(a->cur.name_len, b->cur.name_len));

	return c ? c : (int)a->cur.name_len - (int)b->cur.name_len;
}

static void heap_sink(struct scan_listing *l, size_t i)
{
	for (;;) {
		size_t least = i, child = 2 * i + 1;
		uint32_t t;

		for (size_t c = child; c < MIN(child + 2, l->heap_len); c++)
			if (compare_runs(&l->runs[l->heap[c]], &l->runs[l->heap[least]]) < 0)
				least = c;
		if (least == i)
			return;
		t = l->heap[i];
		l->heap[i] = l->heap[least];
		l->heap[least] = t;
		i = least;
	}
}

static int start_merge(struct scan_listing *l)
{
	l->heap = malloc(l->n_runs * sizeof(*l->heap));
	if (!l->heap)
		return -ENOMEM;
	l->heap_len = 0;
	for (uint32_t i = 0; i < l->n_runs; i++)
		if (run_next(&l->runs[i]))
			l->heap[l->heap_len++] = i;
	for (size_t i = l->heap_len; i-- > 0;)
		heap_sink(l, i);
	return 0;
}

static int compare_d_ino(const void *a, const void *b, void *ctx)
{
	const struct scan_listing *l = ctx;
	uint64_t x = l->items[*(const uint32_t *)a].d_ino, y = l->items[*(const uint32_t *)b].d_ino;

	return (x > y) - (x < y);
}

/* On a disk that moves its head: in the order in which inodes lie there. */
static int look_in_inode_order(struct worker *w, struct scan_listing *l, int fd)
{
	int r = base_reserve(&l->order, &l->order_cap, l->n, sizeof(*l->order));

	if (r < 0 || l->n == 0)
		return r;
	for (uint32_t i = 0; i < l->n; i++)
		l->order[i] = i;
	qsort_r(l->order, l->n, sizeof(*l->order), compare_d_ino, l);
	for (size_t i = 0; i < l->n; i++) {
		struct item *it = &l->items[l->order[i]];

		stat_item(w, fd, it, l->names + it->name_off);
	}
	return 0;
}

static int look_at_items(struct worker *w, struct scan_listing *l, int fd)
{
	if (w->scan->readers.by_inode)
		return look_in_inode_order(w, l, fd);
	for (size_t i = 0; i < l->n; i++)
		stat_item(w, fd, &l->items[i], l->names + l->items[i].name_off);
	return 0;
}

static int finish_chunk(struct worker *w, struct scan_listing *l, int fd)
{
	int r = look_at_items(w, l, fd);

	return r < 0 ? r : pack_run(l);
}

static bool is_dot(const char *name)
{
	return name[0] == '.' && (!name[1] || (name[1] == '.' && !name[2]));
}

static int add_buffer(struct worker *w, struct scan_dir *d, int fd, size_t n)
{
	struct scan_listing *l = &w->listing;
	int r = reserve_items(l, n / DIRENT_MIN + 1, n);

	for (size_t at = 0; at < n && r == 0;) {
		const struct dirent64 *e = (const struct dirent64 *)(const void *)(w->buf + at);

		at += e->d_reclen;
		if (is_dot(e->d_name))
			continue;
		if (w->scan->options->exclude_caches && strcmp(e->d_name, "CACHEDIR.TAG") == 0) {
			d->cut = true;
			return 0;
		}
		(void)add_item(l, e->d_name, e->d_type, e->d_ino);
		if (l->n == CHUNK) {
			r = finish_chunk(w, l, fd);
			if (r == 0)
				r = reserve_items(l, n / DIRENT_MIN + 1, n);
		}
	}
	return r;
}

static void forget_entries(struct scan_listing *l)
{
	for (size_t i = 0; i < l->n_runs; i++)
		free(l->runs[i].data);
	free(l->heap);
	l->heap = NULL;
	l->heap_len = l->n_runs = l->n = l->names_len = l->pos = 0;
	l->has_last = false;
}

/* ENOENT from getdents64 means that the directory was removed while it was open. */
static int read_names(struct worker *w, struct scan_dir *d, int fd)
{
	for (;;) {
		ssize_t n = getdents64(fd, w->buf, BUFFER);
		int r;

		COUNT(w->count.getdents64, 1);
		if (n == 0)
			return 0;
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			w->count.by_errno[MIN(errno, SCAN_ERRNO_SLOTS - 1)]++;
			if (errno == ENOENT && d->parent)
				return 1;
			d->problem = SCAN_ERROR;
			d->error = errno;
			return 0;
		}
		r = add_buffer(w, d, fd, (size_t)n);
		if (r < 0 || d->cut)
			return r;
	}
}

static int add_kid(struct scan_dir *d, const struct scan_entry *e, uint64_t ino, bool by_inode)
{
	int r = base_reserve(&d->kids, &d->kids_cap, d->n_kids + 1, sizeof(*d->kids));

	if (r == 0)
		r = base_reserve(&d->kid_name, &d->kid_name_cap, d->n_kids + 1,
		                 sizeof(*d->kid_name));
	if (r == 0)
		r = base_reserve(&d->kid_names, &d->kid_names_cap,
		                 d->kid_names_len + e->name_len + 1u, 1);
	if (r == 0 && by_inode)
		r = base_reserve(&d->kid_ino, &d->kid_ino_cap, d->n_kids + 1, sizeof(*d->kid_ino));
	if (r < 0)
		return r;
	if (by_inode)
		d->kid_ino[d->n_kids] = ino;
	memset(&d->kids[d->n_kids], 0, sizeof(*d->kids));
	d->kid_name[d->n_kids++] = (uint32_t)d->kid_names_len;
	memcpy(d->kid_names + d->kid_names_len, e->name, e->name_len);
	d->kid_names[d->kid_names_len + e->name_len] = '\0';
	d->kid_names_len += e->name_len + 1u;
	return 0;
}

static int count_whole(struct scan_dir *d, const struct item *it)
{
	const struct scan_meta *m = &it->meta;
	struct link l = { it->dev, it->d_ino, m->blocks * 512, m->size, m->nlink, 1 };

	d->bytes += l.bytes;
	d->apparent += l.size;
	d->sum.newest = MAX(d->sum.newest, m->mtime);
	return m->multi ? link_set_add(&d->own, &l, &d->bytes, &d->apparent) : 0;
}

/* Add one entry to the directory's own sums. Sub-directories add themselves when they finish. */
static int account(struct scan_dir *d, const struct item *it, const struct scan_entry *e,
                   bool by_inode)
{
	totals_add_problem(&d->sum, it->problem);
	if (it->problem > SCAN_ERROR)
		return 0;
	if (it->type == SCAN_DIR && !it->problem)
		return add_kid(d, e, it->d_ino, by_inode);
	d->sum.entries++;
	d->sum.files += it->type == SCAN_FILE;
	return it->problem ? 0 : count_whole(d, it);
}

static const struct item *next_item(struct scan_listing *l, const char **name)
{
	const struct item *it;

	if (l->heap) {
		struct run *r;

		if (l->heap_len == 0)
			return NULL;
		r = &l->runs[l->heap[0]];
		if (l->has_last && !run_next(r)) {
			free(r->data);
			r->data = NULL;
			r->len = r->pos = 0;
			l->heap[0] = l->heap[--l->heap_len];
		}
		if (l->has_last)
			heap_sink(l, 0);
		if (l->heap_len == 0)
			return NULL;
		r = &l->runs[l->heap[0]];
		*name = r->name;
		return &r->cur;
	}
	if (l->pos == l->n)
		return NULL;
	it = &l->items[l->order[l->pos]];
	l->pos++;
	*name = l->names + it->name_off;
	return it;
}

static bool is_repeated(const struct scan_listing *l, const struct item *it, const char *name)
{
	if (!l->heap) {
		const struct item *before = l->pos > 1 ? &l->items[l->order[l->pos - 2]] : NULL;

		return before && before->prefix == it->prefix && before->name_len == it->name_len &&
		       memcmp(l->names + before->name_off, name, it->name_len) == 0;
	}
	return l->has_last && l->last_len == it->name_len &&
	       memcmp(l->last, name, it->name_len) == 0;
}

bool scan_listing_next(struct scan_listing *l, struct scan_entry *ret)
{
	const struct item *it;
	const char *name;
	int r;

	do {
		it = next_item(l, &name);
		if (!it)
			return false;
		if (!is_repeated(l, it, name))
			break;
		l->dir->sum.changed++;
	} while (true);
	if (l->heap) {
		memcpy(l->last, name, it->name_len);
		l->last_len = it->name_len;
		l->has_last = true;
	}
	*ret = (struct scan_entry){
		name, it->name_len, it->type, it->problem, it->error, it->meta
	};
	r = account(l->dir, it, ret, l->w->scan->readers.by_inode);
	if (r < 0)
		state_fail(l->w->scan, r);
	return true;
}

static int finish_reading(struct scan_listing *l)
{
	if (l->n_runs) {
		int r = pack_run(l);

		return r < 0 ? r : start_merge(l);
	}
	return sort_items(l);
}

static int begin_reading(struct worker *w, struct scan_dir *d, int fd)
{
	struct scan_listing *l = &w->listing;

	l->w = w;
	l->dir = d;
	l->fd = fd;
	forget_entries(l);
	if (!w->buf)
		w->buf = malloc(BUFFER);
	return w->buf ? 0 : -ENOMEM;
}

/*
 * Read the entries of d through fd; then w->listing hands them out. 0, -errno when the scan cannot go
 * on, or 1 when the directory is gone.
 */
int entries_read(struct worker *w, struct scan_dir *d, int fd, const struct scan_dirinfo *info)
{
	const struct scan_sink *sink = w->scan->sink;
	struct scan_listing *l = &w->listing;
	int r = begin_reading(w, d, fd);

	if (r == 0 && sink && sink->reuse && fd >= 0)
		r = sink->reuse(sink->ctx, w->id, info, l);
	if (r < 0)
		return r;
	if (r == 0) {
		r = fd >= 0 ? read_names(w, d, fd) : 0;
		if (d->cut) {
			forget_entries(l);
			d->problem = SCAN_CACHE;
		}
		if (r != 0)
			return r;
		r = look_at_items(w, l, fd);
	}
	return r < 0 ? r : finish_reading(l);
}

void entries_done(struct scan_listing *l)
{
	forget_entries(l);
	free(l->items);
	free(l->order);
	free(l->names);
	free(l->runs);
}
