/* SPDX-License-Identifier: MIT */
/*
 * hellofs - the least a FUSE file system can cost: what our mount is compared against.
 *
 *     MOUNTPOINT/bytes              one small file
 *     MOUNTPOINT/many/e0000000 ...  as many empty files as --entries says
 *
 * All answers come from the inode number, nothing is looked up or kept. Low-level API, several
 * threads, attributes and names cached by the kernel. Every open and opendir reaches its handler.
 *
 *     --keep-cache       an open keeps the pages that the kernel has
 *     --no-open          open and opendir say ENOSYS, and the kernel stops asking
 *     -f, -s, -o ...     as in every FUSE program
 */
#define FUSE_USE_VERSION 312
#include "base/base.h"

#include <fuse_lowlevel.h>
#include <stdio.h>
#include <sys/stat.h>

enum {
	BYTES_INO = FUSE_ROOT_ID + 1,
	MANY_INO,
	FIRST_INO,
	NAME_BYTES = 32,
	MAX_ENTRIES = 10000000, /* a name has seven digits */
};

static const double cache_s = 3600;
static const char content[] = "204804096\n";

struct hello {
	unsigned entries;
	int keep_cache, no_open;
};

static const struct fuse_opt hello_options[] = {
	{ "--entries %u", offsetof(struct hello, entries), 0 },
	{ "--keep-cache", offsetof(struct hello, keep_cache), 1 },
	{ "--no-open", offsetof(struct hello, no_open), 1 },
	FUSE_OPT_END,
};

static const struct hello *hello_of(fuse_req_t req)
{
	return fuse_req_userdata(req);
}

static bool is_dir(fuse_ino_t ino)
{
	return ino == FUSE_ROOT_ID || ino == MANY_INO;
}

static struct stat attr_of(fuse_ino_t ino)
{
	return (struct stat){
		.st_ino = ino,
		.st_nlink = is_dir(ino) ? 2 : 1,
		.st_mode = is_dir(ino) ? S_IFDIR | 0755 : S_IFREG | 0444,
		.st_size = ino == BYTES_INO ? sizeof(content) - 1 : 0,
	};
}

static struct fuse_entry_param entry_of(fuse_ino_t ino)
{
	return (struct fuse_entry_param){
		.ino = ino,
		.attr = attr_of(ino),
		.attr_timeout = cache_s,
		.entry_timeout = cache_s,
	};
}

/* The i-th entry of a directory: its inode number and name. 0 after the last. */
static fuse_ino_t nth_entry(const struct hello *h, fuse_ino_t dir, uint64_t i,
                            char name[static NAME_BYTES])
{
	if (dir == FUSE_ROOT_ID && i < 2) {
		(void)snprintf(name, NAME_BYTES, "%s", i == 0 ? "bytes" : "many");
		return i == 0 ? BYTES_INO : MANY_INO;
	}
	if (dir != MANY_INO || i >= h->entries)
		return 0;
	/* snprintf() would take longer than all the rest. */
	memcpy(name, "e0000000", 9);
	for (char *p = name + 7; i > 0; p--, i /= 10)
		*p = (char)('0' + i % 10);
	return FIRST_INO + i;
}

static fuse_ino_t find_entry(const struct hello *h, fuse_ino_t dir, const char *name)
{
	char same[NAME_BYTES];
	uint64_t i;

	if (dir == FUSE_ROOT_ID)
		i = strcmp(name, "many") == 0;
	else
		i = name[0] == 'e' ? strtoull(name + 1, NULL, 10) : UINT64_MAX;
	if (nth_entry(h, dir, i, same) == 0 || strcmp(name, same) != 0)
		return 0;
	return nth_entry(h, dir, i, same);
}

static void hello_lookup(fuse_req_t req, fuse_ino_t parent, const char *name)
{
	fuse_ino_t ino = find_entry(hello_of(req), parent, name);
	struct fuse_entry_param e = entry_of(ino);

	if (ino == 0)
		fuse_reply_err(req, ENOENT);
	else
		fuse_reply_entry(req, &e);
}

static void hello_getattr(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	struct stat st = attr_of(ino);

	(void)fi;
	fuse_reply_attr(req, &st, cache_s);
}

