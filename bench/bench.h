/* SPDX-License-Identifier: MIT */
/*
 * bench - what the parts of bench_tool share: the options, the bars to measure, what came out.
 *
 *     bench_tool.c   options, and the flow from the data set to the report
 *     plan.c         which bars there are, the rounds, what must come out of each run
 *     child.c        one run of ours, in a process of its own
 *     spawn.c        starts any process, with a time limit, and takes its wall time and memory
 *     peers.c        the other programs: how to call them, what they counted
 *     verify.c       system calls as strace counts them
 *     bars.c         what is asked of the bars: by key, the fastest, medians, ratios
 *     targets.c      the goals, and whether they were met
 *     mount.c        the mount against a minimal FUSE program and the real tree
 *     hdd.c          the scan on a simulated rotational disk: fresh, half cached, aged
 *     check.c        exact counts against a checked-in file
 *     table.c        rows and columns: aligned, as markdown, JSON or HTML
 *     report.c       the tables of the report, and its JSON; page.c, chart.c: HTML
 *     workdir.c      the private folder, removed in the end
 *
 * Model:   a bar is one thing that is measured once per round; its samples are times, its counts are
 *          exact and the same in each run. Ratios are medians of ratios within a round.
 * Units:   times in ms, memory in KB; `apparent` is file lengths, `bytes` disk space.
 * Errors:  0 or -errno; what went wrong is said on standard error where it is known.
 * Threads: one.
 */
#ifndef BENCH_BENCH_H
#define BENCH_BENCH_H

#include "bench/dataset.h"
#include "bench/table.h"

#include <limits.h>
#include <stdio.h>

enum {
	RUNS_DEFAULT = 9,
	RUNS_MAX = 1000,
	BARS_MAX = 32,
	TEXT_BYTES = 200,
	EVIDENCE_BYTES = 240,
	READERS_LOG_BYTES = 512,
};

struct bench_options {
	enum table_format format;
	const char *output; /* NULL: standard output */
	const char *dir;    /* where the private folder is made */
	const char *tree;   /* --dataset: an existing tree, or NULL */
	const char *check, *update;
	uint64_t entries; /* 0: the full data set */
	unsigned runs;
	unsigned budget_s;  /* no round begins later, once there are three; 0: no limit */
	unsigned timeout_s; /* of one run of a peer */
	bool keep, drop_caches, verify, no_peers, mount, hdd;
};

/* -- what was measured --------------------------------------------------------------------- */

/* Exact. Calls are those of the scan. */
struct bench_counts {
	uint64_t files, dirs, entries; /* the root included */
	uint64_t apparent, bytes;
	uint64_t openat, statx, getdents, close;
	uint64_t nodes_written, index_bytes;
	uint64_t errors; /* unreadable, vanished, changed, skipped */
	uint64_t readers;
};

/* What a run of ours hands back through a pipe. */
struct child_result {
	int error;
	struct bench_counts counts;
	uint64_t scan_ns; /* without start and end of the process */
	char storage[16], evidence[EVIDENCE_BYTES];
	char readers_log[READERS_LOG_BYTES];
};

struct bench_sample {
	double wall_ms; /* from fork to exit */
	double user_ms, sys_ms;
	double scan_ms; /* ours: the scan alone */
	double rss_kb;
	unsigned round;
};

enum bar_kind {
	BAR_SCAN = 1,  /* ours, nothing stored */
	BAR_STORE = 2, /* ours, a snapshot is stored */
	BAR_FLOOR = 4, /* the minimal loop */
	BAR_PEER = 8,
	BARS_OURS = BAR_SCAN | BAR_STORE,
};

struct bench_bar {
	const char *key;   /* stable, for JSON and --check */
	const char *label; /* for people */
	enum bar_kind kind;
	unsigned threads; /* 0: chosen by the scanner */
	bool new_index;   /* BAR_STORE: no previous snapshot */
	enum dataset_step step;
	const struct peer *peer;
	bool failed; /* problem says why; no samples are taken any more */
	char problem[TEXT_BYTES];
	struct bench_sample *sample;
	uint64_t n;
	struct bench_counts counts; /* of the last run */
	bool vary;                  /* counts differed between runs */
	uint64_t strace_calls;      /* all system calls of the process; 0: not counted */
	char verified[TEXT_BYTES];  /* what strace said of the scan's own calls */

	/* For the report, made in the end. */
	const char *kind_name;
	struct bench_sample median; /* of all samples; all 0 without any */
	double min_ms, max_ms;
	char span[48];
	struct text all_ms;             /* JSON */
	double to_floor, to_peer;       /* ratios; 0: there is none */
	double scan_to_it, store_to_it; /* of our best to this one */
	uint64_t calls;                 /* of the scan */
	const char *total;              /* of a peer: how it compares, or why there is none */
	char about[TEXT_BYTES];
};

/** Fill in median, min_ms and max_ms. */
void bench_median(struct bench_bar *bar);
/** The values become sorted. */
double median_of(double *v, size_t n);
/** Median over the rounds of bar's wall time divided by base's; 0 if there is none. */
double bench_ratio(const struct bench_bar *bar, const struct bench_bar *base);

