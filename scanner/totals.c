/* SPDX-License-Identifier: MIT */
/* totals - see totals.h. */
#include "scanner/scanner.h"

#include <assert.h>

#define FIELD(member, ...)                                                                   \
	{                                                                                    \
		.name = #member, .offset = offsetof(struct scan_totals, member), __VA_ARGS__ \
	}

const struct totals_field totals_fields[TOTALS_FIELDS] = {
	/* clang-format off */
	FIELD(bytes,    .how = TOTALS_SIZE,  .help = "disk space in use, in bytes"),
	FIELD(apparent, .how = TOTALS_SIZE,  .help = "sum of file lengths, in bytes"),
	FIELD(files,    .how = TOTALS_COUNT, .help = "number of regular files below"),
	FIELD(dirs,     .how = TOTALS_COUNT, .self = 1, .help = "number of directories below"),
	FIELD(entries,  .how = TOTALS_COUNT, .self = 1, .help = "number of files, directories and others below"),
	FIELD(shared,   .how = TOTALS_SIZE,  .help = "bytes whose files also have a name elsewhere"),
	FIELD(errors,   .how = TOTALS_COUNT, .help = "number of things that could not be read"),
	FIELD(vanished, .how = TOTALS_COUNT, .help = "number of things that went away during the scan"),
	FIELD(changed,  .how = TOTALS_COUNT, .help = "number of things that moved or were replaced during the scan"),
	FIELD(skipped,  .how = TOTALS_COUNT, .help = "number of things left out: mounts, exclusions"),
	FIELD(newest,   .how = TOTALS_TIME,  .help = "newest modification here or below, Unix time"),
	/* clang-format on */
};

/* The table is complete: as many rows as members, all of 64 bits, so that it can be walked as an array. */
static_assert(offsetof(struct scan_totals, newest) == (TOTALS_FIELDS - 1) * sizeof(uint64_t),
              "struct scan_totals holds nothing but 64-bit numbers");

static uint64_t *at(struct scan_totals *t, const struct totals_field *f)
{
	return (uint64_t *)(void *)((char *)t + f->offset);
}

int64_t totals_get(const struct scan_totals *t, const struct totals_field *f)
{
	int64_t v;

	memcpy(&v, (const char *)t + f->offset, sizeof(v));
	return v;
}

void totals_add(struct scan_totals *t, const struct scan_totals *child)
{
	for (size_t i = 0; i < TOTALS_FIELDS; i++) {
		const struct totals_field *f = &totals_fields[i];
		uint64_t *v = at(t, f), by = (uint64_t)totals_get(child, f) + f->self;

		if (f->how == TOTALS_SIZE)
			*v = size_sum(*v, by);
		else if (f->how == TOTALS_COUNT)
			*v += by;
		else
			*v = (uint64_t)MAX((int64_t)*v, (int64_t)by);
	}
}

void totals_subtract(struct scan_totals *t, const struct scan_totals *child)
{
	for (size_t i = 0; i < TOTALS_FIELDS; i++) {
		const struct totals_field *f = &totals_fields[i];
		uint64_t *v = at(t, f), by = (uint64_t)totals_get(child, f) + f->self;

		if (f->how != TOTALS_TIME)
			*v -= MIN(*v, by);
	}
}

void totals_add_problem(struct scan_totals *t, unsigned problem)
{
	switch (problem) {
	case SCAN_OK:
		break;
	case SCAN_ERROR:
		t->errors++;
		break;
	case SCAN_VANISHED:
		t->vanished++;
		break;
	case SCAN_CHANGED:
		t->changed++;
		break;
	default:
		t->skipped++;
	}
}

uint64_t totals_problems(const struct scan_totals *t)
{
	return t->errors + t->vanished + t->changed + t->skipped;
}