static void hello_open(fuse_req_t req, fuse_ino_t ino, struct fuse_file_info *fi)
{
	const struct hello *h = hello_of(req);

	(void)ino;
	fi->keep_cache = h->keep_cache != 0;
	if (h->no_open)
		fuse_reply_err(req, ENOSYS);
	else if ((fi->flags & O_ACCMODE) != O_RDONLY)
		fuse_reply_err(req, EROFS);
	else
		fuse_reply_open(req, fi);
}

static void hello_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
                       struct fuse_file_info *fi)
{
	size_t len = ino == BYTES_INO ? sizeof(content) - 1 : 0;
	size_t start = MIN((size_t)off, len);

	(void)fi;
	fuse_reply_buf(req, content + start, MIN(size, len - start));
}

typedef size_t add_entry_fn(fuse_req_t req, char *buf, size_t size, const char *name,
                            const struct fuse_entry_param *e, off_t off);

static size_t add_name(fuse_req_t req, char *buf, size_t size, const char *name,
                       const struct fuse_entry_param *e, off_t off)
{
	return fuse_add_direntry(req, buf, size, name, &e->attr, off);
}

/* Fills one answer of a listing. Offsets are ordinals: 0 to start, i + 1 behind entry i. */
static void list(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, add_entry_fn *add_entry)
{
	char *buf = malloc(size);
	char name[NAME_BYTES];
	size_t used = 0, len;

	if (!buf) {
		fuse_reply_err(req, ENOMEM);
		return;
	}
	for (uint64_t i = (uint64_t)off;; i++) {
		fuse_ino_t child = nth_entry(hello_of(req), ino, i, name);
		struct fuse_entry_param e = entry_of(child);

		if (child == 0)
			break;
		len = add_entry(req, buf + used, size - used, name, &e, (off_t)i + 1);
		if (len > size - used)
			break; /* it did not fit, and was not written */
		used += len;
	}
	fuse_reply_buf(req, buf, used);
	free(buf);
}

static void hello_readdir(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
                          struct fuse_file_info *fi)
{
	(void)fi;
	list(req, ino, size, off, add_name);
}

static void hello_readdirplus(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off,
                              struct fuse_file_info *fi)
{
	(void)fi;
	list(req, ino, size, off, fuse_add_direntry_plus);
}

static const struct fuse_lowlevel_ops hello_ops = {
	.lookup = hello_lookup,
	.getattr = hello_getattr,
	.open = hello_open,
	.opendir = hello_open,
	.read = hello_read,
	.readdir = hello_readdir,
	.readdirplus = hello_readdirplus,
};

static int run_loop(struct fuse_session *se, const struct fuse_cmdline_opts *opts)
{
	struct fuse_loop_config *config;
	int r;

	if (opts->singlethread)
		return fuse_session_loop(se);
	config = fuse_loop_cfg_create();
	fuse_loop_cfg_set_clone_fd(config, (unsigned)opts->clone_fd);
	r = fuse_session_loop_mt(se, config);
	fuse_loop_cfg_destroy(config);
	return r;
}

static int serve_mount(struct fuse_args *args, const struct fuse_cmdline_opts *opts,
                       struct hello *h)
{
	struct fuse_session *se = fuse_session_new(args, &hello_ops, sizeof(hello_ops), h);
	int r = 1;

	if (!se)
		return 1;
	if (fuse_set_signal_handlers(se) != 0)
		goto destroy;
	if (fuse_session_mount(se, opts->mountpoint) != 0)
		goto remove_handlers;
	if (fuse_daemonize(opts->foreground) == 0)
		r = run_loop(se, opts) < 0;
	fuse_session_unmount(se);
remove_handlers:
	fuse_remove_signal_handlers(se);
destroy:
	fuse_session_destroy(se);
	return r;
}

int main(int argc, char **argv)
{
	struct fuse_args args = FUSE_ARGS_INIT(argc, argv);
	struct fuse_cmdline_opts opts = { 0 };
	struct hello h = { 0 };
	int r = 2;

	if (fuse_opt_parse(&args, &h, hello_options, NULL) == 0 &&
	    fuse_parse_cmdline(&args, &opts) == 0 && opts.mountpoint && h.entries <= MAX_ENTRIES)
		r = serve_mount(&args, &opts, &h);
	else
		(void)fputs("usage: hellofs [-f] [-s] [--keep-cache] [--no-open] "
		            "[--entries N] MOUNTPOINT\n",
		            stderr);
	free(opts.mountpoint);
	fuse_opt_free_args(&args);
	return r;
}