/* -- the private folder -------------------------------------------------------------------- */

struct workdir {
	char path[PATH_MAX]; /* "" when there is none */
	bool keep;
};

/** Set by SIGINT, SIGTERM and SIGHUP after bench_catch_signals(); the signal's number. */
extern volatile sig_atomic_t bench_interrupted;

void bench_catch_signals(void);
/** Make a folder for this process alone in dir (NULL: $TMPDIR or /tmp). */
int workdir_make(struct workdir *w, const char *dir);
/** Remove all that is in it, and it. Other file systems that are mounted there are left alone. */
void workdir_remove(struct workdir *w);
/** Path of name in the folder, into buf of PATH_MAX. Returns buf. */
char *workdir_path(const struct workdir *w, const char *name, char *buf);
/** Write everything out and empty the kernel's caches. */
int bench_drop_caches(void);
/** Path of a program that is built or installed together with this one, or in $PATH; -ENOENT. */
int bench_find_own(const char *name, char ret[static PATH_MAX]);
/** Path of a program in $PATH; -ENOENT. */
int bench_find_program(const char *name, char ret[static PATH_MAX]);

/* -- processes ----------------------------------------------------------------------------- */

struct spawn {
	char *const *argv;  /* argv[0] is the path */
	const char *home;   /* becomes $HOME, so that no one's settings matter; NULL: unchanged */
	const char *out;    /* file for standard output; NULL: /dev/null */
	const char *err;    /* file for standard error; NULL: /dev/null */
	unsigned timeout_s; /* 0: none */
	bool always;        /* also when a signal has come: cleans up */
	void *result;       /* filled from descriptor 3 of the process, or NULL */
	size_t result_bytes;
};

struct spawned {
	struct bench_sample sample;
	int status; /* as of waitpid(2) */
	bool timed_out;
};

/** Run a process to its end. -EINTR when interrupted; whatever the process did is no error. */
int bench_spawn(const struct spawn *s, struct spawned *ret);
/** Nothing for success, else "exit status 3", "ended by signal 9", "ended after 60 s". */
const char *spawned_problem(const struct spawned *p, const struct spawn *s,
                            char buf[static TEXT_BYTES]);
/**
 * Run a helper program, ours or one in $PATH, quietly, even when interrupted; out as in struct spawn. 0,
 * -ENOENT, -EIO if it failed: said on standard error. The arguments end with NULL.
 */
int bench_command_to(const char *out, const char *program, ...) __attribute__((sentinel));
#define bench_command(...) bench_command_to(NULL, __VA_ARGS__)
/** Start a program that serves a mount at path, in the foreground; wait until it does. */
int bench_serve(const char *path, pid_t *ret, const char *program, ...) __attribute__((sentinel));
/** End it, and see to it that path is no mount any more. 0 as pid is fine. */
void bench_stop(pid_t pid, const char *path);

/* -- our own runs -------------------------------------------------------------------------- */

/** argv of a run of bar, for bench_spawn(). Valid while bar, tree, index and the call live. */
struct child_args {
	char exe[PATH_MAX], threads[16];
	char *argv[8];
};
int child_args(struct child_args *a, const struct bench_bar *bar, const char *tree,
               const char *index);
/** The hidden command that such a process runs. Returns its exit status. */
int child_main(char **argv);
/** One run of a scan, store or floor bar. *result is empty for a floor. */
int child_run(const struct bench_bar *bar, const char *tree, const char *index, struct spawned *ret,
              struct child_result *result);

/* -- peers --------------------------------------------------------------------------------- */

enum {
	PEERS = 9,
	PEER_ARGS = 10,
	PEER_PROGRAMS = 3
};

struct peer {
	const char *name;
	const char *programs[PEER_PROGRAMS]; /* names it may have */
	const char *version;                 /* option that prints it */
	const char *args[PEER_ARGS];         /* @tree, @out and @db are replaced */
	const char *
		total_args[PEER_ARGS]; /* prints the total afterwards; empty: the run itself does */
	bool stats;                    /* looks at each entry, not at names only */
	const char *does;
	/* Reads the total that it printed; false if there is none. */
	bool (*total)(FILE *in, uint64_t *ret);
	enum {
		PEER_BYTES,
		PEER_NAMES,
		PEER_ROUNDED
	} unit;
};

extern const struct peer bench_peers[PEERS];

/* What a peer was found to be. */
struct peer_found {
	char path[PATH_MAX]; /* "": not installed */
	char version[80];
	uint64_t total;            /* as it says */
	char compared[TEXT_BYTES]; /* "same", or why it differs */
	bool differs;              /* and no reason is known */
	const char *name;          /* for the report: these three */
	bool installed, stats;
};

/* What the totals can be, by the rules that programs count by. */
struct tree_sums {
	uint64_t names;     /* without the root */
	uint64_t bytes;     /* disk space of all, each name */
	uint64_t dir_bytes; /* of which directories */
	uint64_t root_bytes;
	uint64_t dirs;
	uint64_t once; /* disk space with each inode once: what our scan says */
	uint64_t apparent, dir_apparent;
};

/** Look for a peer; fills path and version. */
void peer_find(const struct peer *p, const struct workdir *w, struct peer_found *ret);
/** argv of one run; args is bar->peer->args or ->total_args. */
struct peer_args {
	char path[PEER_ARGS][PATH_MAX];
	char *argv[PEER_ARGS + 1];
};
void peer_args(struct peer_args *a, const struct peer_found *f, const char *const *args,
               const char *tree, const struct workdir *w);
/** Run a peer once, read its total and compare it. -EINTR. Trouble goes to bar. */
int peer_compare(struct bench_bar *bar, struct peer_found *f, const char *tree,
                 const struct workdir *w, const struct tree_sums *sums, unsigned timeout_s);
/** One walk of the tree with nftw(3), on purpose not with our scanner. */
int tree_sums_get(const char *tree, struct tree_sums *ret);

/* -- everything ---------------------------------------------------------------------------- */

enum {
	MEASURES_MAX = 40,
	HDD_DECISIONS_MAX = 40
};

/* A number of --mount or --hdd. */
struct measure {
	char group[64], name[80], unit[16];
	double value;
	double ratio; /* to the first of the group; 0: none */
};

/* What --hdd measures on, as groups of measures. */
#define HDD_FRESH  "scan"
#define HDD_CACHED "scan, first half cached"
#define HDD_AGED   "scan, aged image"

/* How many readers a scan decided to have on the simulated disk. */
struct hdd_decision {
	const char *group;
	char text[TEXT_BYTES]; /* how many, when and why, as the scan tells it */
	bool right;            /* one, or what was read was cached */
};

struct machine {
	char cpu[80], kernel[120], filesystem[32], compiler[80], date[32];
	unsigned cpus;
	uint64_t memory_kb;
};

struct bench {
	struct bench_options options;
	struct workdir work;
	struct dataset_spec spec;
	char tree[PATH_MAX];
	struct machine machine;
	struct bench_bar bar[BARS_MAX];
	size_t n_bars;
	struct peer_found peer[PEERS];
	struct tree_sums sums;
	char storage[16], evidence[EVIDENCE_BYTES];
	uint64_t auto_readers;
	unsigned rounds; /* done */
	double foreign;  /* share of all processors that other programs used meanwhile */
	struct measure measure[MEASURES_MAX];
	size_t n_measures;
	struct hdd_decision decision[HDD_DECISIONS_MAX];
	size_t n_decisions;
	unsigned wrong; /* totals or counts that are not what they must be */

	/* For the report. */
	unsigned schema;
	const char *version, *existing, *caches, *fastest; /* the tree of --dataset, or "" */
	bool generated;
};

/** Say that a number is not what it must be, and count that. */
void bench_wrong(struct bench *b, const char *format, ...) PRINTF_LIKE(2, 3);
/** Lines on a terminal about what goes on; nothing elsewhere. */
void bench_progress(const char *format, ...) PRINTF_LIKE(1, 2);

/** Fill in the bars. */
void plan_bars(struct bench *b);
/** Build the data set (unless --dataset). */
int plan_build(struct bench *b);
/** Compare the peers' totals, then run all rounds. */
int plan_run(struct bench *b);
/** Say so if a run found something else than it must, or made a call too many. */
void plan_check(struct bench *b, const struct bench_bar *bar, const struct bench_counts *c);
/** Remember what the scanner took the storage for. */
void plan_take_storage(struct bench *b, const struct child_result *result);
const struct bench_bar *bench_find_bar(const struct bench *b, const char *key);
/** The fastest peer that looks at each entry, or NULL. */
const struct bench_bar *bench_fastest_peer(const struct bench *b);
/** Count system calls with strace, once per bar. */
int verify_run(struct bench *b);
/** Remember a number; the last one of a group is what the others' ratios refer to. */
void bench_measure(struct bench *b, const char *group, const char *name, double value,
                   const char *unit);
int mount_run(struct bench *b);
int hdd_run(struct bench *b);
/** --check and --update. 0: all as in the file; -EBADMSG: not. */
int check_run(struct bench *b);
void machine_get(struct machine *m, const char *tree);

/* What the processors did until now: all programs, and ours with their children. */
struct machine_use {
	uint64_t wall_ns;
	double busy_s, own_s;
};
void machine_use_get(struct machine_use *u);
/** Share of all processors that others used since then. */
double machine_foreign(const struct machine_use *then);

/* One goal of the project. */
struct target {
	const char *text, *verdict;
	double limit, value; /* 0: not measured */
	bool measured, met;
};

enum {
	TARGETS_MAX = 16
};

/** The goals with their values; returns how many. */
size_t targets_get(const struct bench *b, struct target ret[static TARGETS_MAX]);

/** The bars of some kinds as a table. */
struct table report_bars(const struct bench *b, const char *key, const char *title, unsigned kinds);
/** Write a text to a file, or to standard output (NULL). */
int report_save(const char *path, const struct text *text);
int report_write(struct bench *b);

#endif
